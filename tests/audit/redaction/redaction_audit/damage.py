"""How much of a clean text a redactor takes away."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from redaction_audit.plants import MARKER


@dataclass(slots=True)
class Damage:
    """Characters before and characters lost, by source, with what stood there."""

    characters: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def rate(self) -> float:
        """The share of all characters that was lost."""
        return self.lost.total() / self.characters.total()

    def report(self, examples: int = 8) -> str:
        """The figures by source, then what was taken."""
        lines = [f"clean text: {self.lost.total()} of {self.characters.total()} characters damaged ({self.rate:.4%})"]
        for source, count in self.characters.most_common():
            lines.append(f"  {source}: {self.lost[source]} of {count} ({self.lost[source] / count:.4%})")
            lines += [f"      {label}: {line!r}" for label, line in self.places[source][:examples]]
        return "\n".join(lines)


def damage(texts: Iterable[tuple[str, str]], redact: Callable[[str], str]) -> Damage:
    """What is missing once the markers are taken out again."""
    found = Damage()
    for source, text in texts:
        found.characters[source] += len(text)
        output = redact(text)
        if output != text:
            found.lost[source] += max(1, len(text) - len(MARKER.sub("", output)))
            found.places[source] += _taken(text, output)
    return found


def _taken(text: str, output: str) -> list[tuple[str, str]]:
    """Each marker with what it took, and a little of what stood around."""
    at, places = 0, []
    pieces = MARKER.split(output)
    literals = pieces[::2]
    for literal, label, following in zip(literals, pieces[1::2], literals[1:], strict=False):
        at = max(at, text.find(literal, at)) + len(literal)
        end = text.find(following, at) if following else len(text)
        places.append((label, f"{text[max(0, at - 50) : at]}>>>{text[at:end][:80]}<<<{text[end : end + 25]}"))
    return places
