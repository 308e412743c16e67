"""The states of an analysis and of a review, a table each; the words in which failures of a model are told; who may ask when."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.failure import Category, ErrorClass, Severity
from reprieve.errors import IllegalTransitionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.core.failure import Failure


class AnalysisStatus(StrEnum):
    """What is known of one signature (LLM-5.1)."""

    ACTIVE = "active"
    """To be asked of the model, or being asked."""
    SKIPPED = "skipped"
    """Never sent again, but for an operator's reset or another question."""
    ANALYZED = "analyzed"
    """Answered by the model or by a person: served from the cache."""
    NEEDS_REVIEW = "needs_review"
    """Waits for a person."""


class AnalysisEvent(StrEnum):
    """What can happen to an analysis."""

    ANALYZE = "analyze"
    """The model's answer fits."""
    SKIP = "skip"
    """The provider will not take it: a permanent error."""
    PUT_OFF = "put_off"
    """A transient error: asked again, at once or after its `retry_after`."""
    ASK = "ask"
    """Hand it to a person: no answer fits, or a verified one does not fit the new schema."""
    VERIFY = "verify"
    """A person has set the classification."""
    REJECT = "reject"
    """A person says that there is none."""
    UNDO = "undo"
    """A person takes back what a person said."""
    RESET = "reset"
    """An operator has it asked again."""
    RENEW = "renew"
    """The question has changed, or what fits it."""


def _analysis_table() -> dict[tuple[AnalysisStatus, AnalysisEvent], AnalysisStatus]:
    status, event = AnalysisStatus, AnalysisEvent
    return {
        (status.ACTIVE, event.ANALYZE): status.ANALYZED,
        (status.ACTIVE, event.SKIP): status.SKIPPED,
        (status.ACTIVE, event.PUT_OFF): status.ACTIVE,
        (status.ACTIVE, event.ASK): status.NEEDS_REVIEW,
        (status.SKIPPED, event.RESET): status.ACTIVE,
        (status.SKIPPED, event.RENEW): status.ACTIVE,
        (status.SKIPPED, event.UNDO): status.NEEDS_REVIEW,
        (status.ANALYZED, event.RENEW): status.ACTIVE,
        (status.ANALYZED, event.ASK): status.NEEDS_REVIEW,
        (status.ANALYZED, event.UNDO): status.NEEDS_REVIEW,
        (status.NEEDS_REVIEW, event.VERIFY): status.ANALYZED,
        (status.NEEDS_REVIEW, event.REJECT): status.SKIPPED,
    }


ANALYSIS_TRANSITIONS: Final[Mapping[tuple[AnalysisStatus, AnalysisEvent], AnalysisStatus]] = _analysis_table()


def analysis_after(status: AnalysisStatus, event: AnalysisEvent) -> AnalysisStatus:
    """What an analysis is after an event."""
    try:
        return ANALYSIS_TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransitionError("signature", status, event) from None


class ReviewState(StrEnum):
    """How far a person is with what waits for one."""

    OPEN = "open"
    CLAIMED = "claimed"
    """Somebody is at it."""
    VERIFIED = "verified"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    """What it was about does not wait any more: its job was cancelled, say."""

    @property
    def closed(self) -> bool:
        """Whether it asks for nothing any more."""
        return self not in {ReviewState.OPEN, ReviewState.CLAIMED}


class ReviewEvent(StrEnum):
    """What can happen to a review; each leaves an entry in the history."""

    ASK = "ask"
    """It was opened, or opened anew."""
    CLAIM = "claim"
    RELEASE = "release"
    VERIFY = "verify"
    REJECT = "reject"
    UNDO = "undo"
    WITHDRAW = "withdraw"
    RESET = "reset"
    """An operator has a skipped signature asked of the model again."""


def _review_table() -> dict[tuple[ReviewState, ReviewEvent], ReviewState]:
    state, event = ReviewState, ReviewEvent
    table = {
        (state.CLAIMED, event.RELEASE): state.OPEN,
        (state.VERIFIED, event.UNDO): state.OPEN,
        (state.REJECTED, event.UNDO): state.OPEN,
        (state.REJECTED, event.RESET): state.REJECTED,
    }
    for each in (state.OPEN, state.CLAIMED):
        table |= {
            (each, event.CLAIM): state.CLAIMED,
            (each, event.VERIFY): state.VERIFIED,
            (each, event.REJECT): state.REJECTED,
            (each, event.WITHDRAW): state.WITHDRAWN,
        }
    return table


REVIEW_TRANSITIONS: Final[Mapping[tuple[ReviewState, ReviewEvent], ReviewState]] = _review_table()


def review_after(state: ReviewState, event: ReviewEvent) -> ReviewState:
    """What a review is after an event."""
    try:
        return REVIEW_TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError("review", state, event) from None


class Standing(StrEnum):
    """Where a signature stands for somebody who has a question about it."""

    FREE = "free"
    """It may be asked of the model, by one."""
    BUSY = "busy"
    """Somebody is asking."""
    LATER = "later"
    """Its retries are spent for now: not before its `retry_after`."""
    SETTLED = "settled"
    """Analyzed, skipped, or a person's: never asked again."""


def standing(
    status: AnalysisStatus, *, same_question: bool, by_hand: bool, leased_until: float | None, retry_after: float | None, now: float,
    fits: bool = True,
) -> Standing:  # fmt: skip
    """Whether a signature may be asked; what a person has settled stays so, whatever the question (LLM-8.3).

    `fits` says whether the model's answer is still one to the question: what checks it may have changed without it.
    """
    match status:
        case AnalysisStatus.NEEDS_REVIEW:
            return Standing.SETTLED
        case AnalysisStatus.ANALYZED:
            return Standing.SETTLED if by_hand or (same_question and fits) else Standing.FREE
        case AnalysisStatus.SKIPPED:
            return Standing.SETTLED if same_question or by_hand else Standing.FREE
        case AnalysisStatus.ACTIVE:
            if leased_until is not None and now < leased_until:
                return Standing.BUSY
            return Standing.LATER if same_question and retry_after is not None and now < retry_after else Standing.FREE


_ERROR_TYPES: Final[Mapping[str, str]] = {
    ErrorClass.CONTEXT_LENGTH_EXCEEDED: "context_length_exceeded",
    ErrorClass.PAYLOAD_TOO_LARGE: "context_length_exceeded",
    ErrorClass.AUTH_DENIED: "authentication_error",
    ErrorClass.PERMISSION_DENIED: "authentication_error",
    ErrorClass.QUOTA_EXHAUSTED: "insufficient_quota",
    ErrorClass.OUTPUT_INVALID: "json_schema_error",
    ErrorClass.NETWORK_TIMEOUT: "timeout",
    ErrorClass.UPSTREAM_UNAVAILABLE: "server_error",
}
_OF_CATEGORIES: Final[Mapping[str, str]] = {
    Category.NETWORK: "network_error",
    Category.RATE_LIMIT: "rate_limit_error",
    Category.UPSTREAM: "server_error",
    Category.AUTH: "authentication_error",
    Category.VALIDATION: "invalid_request_error",
    Category.NOT_FOUND: "invalid_request_error",
    Category.POLICY: "invalid_request_error",
}
_BAD_KEYS: Final = frozenset({"invalid_api_key", "api_key_invalid"})
_OF_CREDENTIALS: Final = frozenset({"authentication_error", "invalid_api_key"})


def error_type_of(failure: Failure) -> str:
    """The policy's word for a failure of a model's call; of what the policy has no word for, the class."""
    if failure.error_class == ErrorClass.AUTH_DENIED and (failure.code or "").lower() in _BAD_KEYS:
        return "invalid_api_key"
    known = _ERROR_TYPES.get(failure.error_class) or _OF_CATEGORIES.get(failure.category)
    return failure.error_class.lower() if known is None else known


def stops_all(failure: Failure) -> bool:
    """Whether every other signature would meet it too: one key asks for all of them (LLM-1.3, LLM-1.4)."""
    return failure.severity is Severity.FATAL or error_type_of(failure) in _OF_CREDENTIALS


def question_of(prompt: str, schema: Mapping[str, object]) -> str:
    """The version of a question: the same for the same prompt and schema, in every process."""
    told = json.dumps([prompt, schema], sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"q1:{hashlib.blake2b(told.encode(), digest_size=12).hexdigest()}"
