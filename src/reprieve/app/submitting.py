"""What a caller hands over becomes an intent; what the store answers becomes a Submission."""

from __future__ import annotations

import gc
import secrets
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from reprieve.app.pipeline import Pipeline
from reprieve.core.backoff import LONGEST, require_number, require_whole, shown
from reprieve.core.value import value
from reprieve.errors import SubmitError, UsageError
from reprieve.ports.intents import HIGHEST_VERSION, KeyTaken, Submit, Submitted, VersionTooLow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reprieve.app.application import App

    Answer = Submitted | KeyTaken | VersionTooLow

_AT_ONCE: Final = 1000
"""Jobs in one transaction of a bulk submission."""
_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
"""Bytes of payloads in one, unless it is a single one."""
_LONGEST_KEY: Final = 500
_LATEST: Final = 253_402_300_799.0
"""The end of the year 9999, after which databases know no time."""


@value
class Item:
    """One job of many: what `submit` takes, as a value."""

    payload: object = field(kw_only=False)
    idempotency_key: str | None = None
    subject: str | None = None
    version: int | Literal["next"] | None = None
    priority: int = 0
    delay: float | timedelta | None = None
    run_at: float | datetime | None = None


@value
class Submission:
    """The job that there is now, and whether it is new."""

    job_id: int
    idempotency_key: str
    duplicate: bool
    """It was there before; nothing was created."""
    mismatch: bool
    """It was there before, with another payload than the one given now."""
    superseded: tuple[int, ...] = ()
    """Jobs of older versions that were cancelled for this one."""
    version: int | None = None
    """Which version it is, where the next one was asked for."""
    app: App = field(repr=False, compare=False)
    pipeline: Pipeline = field(repr=False, compare=False)

    async def result(self, *, timeout: float | None = None) -> Any:  # noqa: ANN401, ASYNC109 - the job's own result; the job is not cancelled
        """Wait for it: what the last stage returned."""
        return await self.app.wait(self.job_id, timeout=timeout, pipeline=self.pipeline)


def intent_of(pipeline: Pipeline, item: Item, *, now: float) -> Submit:
    """Validate all of it before anything is written."""
    return _Form(pipeline, now).fill(item)


def intents_of(pipeline: Pipeline, items: Iterable[object], *, now: float) -> list[Submit]:
    """The same for many, payloads or items; an error says which of them is wrong."""
    fill, intents = _Form(pipeline, now).fill, []
    given = list(items)
    with _uncollected():
        for place, item in enumerate(given):
            try:
                intents.append(fill(item if isinstance(item, Item) else Item(item)))
            except UsageError as error:
                raise type(error)(f"item {place}: {error}") from None
    return intents


@contextmanager
def _uncollected() -> Iterator[None]:
    """Have no cycles looked for while thousands of values are made: all are alive, and many looks end in one at everything."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def chunks(intents: Sequence[Submit]) -> Iterator[Sequence[Submit]]:
    """So many that a transaction neither gets long nor large."""
    for low in range(0, len(intents), _AT_ONCE):
        chunk = intents[low : low + _AT_ONCE]
        begin = size = 0
        if sum([len(intent.payload) for intent in chunk]) > _BYTES_AT_ONCE:
            for place, intent in enumerate(chunk):
                size += len(intent.payload)
                if place > begin and size > _BYTES_AT_ONCE:
                    yield chunk[begin:place]
                    begin, size = place, len(intent.payload)
        yield chunk[begin:]


class _Form:
    """What all jobs of one submission share, read once; each job fills in its own."""

    __slots__ = ("_encode", "_kind", "_most", "_name", "_now", "_pipeline", "_stage", "_supersedes", "_what")

    def __init__(self, pipeline: Pipeline, now: float) -> None:
        if not isinstance(pipeline, Pipeline):
            raise UsageError(f"jobs are submitted to a reprieve.Pipeline, not to {shown(pipeline)}")
        self._pipeline, self._name, self._stage, self._now = pipeline, pipeline.name, pipeline.first.name, now
        self._encode, self._kind = pipeline.payload.encode, pipeline.payload.fingerprint
        self._what, self._most = f"the payload of {pipeline.name}", pipeline.max_payload
        self._supersedes = pipeline.supersedes()

    def fill(self, item: Item) -> Submit:
        """The intent, unless something about the item is wrong."""
        key, priority, now = item.idempotency_key, item.priority, self._now
        if item.subject is not None or item.version is not None or type(priority) is not int or priority != 0:
            _check_order(item)
        if key is None:
            # Time first, so that an index takes them in order.
            key = f"auto-{int(now * 1000):012x}-{secrets.token_hex(10)}"
        elif type(key) is not str or not 0 < len(key) <= _LONGEST_KEY or not key.isascii() or "\0" in key:
            _check_text("idempotency_key", key)
        payload = self._encode(item.payload, self._what)
        if len(payload) > self._most:
            payload = self._pipeline.encode_payload(item.payload)  # which says that it is too large
        return Submit(
            idempotency_key=key, pipeline=self._name, stage=self._stage, payload=payload, payload_type=self._kind,
            created_at=now, priority=priority, run_at=None if item.delay is item.run_at is None else _run_at(item, now),
            subject=item.subject, version=None if item.version == "next" else item.version, next_version=item.version == "next",
            supersedes=self._supersedes,
        )  # fmt: skip


def _check_order(item: Item) -> None:
    """Its version and its place in the queue."""
    if (item.subject is None) != (item.version is None):
        raise UsageError("subject and version go together: a version is a version of something")
    if item.version == "next":
        _check_text("subject", item.subject)
        if item.idempotency_key is None:
            raise UsageError(
                "the next version needs an idempotency_key that says what is in it: the same is not the next"
            )
    elif item.subject is not None:
        check_version(item.subject, item.version)
    require_whole("priority", item.priority, -HIGHEST_VERSION, HIGHEST_VERSION)


def check_version(subject: object, version: object) -> None:
    """Refuse what is no version of anything."""
    _check_text("subject", subject)
    require_whole("version", version, 1, HIGHEST_VERSION)


def _run_at(item: Item, now: float) -> float | None:
    if item.delay is not None and item.run_at is not None:
        raise UsageError("delay and run_at say the same thing: give one of them")
    delay, run_at = item.delay, item.run_at
    if delay is not None:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        require_number("delay", seconds, 0.0, LONGEST)
        return now + seconds
    if isinstance(run_at, datetime):
        if run_at.utcoffset() is None:
            raise UsageError("run_at has no time zone: give datetime(..., tzinfo=UTC), or seconds since the epoch")
        run_at = run_at.timestamp()
    if run_at is not None:
        require_number("run_at", run_at, 0.0, _LATEST)
    return run_at


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} must be a text that is not empty")
    if len(value) > _LONGEST_KEY:
        raise UsageError(f"{name} has {len(value)} characters; at most {_LONGEST_KEY} are kept")
    if "\0" in value or not _is_unicode(value):
        raise UsageError(f"{name} holds a character that databases do not take")


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def replies_to(
    intents: Sequence[Submit], answers: Sequence[Answer], *, app: App, pipeline: Pipeline, first: int | None = None
) -> list[Submission]:
    """The submissions, or why one of them was refused; of many, `first` is the place of the first."""
    made = []
    with _uncollected():
        for place, (intent, answer) in enumerate(zip(intents, answers, strict=True)):
            if not isinstance(answer, Submitted):
                raise _refusal(intent, answer, "" if first is None else f"item {first + place}: ")
            made.append(
                Submission(
                    job_id=answer.job_id, idempotency_key=intent.idempotency_key, duplicate=answer.duplicate,
                    mismatch=answer.mismatch, superseded=answer.superseded, version=answer.version,
                    app=app, pipeline=pipeline,
                )
            )  # fmt: skip
    return made


def _refusal(intent: Submit, answer: KeyTaken | VersionTooLow, which: str) -> SubmitError:
    match answer:
        case KeyTaken():
            problem = f"the idempotency key belongs to a job of pipeline {answer.pipeline!r}: keys are unique over all"
        case VersionTooLow() if intent.next_version:
            problem = f"there is no version above {answer.highest}, which the subject has"
        case VersionTooLow():
            problem = (
                f"version {intent.version} is not above version {answer.highest}, which the subject has: a rerun needs a "
                "higher one"
            )
    return SubmitError(f"{which}{problem}")
