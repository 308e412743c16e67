"""Asks a model about a diff: one question for each part, each paid for once, and one review made of the answers."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import accumulate
from string import Template
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, create_model

import reprieve
from reprieve import UsageError
from reprieve.models import Prompt, Role, Turn
from reprieve.review.critic.findings import Finding, Severity, quoted
from reprieve.review.critic.review import TOY_MODEL, ModelUsage, Review

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve import Job
    from reprieve.models import Model, Reply
    from reprieve.review.changes import Change
    from reprieve.review.diffs import FileDiff
    from reprieve.review.fetching import Diff

_LONGEST_KEY: Final = 400
_NAMES: Final = ("diff", "facts", "files", "title", "part", "parts", "mark")
"""What a template may ask for; `diff` is what it has to."""
_MOST_FINDINGS: Final = 50
_MOST_SAID: Final = 30_000
"""Characters of all findings; with a summary, no message gets larger than one may be."""
_LONGEST_SUMMARY: Final = 10_000
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""As git has them: a line of a file may hold other signs that end lines elsewhere."""
_LONGEST_HEADER: Final = 50


class Opinion(BaseModel):
    """What the model says of one part."""

    model_config = ConfigDict(frozen=True)

    summary: str
    severity: Severity
    findings: tuple[Finding, ...] = ()


class PartOpinion(BaseModel):
    """The opinion of one part, and what it took."""

    model_config = ConfigDict(frozen=True)

    opinion: Opinion | None
    """None where the answer is not shown to people, as of the toy model."""
    usage: ModelUsage = ModelUsage()


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
    is_toy: bool = False
    """Whether the model is the embedded one: asked for a severity and one line, which no review shows."""


class ToyModel:
    """The embedded model under a name that says what it is, also in the queue of answers that wait for a person."""

    name: Final = TOY_MODEL

    def __init__(self, model: Model) -> None:
        self._model = model

    async def ask(
        self,
        prompt: Prompt,
        *,
        schema: Mapping[str, object] | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109 - the signature of Model
    ) -> Reply:
        """Ask the embedded model."""
        return replace(await self._model.ask(prompt, schema=schema, timeout=timeout), model=TOY_MODEL)

    async def close(self) -> None:
        """Close the embedded model."""
        await self._model.close()


@dataclass(frozen=True, slots=True)
class Part:
    """What one question is about."""

    name: str
    paths: tuple[str, ...]
    text: str


class ModelCritic:
    """Asks a model about diffs."""

    def __init__(self, model: Model, *, template: str | None = None, words: Words = Words()) -> None:  # noqa: B008 - frozen
        self.model, self._words = (ToyModel(model) if words.is_toy else model), words
        self._tells_schema = words.tells_schema and template is not None  # ours says what an answer is made of
        shipped = "toy.txt" if words.is_toy else "review.txt"
        self._template = _checked(prompt_text(shipped) if template is None else template)
        self._form: type[BaseModel] = _toy_form(words) if words.is_toy else _form(words)

    @property
    def name(self) -> str:
        """The name of the model as reports show it."""
        return self.model.name

    async def review(self, job: Job[Change], diff: Diff, facts: Sequence[Finding] = ()) -> Review:
        """Ask about all parts, a few at a time; what was answered before a failure is remembered and not asked again."""
        parts = split(diff.files, self._words.part_characters)
        if self._words.is_toy:
            parts = parts[:1]
        turn = asyncio.Semaphore(self._words.at_once)

        async def one(place: int, part: Part) -> PartOpinion:
            async with turn:
                return await job.remember(
                    part.name, lambda: self._ask(diff.title, part, place, len(parts), facts), type=PartOpinion
                )

        went = await asyncio.gather(*[one(place, part) for place, part in enumerate(parts, 1)], return_exceptions=True)
        for each in went:
            if isinstance(each, BaseException):
                raise each
        answers = [each for each in went if isinstance(each, PartOpinion)]
        usage = sum((each.usage for each in answers), ModelUsage())
        opinions = [each.opinion for each in answers if each.opinion is not None]
        if self._words.is_toy:
            return Review(model=self.name, usage=usage, parts=len(parts))
        return replace(merge(diff, parts, opinions, model=self.name), usage=usage)

    async def _ask(self, title: str, part: Part, place: int, parts: int, facts: Sequence[Finding]) -> PartOpinion:
        # A digest of the part: a line of the diff cannot contain it, and so cannot close the marks around the diff.
        mark = hashlib.sha256(part.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        text = self._template.substitute(
            diff=part.text, facts=_facts_text(part, facts), files=", ".join(part.paths), title=title, part=place,
            parts=parts, mark=mark,
        )  # fmt: skip
        prompt = Prompt(
            turns=(Turn(Role.USER, text),), system=prompt_text("system.txt"), max_tokens=self._words.answer_tokens,
            temperature=self._words.temperature,
        )  # fmt: skip
        began = time.monotonic()
        answer = await reprieve.guarded(
            self.model, prompt, schema=self._form, timeout=self._words.seconds, tell_schema=self._tells_schema
        )
        usage = ModelUsage(
            input_tokens=answer.usage.input_tokens or 0, output_tokens=answer.usage.output_tokens or 0,
            cost=answer.usage.cost or 0.0, seconds=time.monotonic() - began,
        )  # fmt: skip
        opinion = None if self._words.is_toy else Opinion.model_validate(answer.value.model_dump())
        return PartOpinion(opinion=opinion, usage=usage)


def _facts_text(part: Part, facts: Sequence[Finding]) -> str:
    """The findings of the rules in a part, one line each; the model is not asked to repeat them."""
    lines = [f"{each.place} {each.severity} {each.rule}: {each.comment}" for each in facts if each.file in part.paths]
    return "\n".join(lines) or "none"


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
        "Finding", file=(str, Field(max_length=words.path_characters)), line=(int, Field(ge=1)), comment=short,
        severity=(Severity, Severity.MEDIUM),
    )  # fmt: skip
    return create_model(
        "Opinion",
        summary=(str, Field(max_length=words.characters)),
        severity=(Severity, ...),
        findings=(list[finding], Field(max_length=words.findings)),  # type: ignore[valid-type]  # made a line above
    )


def _toy_form(words: Words) -> type[BaseModel]:
    """A severity and one line: what a model of 135 million parameters may manage."""
    line: Any = (str, Field(max_length=words.characters))
    return create_model("ToyOpinion", severity=(Severity, ...), line=line)


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
                quote = quoted(by_path[path].line(finding.line))
                kept[finding.model_copy(update={"file": path, "origin": model, "quote": quote})] = None
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
