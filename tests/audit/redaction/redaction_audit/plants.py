"""What was planted, and the ruler: what of it is still there."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

RUN = 6
SPOKEN_RUN = 12
MARKER = re.compile(r"\[redacted:([^\]\[]*)\]")
LABEL = re.compile(r"[a-z][a-z0-9-]*")
_WORD = re.compile(r"[^\W\d_]{6,}")
_BREAKS = re.compile(r"[\s\"'\\&<>]+")


@dataclass(frozen=True, slots=True)
class Plant:
    """A text with what has to go and what has to stay."""

    kind: str
    embedding: str
    text: str
    secrets: tuple[str, ...]
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chat:
    """A quoted chat: its secrets are what was said, its frame is the same text with nothing said."""

    plant: Plant
    frame: str


@dataclass(slots=True)
class Tally:
    """How many were planted and what became of them, by kind."""

    planted: Counter[str] = field(default_factory=Counter)
    missed: dict[str, list[tuple[Plant, str, str]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def total(self) -> int:
        """All plants."""
        return self.planted.total()

    @property
    def misses(self) -> int:
        """Those that failed."""
        return sum(len(found) for found in self.missed.values())

    @property
    def rate(self) -> float:
        """The share that went as it should."""
        return 1 - self.misses / self.total

    def report(self, title: str, examples: int = 3) -> str:
        """The figures, then the misses grouped by kind with where they were."""
        lines = [f"{title}: {self.total - self.misses} of {self.total} ({self.rate:.2%}), {len(self.planted)} kinds"]
        for kind, found in sorted(self.missed.items(), key=lambda item: -len(item[1])):
            places = Counter(plant.embedding.split(" ")[0] for plant, _, _ in found)
            where = ", ".join(f"{name} {count}" for name, count in places.most_common())
            lines.append(f"  {kind}: {len(found)} of {self.planted[kind]} missed ({where})")
            for plant, left, output in found[:examples]:
                at = output.find(left)
                around = output[max(0, at - 90) : at + len(left) + 60]
                lines.append(f"      [{plant.embedding}] left {left!r} in {around!r}")
        return "\n".join(lines)


def pieces_of(secret: str) -> list[str]:
    """The secret, broken where an escape may stand: none of the pieces may stay."""
    return [piece for piece in _BREAKS.split(secret) if len(piece) > 2]


def settled(make_plant: Callable[[], Plant], attempts: int = 20) -> Plant:
    """Draw until no short piece of the secret occurs elsewhere in its text."""
    for _ in range(attempts):
        plant = make_plant()
        pieces = [piece for secret in plant.secrets for piece in pieces_of(secret)]
        if all(plant.text.count(piece) == 1 for piece in pieces if len(piece) < 6):
            return plant
    return plant


def left_of(secret: str, text: str, frame: str = "") -> str | None:
    """The first run of the secret's characters that is in the text and not in its frame; None if it is gone."""
    bare = MARKER.sub("\0", text)
    for piece in pieces_of(secret):
        size = min(RUN, len(piece))
        for at in range(len(piece) - size + 1):
            if piece[at : at + size] in bare and piece[at : at + size] not in frame:
                end = at + size
                while end < len(piece) and piece[at : end + 1] in bare:
                    end += 1
                return piece[at:end]
    return None


def frame_of(plant: Plant) -> str:
    """The text without its secrets: what stands there besides is nobody's to hide."""
    frame = plant.text
    for piece in (piece for secret in plant.secrets for piece in pieces_of(secret)):
        frame = frame.replace(piece, "\0")
    return frame


def tell_tale(plant: Plant, output: str) -> str | None:
    """A marker that is malformed or repeats a run of the secret; None if all are mute."""
    for label in MARKER.findall(output):
        if not LABEL.fullmatch(label):
            return label
        # The head of a vendor's key is its public name, which a label may share.
        bodies = [secret if len(secret) <= 16 else secret[12:] for secret in plant.secrets]
        if any(label[at : at + 6] in body for body in bodies for at in range(len(label) - 5)):
            return label
    return None


def removed(plants: Iterable[Plant], redact: Callable[[str], str]) -> Tally:
    """Which secrets are gone."""
    tally = Tally()
    for plant in plants:
        tally.planted[plant.kind] += 1
        output = redact(plant.text)
        frame = frame_of(plant)
        left = next((found for secret in plant.secrets if (found := left_of(secret, output, frame))), None)
        if left is not None:
            tally.missed[plant.kind].append((plant, left, output))
    return tally


def survived(plants: Iterable[Plant], redact: Callable[[str], str]) -> Tally:
    """Which identifiers are still there, whole."""
    tally = Tally()
    for plant in plants:
        output = redact(plant.text)
        for word in plant.keep:
            tally.planted[plant.kind] += 1
            if word not in output:
                tally.missed[plant.kind].append((plant, "[redacted", output))
    return tally


def hushed(chats: Iterable[Chat], redact: Callable[[str], str]) -> Tally:
    """Which chats say nothing any more."""
    tally = Tally()
    for chat in chats:
        tally.planted[chat.plant.kind] += 1
        output = redact(chat.plant.text)
        left = heard(chat, output)
        if left is not None:
            tally.missed[chat.plant.kind].append((chat.plant, left, output))
    return tally


def heard(chat: Chat, text: str) -> str | None:
    """A word or run of what was said that the text still holds and its frame does not; None if all is hushed."""
    bare = MARKER.sub("\0", text)
    for said in chat.plant.secrets:
        for word in _WORD.findall(said):
            if word in bare and word not in chat.frame:
                return word
        for form in _forms(said):
            for at in range(len(form) - SPOKEN_RUN + 1):
                run = form[at : at + SPOKEN_RUN]
                if run in bare and run not in chat.frame:
                    return run
    return None


def _forms(said: str) -> set[str]:
    """The string as it is, as Python shows it, and escaped once to three times."""
    forms = {said, repr(said)[1:-1]}
    escaped = said
    for _ in range(3):
        escaped = json.dumps(escaped)[1:-1]
        forms.add(escaped)
    return forms
