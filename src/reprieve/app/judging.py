"""`classify` as users call it: core's judgement, with the clock, the user's rules and the live credentials."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from reprieve.app.registry import DEFAULT
from reprieve.core import classify as core
from reprieve.core.policy import Judge
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from reprieve.app.profiles import ProfileLike
    from reprieve.core.failure import Failure


def classify(
    exc: BaseException, *, profile: ProfileLike | None = None, stage: str = "", now: float | None = None
) -> Failure:
    """Judge an exception: what went wrong, whether another try is worth it, and how we know.

    Without a profile it is judged as the Criticizer's table does; `ingestion` judges by status and words alone. `stage`
    goes into the fingerprint, `now` (seconds since the epoch) turns an HTTP-date into a wait. Cancellation,
    KeyboardInterrupt and SystemExit are not failures: they are raised again.
    """
    if not isinstance(exc, BaseException):
        raise UsageError(f"classify judges exceptions, not {type(exc).__name__}; classify_text is for text")
    return core.classify(exc, _context(profile, stage, now))


def classify_response(
    status: int | None,
    headers: object = None,
    body: object = None,
    *,
    profile: ProfileLike | None = None,
    stage: str = "",
    now: float | None = None,
) -> Failure:
    """Judge a bare HTTP answer: its status, its headers (any mapping or pairs), its body (bytes, text or values)."""
    return core.classify_response(status, headers, body, _context(profile, stage, now))


def classify_facts(
    *,
    message: str,
    status: int | None = None,
    profile: ProfileLike | None = None,
    stage: str = "",
    now: float | None = None,
) -> Failure:
    """Judge what is left of a failure that happened elsewhere: a message, and a status if there was one."""
    if status is not None:
        return core.classify_response(status, None, {"message": message}, _context(profile, stage, now))
    return core.classify_words(message, _context(profile, stage, now))


def classify_text(
    text: str, *, profile: ProfileLike | None = None, stage: str = "", now: float | None = None
) -> Failure:
    """Judge what somebody pasted: a Python traceback, or else a bare message."""
    context = _context(profile, stage, now)
    return core.classify_traceback(text, context) or core.classify_words(text.strip(), context)


def _context(profile: ProfileLike | None, stage: str, now: float | None) -> core.Context:
    return core.Context(
        now=time() if now is None else now,
        scan=_scan,
        stage=stage,
        to_the_letter=profile is not None and _judge(profile) is Judge.INGESTION,
        user_rules=DEFAULT.rules,
    )


def _judge(profile: ProfileLike) -> Judge:
    from reprieve.app.profiles import resolve  # noqa: PLC0415 - profiles are files: read when one is asked for

    return resolve(profile).judge


def _scan(text: str) -> tuple[str, tuple[tuple[str, int], ...]]:
    from reprieve.app.redaction import scan  # noqa: PLC0415 - its rules wait for the first failure

    return scan(text)
