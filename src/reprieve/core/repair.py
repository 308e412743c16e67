"""What is wrong with a model's answer, and the words that ask it to mend it.

An answer is read leniently and judged strictly: JSON is looked for in a fence or among prose, in time that grows with the
length of the text alone, and what is found is taken only if it fits. Whether to ask again is decided in `decide`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_PROBLEMS: Final = 8
"""So many are told: more of them help neither a model nor a person."""
_MOST_TEXTS: Final = 16
_LONGEST_MESSAGE: Final = 300
_LONGEST_ECHO: Final = 20_000
_FENCE: Final = "```"
_CLOSING: Final = {"}": "{", "]": "["}
_THOUGHT: Final = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an answer."""

    kind: str
    """A word made from the schema alone, such as `missing`: holds nothing of the answer."""
    message: str
    path: tuple[str | int, ...] = ()
    """Where in the answer; empty: all of it."""

    @property
    def told(self) -> str:
        """In one line, for the model and for people; may quote the answer."""
        where = ".".join(str(part) for part in self.path)
        return shortened(f"at {where}: {self.message}" if where else self.message, _LONGEST_MESSAGE)


def told(problems: Sequence[Problem]) -> list[str]:
    """The first of them, one line each, and how many there are besides."""
    lines = [problem.told for problem in problems[:MOST_PROBLEMS]]
    more = len(problems) - len(lines)
    return [*lines, f"and {more} more"] if more > 0 else lines


def shortened(text: str, longest: int) -> str:
    """Its beginning and its end, with a mark for what is left out between them."""
    if len(text) <= longest:
        return text
    half = (longest - 3) // 2
    return f"{text[: longest - 3 - half]}...{text[len(text) - half :]}"


def json_texts(text: str) -> tuple[list[str], list[str]]:
    """The parts of an answer that may be the JSON that was asked for: what stands in fences, and what brackets enclose.

    Those of one kind do not overlap, so that reading all of them takes no longer than reading the whole twice.
    """
    return _largest(_fenced(text)), _largest(_bracketed(text))


def without_thoughts(text: str) -> str:
    """What a model says besides what it thinks aloud: `<think>...</think>` is not the answer.

    Some templates cut the opening tag off: all that stands before a closing tag without one was thought. What is left open
    is thought to its end. A tag between brackets that match is part of a value.
    """
    if _THOUGHT.search(text) is None:
        return text
    said: list[str] = []
    spans = iter(_spans(text))
    begin, end = next(spans, (0, 0))
    at, thinking = 0, False
    for tag in _THOUGHT.finditer(text):
        while end and end <= tag.start():
            begin, end = next(spans, (0, 0))
        if begin < tag.start() < end:
            continue
        if not tag[1]:
            if not thinking:
                said.append(text[at : tag.start()])
            thinking = True
            continue
        if not thinking:
            said.clear()
        at, thinking = tag.end(), False
    return "\n".join(said if thinking else [*said, text[at:]])


def _largest(found: list[str]) -> list[str]:
    """Those worth trying, in their order."""
    if len(found) <= _MOST_TEXTS:
        return found
    chosen = sorted(range(len(found)), key=lambda index: -len(found[index]))[:_MOST_TEXTS]
    return [found[index] for index in sorted(chosen)]


def _fenced(text: str) -> list[str]:
    """What stands between fences, without the language; a last fence that never closes counts as closed."""
    inside = [part.partition("\n") for part in text.split(_FENCE)[1::2]]
    bodies = [after if newline else first for first, newline, after in inside]
    return [body for part in bodies if (body := part.strip()) and body[0] in '{["-0123456789tfn']


def _bracketed(text: str) -> list[str]:
    """What brackets enclose."""
    return [text[begin:end] for begin, end in _spans(text)]


def _spans(text: str) -> list[tuple[int, int]]:
    """The largest spans from a bracket to the one that closes it, in one pass: none is begun again."""
    opened: list[tuple[str, int]] = []
    spans: list[tuple[int, int]] = []
    quoted = escaped = False
    for index, character in enumerate(text):
        if quoted:
            # JSON has no line ends in its strings: a quote that is left open does not swallow the rest.
            quoted = character != "\n" and (escaped or character != '"')
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted, escaped = bool(opened), False
        elif character in "{[":
            opened.append((character, index))
        elif character in _CLOSING:
            _close(text, index, opened, spans)
    # Of a value that was cut off, no part is the value, and what came before it is not the whole answer.
    return [] if any(_begins_json(text, index) for _, index in opened) else spans


def _close(text: str, index: int, opened: list[tuple[str, int]], spans: list[tuple[int, int]]) -> None:
    """Make a span of what this bracket closes, in place of those within it; what it does not match was prose."""
    if not opened or opened[-1][0] != _CLOSING[text[index]]:
        _drop_within(text, opened, spans)
        opened.clear()
        return
    begin = opened.pop()[1]
    while spans and spans[-1][0] > begin:
        spans.pop()
    spans.append((begin, index + 1))


def _drop_within(text: str, opened: list[tuple[str, int]], spans: list[tuple[int, int]]) -> None:
    """A part of a value that is broken is not the value."""
    first = next((index for _, index in opened if _begins_json(text, index)), len(text))
    while spans and spans[-1][0] > first:
        spans.pop()


def _begins_json(text: str, index: int) -> bool:
    """Whether a bracket begins a value, and is not one of prose."""
    after = text[index + 1 : index + 40].lstrip()
    return after[:1] == '"' if text[index] == "{" else after[:1] in set('"{[-0123456789')


def instruction(schema: object) -> str:
    """What tells a model the form of its answer."""
    return (
        "Answer with one JSON value that fits this JSON Schema, and with nothing else: no explanation, no code fence.\n"
        f"{compact(schema)}"
    )


def request(problems: Sequence[Problem], schema: object, samples: Iterable[object] = ()) -> str:
    """What asks a model to mend its answer: the specific errors, the schema, and the samples it was asked about (LLM-4.2)."""
    parts = ["Your answer could not be used:", *(f"- {line}" for line in told(problems))]
    shown = [sample if isinstance(sample, str) else compact(sample) for sample in samples]
    if shown:
        parts += ["", "The samples:", *(f"- {sample}" for sample in shown)]
    return _sendable("\n".join([*parts, "", instruction(schema)]))


def echo(answer: str) -> str:
    """The answer as the model is shown it again; a huge one without its middle, an empty one as words."""
    return _sendable(shortened(answer, _LONGEST_ECHO)) if answer.strip() else "(an empty answer)"


def _sendable(text: str) -> str:
    """Without lone surrogates, which a model may write and no request can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


def compact(value: object) -> str:
    """As JSON, on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
