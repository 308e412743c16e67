"""Facts into a Failure, with the evidence.

The outermost recognised exception decides; deeper links refine what is only a broken connection or a wrapping. Structured
facts come before words, and words that merely quote somebody's input are not heard.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from reprieve.core import provider
from reprieve.core.facts import integer
from reprieve.core.judgement import UNKNOWN, Context, Judged, UserRules, judge
from reprieve.core.message import message_of
from reprieve.core.pasted import parse_traceback
from reprieve.core.record import failure_of
from reprieve.core.rules import text
from reprieve.core.signature import frames_of

if TYPE_CHECKING:
    from reprieve.core.failure import Failure

__all__ = [
    "Context",
    "UserRules",
    "classify",
    "classify_response",
    "classify_traceback",
    "classify_words",
    "is_passage",
]

_MOST_LEAVES = 10_000
_MOST_HEADERS = 500


def classify(exc: BaseException, context: Context) -> Failure:
    """Judge an exception; cancellations and exits are no failures, and pass through (decision 6)."""
    if is_passage(exc):
        raise exc
    return failure_of(judge(exc, context), exc, message_of(exc), context, frames_of(exc.__traceback__))


def classify_traceback(text_of_it: str, context: Context) -> Failure | None:
    """Judge a traceback that somebody pasted; None where the text is none."""
    found = parse_traceback(text_of_it)
    if found is None:
        return None
    return failure_of(judge(found.exc, context), found.exc, message_of(found.exc), context, found.frames)


def classify_response(status: int | None, headers: object, body: object, context: Context) -> Failure:
    """Judge a bare HTTP answer."""
    status = integer(status)
    headers = list(islice(headers, _MOST_HEADERS)) if isinstance(headers, Iterator) else headers
    parsed = provider.parse_body(body)
    finding = provider.of_response(status, headers, parsed, context.now)
    finding = finding or UNKNOWN.but(status=status, field="status", value=str(status))
    words = provider.message_in(parsed) or ("an answer without a status" if status is None else f"HTTP {status}")
    return failure_of(Judged(finding, "response"), None, words, context)


def classify_words(message: str, context: Context) -> Failure:
    """Judge a bare message, where nothing better is known."""
    finding = text.of_words(message, context.now, to_the_letter=context.to_the_letter) or UNKNOWN
    return failure_of(Judged(finding, "message"), None, message, context)


def is_passage(exc: BaseException) -> bool:
    """Whether this is somebody leaving, not something failing; of a group, whether anybody in it is."""
    waiting, looked_at = [exc], 0
    while waiting and looked_at < _MOST_LEAVES:
        current = waiting.pop()
        looked_at += 1
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        elif not isinstance(current, Exception) or _is_cancellation(type(current)):
            return True
    return False


def _is_cancellation(kind: type) -> bool:
    """concurrent.futures has a cancellation that is an ordinary Exception."""
    return kind.__name__ == "CancelledError" and str(kind.__module__).partition(".")[0] in ("asyncio", "concurrent")
