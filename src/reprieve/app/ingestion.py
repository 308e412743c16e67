"""The ingestion agents' library calls (ING-5.1), over the same classifier, backoff and `decide` as everything else.

Delays are in milliseconds, as their text has them. An error is an exception, a message, or a mapping or object with a
message and, under `statusCode`, `status_code` or `status`, an HTTP status; `headers` are read for Retry-After.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from random import random
from time import time
from typing import TYPE_CHECKING, Final

from reprieve.app.judging import classify, classify_facts, classify_response
from reprieve.app.profiles import ProfileLike, resolve
from reprieve.core.decide import Decision, History, RetryAt, decide
from reprieve.core.facts import attribute, integer
from reprieve.core.failure import TAXONOMY, Category, ErrorClass, Failure
from reprieve.core.lifecycle import DEAD_LETTER_STATUS
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from reprieve.core.policy import Profile

PROFILE: Final = "ingestion"
"""The one that items live by, unless told otherwise."""
_STATUS_KEYS: Final = ("statusCode", "status_code", "status")
_LOG: Final = logging.getLogger("reprieve.ingestion")


class ErrorType(StrEnum):
    """The three kinds that the ingestion policy knows."""

    RETRYABLE = "retryable"
    TERMINAL = "terminal"
    RATE_LIMIT = "rate_limit"


@dataclass(frozen=True, slots=True)
class Classification:
    """What an error is to the ingestion policy, and by which rule."""

    type: ErrorType
    retryable: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFields:
    """What an item says of its last failure (ING-4.1)."""

    failure_count: int
    """In a row, on the same step."""
    last_failed_step: str
    last_error_message: str
    """Sanitized, at most 1000 characters."""
    last_error_signature: str
    last_error_at: datetime
    error_type: ErrorType
    error_retryable: bool
    retry_after: datetime | None
    """When to try again; None in the dead-letter queue."""


def classify_error(error: object) -> Classification:
    """Say what an error is: `retryable`, `terminal` or `rate_limit`."""
    return _classification(judge_error(error, resolve(PROFILE), time()))


def get_retry_delay(attempt: int, error: object, *, draw: float | None = None) -> int | None:
    """Milliseconds to wait after this many failures; None where the error is terminal."""
    profile = resolve(PROFILE)
    failure = judge_error(error, profile, time())
    return _wait(failure, profile, attempt, draw) if failure.retryable else None


def calculate_backoff(attempt: int, *, rate_limit: bool = False, draw: float | None = None) -> int:
    """Milliseconds of backoff after this many failures: 1 s doubling, 10 s for a rate limit, capped, a fifth either way."""
    kind = ErrorType.RATE_LIMIT if rate_limit else ErrorType.RETRYABLE
    return _wait(_bare_failure(kind), resolve(PROFILE), attempt, draw)


def should_move_to_dlq(failure_count: int, classification: Classification) -> bool:
    """Whether an item that failed so often on one step belongs in the dead-letter queue."""
    failure = _bare_failure(classification.type)
    history = History(attempts=max(1, failure_count), started=0.0)
    return not isinstance(decide(failure, history, resolve(PROFILE), now=0.0, draw=0.0), RetryAt)


def handle_item_failure(
    item: object,
    agent_name: str,
    step_name: str,
    error: object,
    config: ProfileLike | None = None,
    *,
    now: float | None = None,
    draw: float | None = None,
) -> Decision:
    """Classify, compute the delay, decide, update the item and log; returns what was decided.

    The item is a mutable mapping or an object; it gets the fields of `FailureFields` and, in the dead-letter queue, the
    `status_code` 599. What another profile would park is terminal here, and goes there too. `config` is a profile.
    """
    profile = _without_deadline(resolve(PROFILE if config is None else config))
    moment = time() if now is None else now
    failure = judge_error(error, profile, moment, stage=step_name)
    same_step = _read(item, "last_failed_step") == step_name
    count = 1 + (_count(_read(item, "failure_count")) if same_step else 0)
    history = History(attempts=count, started=moment)
    decision = decide(failure, history, profile, now=moment, draw=random() if draw is None else draw)  # noqa: S311 - jitter
    _write(item, _changes(fields_after(failure, decision, step=step_name, count=count, now=moment), decision))
    log_failure(agent_name, step_name, failure, decision, count)
    return decision


def fields_after(failure: Failure, decision: Decision, *, step: str, count: int, now: float) -> FailureFields:
    """The ING-4.1 fields that a failure and what was decided about it leave on an item."""
    kind = _classification(failure)
    return FailureFields(
        failure_count=count,
        last_failed_step=step,
        last_error_message=failure.message,
        last_error_signature=failure.signature,
        last_error_at=_timestamp(now),
        error_type=kind.type,
        error_retryable=kind.retryable,
        retry_after=_timestamp(decision.at) if isinstance(decision, RetryAt) else None,
    )


def judge_error(error: object, profile: Profile, now: float, *, stage: str = "") -> Failure:
    """Judge an exception, a message, or a mapping or object that has them."""
    if isinstance(error, BaseException):
        return classify(error, profile=profile, stage=stage, now=now)
    if isinstance(error, str):
        return classify_facts(message=error, profile=profile, stage=stage, now=now)
    found = (integer(_read(error, key)) for key in _STATUS_KEYS)
    status = next((number for number in found if number is not None), None)
    message = _read(error, "message")
    words = message if isinstance(message, str) else ""
    if status is None:
        return classify_facts(message=words, profile=profile, stage=stage, now=now)
    headers = _read(error, "headers")
    return classify_response(status, headers, {"message": words}, profile=profile, stage=stage, now=now)


def _classification(failure: Failure) -> Classification:
    kind = ErrorType.RETRYABLE if failure.retryable else ErrorType.TERMINAL
    if failure.retryable and failure.category is Category.RATE_LIMIT:
        kind = ErrorType.RATE_LIMIT
    why = failure.evidence[0]
    return Classification(kind, failure.retryable, f"{failure.error_class}: {why.field} {why.value} ({why.rule})")


def _bare_failure(kind: ErrorType) -> Failure:
    """A failure of which no more is known than what it is to the ingestion policy."""
    match ErrorType(kind):
        case ErrorType.RETRYABLE:
            error_class = ErrorClass.UNKNOWN
        case ErrorType.RATE_LIMIT:
            error_class = ErrorClass.RATE_LIMITED
        case ErrorType.TERMINAL:
            error_class = ErrorClass.DECLARED_PERMANENT
    known = TAXONOMY[error_class]
    return Failure(
        category=known.category, error_class=error_class, retryable=known.retryable, requires_idempotent=False,
        retry_after=None, status_code=None, severity=known.severity, outcome_unknown=False, scope=known.scope,
        message="", signature="", fingerprint="", exception_type="", code=None, evidence=(),
    )  # fmt: skip


def _wait(failure: Failure, profile: Profile, attempt: int, draw: float | None) -> int:
    chance = random() if draw is None else draw  # noqa: S311 - jitter, not cryptography
    return round(1000 * profile.policy_for(failure).wait(failure, attempt, chance))


def _without_deadline(profile: Profile) -> Profile:
    if any(policy.deadline is not None for policy in (profile.policy, *profile.policies.values())):
        raise UsageError(f"profile {profile.name} has a deadline, but an item does not say when its step began")
    return profile


def _count(value: object) -> int:
    """The failures so far; refused rather than guessed, or an item would be retried for ever."""
    if value is None:
        return 0
    number = integer(value)
    if number is None or number < 0:
        raise UsageError(f"an item's failure_count is a whole number from 0, not {type(value).__name__}")
    return number


def _read(thing: object, name: str) -> object:
    return thing.get(name) if isinstance(thing, Mapping) else attribute(thing, name)


def _changes(fields: FailureFields, decision: Decision) -> dict[str, object]:
    buried = {} if isinstance(decision, RetryAt) else {"status_code": DEAD_LETTER_STATUS}
    return {**asdict(fields), **buried}


def _write(item: object, changes: dict[str, object]) -> None:
    if isinstance(item, MutableMapping):
        item.update(changes)
        return
    missing = [] if hasattr(item, "__dict__") else [name for name in changes if not hasattr(item, name)]
    if missing or isinstance(item, Mapping):
        raise UsageError(f"{type(item).__name__} cannot take an item's fields: {', '.join(missing or changes)}")
    for name, value in changes.items():
        try:
            setattr(item, name, value)
        except AttributeError as error:
            raise UsageError(f"{type(item).__name__} cannot take an item's {name}") from error


def _timestamp(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)


def log_failure(
    agent_name: str, step_name: str, failure: Failure, decision: Decision, count: int, *, became: str | None = None
) -> None:
    """One line, of sanitized words only; the item itself is not shown."""
    where = f"{agent_name}/{step_name}"
    match decision:
        case RetryAt():
            _LOG.warning(
                "%s: failure %d (%s), retry in %.1f s: %r",
                where, count, failure.error_class, decision.delay, failure.message,
            )  # fmt: skip
        case _:
            _LOG.error(
                "%s: failure %d (%s), %s (%s): %r",
                where, count, failure.error_class, became or "moved to the dead-letter queue", decision.reason,
                failure.message,
            )  # fmt: skip
