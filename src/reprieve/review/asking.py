"""The second stage: a question to the model for each part of a diff, each paid for once, and one review out of the answers."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import accumulate
from string import Template
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, create_model

import reprieve
from reprieve import UsageError
from reprieve.models import Prompt, Role, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve import Job
    from reprieve.models import Model
    from reprieve.review.changes import Change
    from reprieve.review.diffs import FileDiff
    from reprieve.review.fetching import Diff

_LONGEST_KEY: Final = 400
_NAMES: Final = ("diff", "files", "title", "part", "parts", "mark")
"""What a template may ask for; `diff` is what it has to."""
_MOST_FINDINGS: Final = 50
_MOST_SAID: Final = 30_000
"""Characters of all findings; with a summary, no message gets larger than one may be."""
_LONGEST_SUMMARY: Final = 10_000
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""As git has them: a line of a file may hold other signs that end lines elsewhere."""
_LONGEST_HEADER: Final = 50


class Severity(StrEnum):
    """How bad it is, the least first."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Finding(BaseModel):
    """One thing that is wrong, and where."""

    model_config = ConfigDict(frozen=True)

    file: str
    line: int
    comment: str


class Opinion(BaseModel):
    """What the model says of one part."""

    model_config = ConfigDict(frozen=True)

    summary: str
    severity: Severity
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What the second stage found."""

    summary: str
    severity: Severity
    findings: tuple[Finding, ...]
    dropped: int = 0
    """Findings that point outside the diff."""
    parts: int = 1
    model: str = ""
    """Empty where a person wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How much is asked and answered at a time."""

    part_characters: int = 12_000
    """A diff that is longer is split by file, a file that is longer by hunk."""
    answer_tokens: int = 1_000
    characters: int = 1_000
    """In a summary or a comment."""
    path_characters: int = 500
    findings: int = 20
    tells_schema: bool = True
    """Whether the answer's form is told with a prompt that may not describe it."""
    temperature: float | None = None
    seconds: float = 120.0
    at_once: int = 4


@dataclass(frozen=True, slots=True)
class Part:
    """What one question is about."""

    name: str
    paths: tuple[str, ...]
    text: str


class Critic:
    """Asks a model about diffs."""

    def __init__(self, model: Model, *, template: str | None = None, words: Words = Words()) -> None:  # noqa: B008 - frozen
        self.model, self._words = model, words
        self._tells_schema = words.tells_schema and template is not None  # ours says what an answer is made of
        self._template = _checked(prompt_text("review.txt") if template is None else template)
        self._form = _form(words)

    async def review(self, job: Job[Change], diff: Diff) -> Review:
        """All parts, a few at a time; what was answered before a failure is remembered, and not asked again."""
        parts = split(diff.files, self._words.part_characters)
        turn = asyncio.Semaphore(self._words.at_once)

        async def one(place: int, part: Part) -> Opinion:
            async with turn:
                return await job.remember(
                    part.name, lambda: self._ask(diff.title, part, place, len(parts)), type=Opinion
                )

        went = await asyncio.gather(*[one(place, part) for place, part in enumerate(parts, 1)], return_exceptions=True)
        for each in went:
            if isinstance(each, BaseException):
                raise each
        return merge(diff, parts, [each for each in went if isinstance(each, Opinion)], model=self.model.name)

    async def _ask(self, title: str, part: Part, place: int, parts: int) -> Opinion:
        mark = hashlib.sha256(part.text.encode("utf-8", "surrogatepass")).hexdigest()[
            :16
        ]  # nobody can write it into a diff
        text = self._template.substitute(
            diff=part.text, files=", ".join(part.paths), title=title, part=place, parts=parts, mark=mark
        )
        prompt = Prompt(
            turns=(Turn(Role.USER, text),), system=prompt_text("system.txt"), max_tokens=self._words.answer_tokens,
            temperature=self._words.temperature,
        )  # fmt: skip
        answer = await reprieve.guarded(
            self.model, prompt, schema=self._form, timeout=self._words.seconds, tell_schema=self._tells_schema
        )
        return Opinion.model_validate(answer.value.model_dump())


@cache
def prompt_text(name: str) -> str:
    """A prompt that comes with the package."""
    return (files("reprieve.review") / "prompts" / name).read_text(encoding="utf-8")


def _checked(text: str) -> Template:
    template = Template(text)
    if not template.is_valid() or "diff" not in template.get_identifiers():
        raise UsageError("a prompt is a text with $diff in it, where a dollar sign of its own is written $$")
    strange = sorted(set(template.get_identifiers()) - set(_NAMES))
    if strange:
        raise UsageError(
            f"a prompt knows nothing of ${strange[0]}; there are: {', '.join('$' + name for name in _NAMES)}"
        )
    return template


def _form(words: Words) -> type[BaseModel]:
    """What an answer has to be: as long as the settings allow."""
    short: Any = (str, Field(max_length=words.characters))
    finding = create_model(
        "Finding", file=(str, Field(max_length=words.path_characters)), line=(int, Field(ge=1)), comment=short
    )
    return create_model(
        "Opinion",
        summary=(str, Field(max_length=words.characters)),
        severity=(Severity, ...),
        findings=(list[finding], Field(max_length=words.findings)),  # type: ignore[valid-type]  # made a line above
    )


def split(diff: Sequence[FileDiff], most: int) -> list[Part]:
    """One part where all of it fits, else one or more for each file."""
    whole = "\n".join(_shown(each.path, each.text) for each in diff)
    if len(whole) <= most:
        return [Part("everything", tuple(each.path for each in diff), whole)] if diff else []
    return [part for each in diff for part in _parts_of(each, most)]


def _parts_of(file: FileDiff, most: int) -> Iterable[Part]:
    pieces, size = [""], 0
    for hunk in _hunks(file.text, most):
        if size and size + len(hunk) > most:
            pieces.append("")
            size = 0
        pieces[-1] += hunk
        size += len(hunk)
    digest = hashlib.sha256(file.path.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    name = file.path if len(file.path) <= _LONGEST_KEY and file.path.isprintable() else f"file {digest}"
    for place, piece in enumerate(pieces, 1):
        yield Part(name if len(pieces) == 1 else f"{name}#{place}", (file.path,), _shown(file.path, piece))


def _hunks(text: str, most: int) -> Iterable[str]:
    """Hunk by hunk; one that is too long goes on in another, which says at which lines."""
    hunk, old, new = "", 0, 0
    for line in _LINE.findall(text):
        found = _HUNK.match(line)
        if found:
            old, new = int(found[1]), int(found[2])
            if hunk:
                yield hunk
            hunk = line[:most]
            continue
        for piece in _pieces(line, max(1, most - _LONGEST_HEADER)):
            if hunk and len(hunk) + len(piece) > most:
                yield hunk
                hunk = f"@@ -{old} +{new} @@ continued\n"
            hunk += piece
        old, new = old + line.startswith(("-", " ")), new + line.startswith(("+", " "))
    if hunk:
        yield hunk


def _pieces(line: str, most: int) -> Iterable[str]:
    """A line, or where it is too long one piece of it after another, each with the sign it begins with."""
    yield line[:most]
    for place in range(most, len(line), most):
        yield line[0] + line[place : place + most]


def _shown(path: str, text: str) -> str:
    return f"--- {path}\n{text}"


def merge(diff: Diff, parts: Sequence[Part], opinions: Sequence[Opinion], *, model: str) -> Review:
    """One review: the worst severity, all findings that point into the diff, once each, and how many did not."""
    by_path = {file.path: file for file in diff.files}
    kept: dict[Finding, None] = {}
    dropped = 0
    for part, opinion in zip(parts, opinions, strict=True):
        for finding in opinion.findings:
            path = finding.file if finding.file in part.paths else finding.file.removeprefix("b/")
            if path in part.paths and by_path[path].covers(finding.line):
                kept[finding.model_copy(update={"file": path})] = None
            else:
                dropped += 1
    findings = sorted(kept, key=lambda each: (each.file, each.line))
    told = _told(findings)
    return Review(
        summary=_summary(parts, opinions),
        severity=max((opinion.severity for opinion in opinions), key=list(Severity).index, default=Severity.NONE),
        findings=told, dropped=dropped + len(findings) - len(told), parts=len(parts), model=model,
    )  # fmt: skip


def _summary(parts: Sequence[Part], opinions: Sequence[Opinion]) -> str:
    if not opinions:
        return "There is nothing to review: every changed file is binary, generated or too large."
    if len(opinions) == 1:
        return opinions[0].summary[:_LONGEST_SUMMARY]
    lines: list[str] = []
    left = _LONGEST_SUMMARY
    for part, opinion in zip(parts, opinions, strict=True):
        line = f"{part.name}: {opinion.summary}"
        left -= len(line)
        if left < 0:
            return "\n".join([*lines, f"... and {len(parts) - len(lines)} more parts, whose summaries are left out."])
        lines.append(line)
    return "\n".join(lines)


def _told(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """As many as a message holds."""
    sizes = accumulate(len(each.file) + len(each.comment) for each in findings[:_MOST_FINDINGS])
    return tuple(each for each, size in zip(findings, sizes, strict=False) if size <= _MOST_SAID)
