"""What a caller hands over becomes an intent; what the store answers becomes a Submission."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.pipeline import Pipeline
from reprieve.core.backoff import LONGEST, require_number, require_whole, shown
from reprieve.core.value import value
from reprieve.errors import SubmitError, UsageError
from reprieve.ports.intents import KeyTaken, Submit, Submitted, VersionTooLow

if TYPE_CHECKING:
    from reprieve.app.application import App

_LONGEST_KEY: Final = 500
_HIGHEST_VERSION: Final = 2**31 - 1
_LATEST: Final = 253_402_300_799.0
"""The end of the year 9999, after which databases know no time."""


@dataclass(frozen=True, slots=True)
class Item:
    """One job of many: what `submit` takes, as a value."""

    payload: object
    idempotency_key: str | None = field(default=None, kw_only=True)
    subject: str | None = field(default=None, kw_only=True)
    version: int | None = field(default=None, kw_only=True)
    priority: int = field(default=0, kw_only=True)
    delay: float | timedelta | None = field(default=None, kw_only=True)
    run_at: float | datetime | None = field(default=None, kw_only=True)


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
    app: App = field(repr=False, compare=False)
    pipeline: Pipeline = field(repr=False, compare=False)

    async def result(self, *, timeout: float | None = None) -> Any:  # noqa: ANN401, ASYNC109 - the job's own result; the job is not cancelled
        """Wait for it: what the last stage returned."""
        return await self.app.wait(self.job_id, timeout=timeout, pipeline=self.pipeline)


def intent_of(pipeline: Pipeline, item: Item, *, now: float, place: int | None = None) -> Submit:
    """Validate all of it before anything is written; `place` says which of many is wrong."""
    try:
        return _intent_of(pipeline, item, now)
    except UsageError as error:
        if place is None:
            raise
        raise type(error)(f"item {place}: {error}") from None


def _intent_of(pipeline: Pipeline, item: Item, now: float) -> Submit:
    if not isinstance(pipeline, Pipeline):
        raise UsageError(f"jobs are submitted to a reprieve.Pipeline, not to {shown(pipeline)}")
    first = pipeline.first
    if (item.subject is None) != (item.version is None):
        raise UsageError("subject and version go together: a version is a version of something")
    if item.subject is not None:
        _check_text("subject", item.subject)
        require_whole("version", item.version, 1, _HIGHEST_VERSION)
    require_whole("priority", item.priority, -_HIGHEST_VERSION, _HIGHEST_VERSION)
    key = item.idempotency_key
    if key is None:
        # Time first, so that an index takes them in order.
        key = f"auto-{int(now * 1000):012x}-{secrets.token_hex(10)}"
    else:
        _check_text("idempotency_key", key)
    return Submit(
        idempotency_key=key, pipeline=pipeline.name, stage=first.name, payload=pipeline.encode_payload(item.payload),
        payload_type=pipeline.payload.fingerprint, created_at=now, priority=item.priority, run_at=_run_at(item, now),
        subject=item.subject, version=item.version, supersedes=pipeline.supersedes(),
    )  # fmt: skip


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


def reply_to(
    intent: Submit,
    answer: Submitted | KeyTaken | VersionTooLow,
    *,
    app: App,
    pipeline: Pipeline,
    place: int | None = None,
) -> Submission:
    """The submission, or why there is none; `place` says which of many was refused."""
    which = "" if place is None else f"item {place}: "
    match answer:
        case Submitted():
            return Submission(
                job_id=answer.job_id, idempotency_key=intent.idempotency_key, duplicate=answer.duplicate,
                mismatch=answer.mismatch, superseded=answer.superseded, app=app, pipeline=pipeline,
            )  # fmt: skip
        case KeyTaken():
            raise SubmitError(
                f"{which}the idempotency key belongs to a job of pipeline {answer.pipeline!r}: keys are unique over all"
            )
        case VersionTooLow():
            raise SubmitError(
                f"{which}version {intent.version} is not above version {answer.highest}, which the subject has: a rerun "
                "needs a higher one"
            )
