"""Reprieve gives failed work a second chance: classify every failure with evidence, retry it, write it down without secrets.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.app.analysis import Analysis, Analyzed
    from reprieve.app.application import App
    from reprieve.app.guarding import Guarded, guarded
    from reprieve.app.ingestion import (
        calculate_backoff,
        classify_error,
        get_retry_delay,
        handle_item_failure,
        should_move_to_dlq,
    )
    from reprieve.app.judging import classify, classify_response, classify_text
    from reprieve.app.outbox import Delivered, deliver, deliver_blocking
    from reprieve.app.pipeline import Job, Pipeline
    from reprieve.app.profiles import ProfileBook, load_profiles
    from reprieve.app.redaction import redact, redact_exception, redact_mapping, register_environment, register_secret
    from reprieve.app.registry import rule
    from reprieve.app.retry import NestedRetryWarning, RetryEvent, attempts, retry
    from reprieve.app.submitting import Item, Submission
    from reprieve.core.analysis import AnalysisStatus
    from reprieve.core.backoff import Backoff, Jitter
    from reprieve.core.breaker import Breaker
    from reprieve.core.breaker_state import BreakerLimits
    from reprieve.core.decide import Abort, DeadLetter, Decision, History, Park, Reason, RetryAt, decide
    from reprieve.core.failure import TAXONOMY, Category, ErrorClass, Evidence, Failure, Scope, Severity
    from reprieve.core.lifecycle import JobStatus
    from reprieve.core.policy import Cause, Judge, Parking, ParkState, Policy, Profile
    from reprieve.core.redact import RedactionReport
    from reprieve.core.url_signature import url_signature
    from reprieve.errors import (
        IllegalTransitionError,
        JobError,
        JobFailedError,
        JobTimeoutError,
        Misfit,
        NeedsReview,
        PayloadError,
        Permanent,
        ProfileError,
        RefusedError,
        ReprieveError,
        ResultError,
        Retryable,
        SchemaError,
        StoreAddressError,
        StoreError,
        StoreRefusedError,
        StoreUnavailableError,
        SubmitError,
        UnknownNameError,
        Unusable,
        UsageError,
        Verdict,
    )
    from reprieve.ports.sending import Message
    from reprieve.streams.message import StreamMessage
    from reprieve.wiring import connect, consumer

_HOMES = {
    "app.analysis": "Analysis Analyzed",
    "app.ingestion": "calculate_backoff classify_error get_retry_delay handle_item_failure should_move_to_dlq",
    "app.guarding": "Guarded guarded",
    "app.judging": "classify classify_response classify_text",
    "app.outbox": "Delivered deliver deliver_blocking",
    "app.pipeline": "Job Pipeline",
    "app.application": "App",
    "app.submitting": "Item Submission",
    "app.profiles": "ProfileBook load_profiles",
    "app.redaction": "redact redact_exception redact_mapping register_environment register_secret",
    "app.registry": "rule",
    "app.retry": "NestedRetryWarning RetryEvent attempts retry",
    "core.backoff": "Backoff Jitter",
    "core.breaker": "Breaker",
    "core.breaker_state": "BreakerLimits",
    "core.decide": "Abort DeadLetter Decision History Park Reason RetryAt decide",
    "core.failure": "TAXONOMY Category ErrorClass Evidence Failure Scope Severity",
    "core.policy": "Cause Judge ParkState Parking Policy Profile",
    "core.redact": "RedactionReport",
    "core.url_signature": "url_signature",
    "errors": "IllegalTransitionError JobError JobFailedError JobTimeoutError Misfit NeedsReview PayloadError Permanent ProfileError RefusedError ReprieveError ResultError Retryable SchemaError StoreAddressError StoreError StoreRefusedError StoreUnavailableError SubmitError UnknownNameError Unusable UsageError Verdict",
    "core.analysis": "AnalysisStatus",
    "core.lifecycle": "JobStatus",
    "ports.sending": "Message",
    "streams.message": "StreamMessage",
    "wiring": "connect consumer",
}
_HOME_OF = {name: f"reprieve.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = [  # written out for type checkers and readers; a test keeps it equal to the homes above
    "TAXONOMY",
    "Abort",
    "Analysis",
    "AnalysisStatus",
    "Analyzed",
    "App",
    "Backoff",
    "Breaker",
    "BreakerLimits",
    "Category",
    "Cause",
    "DeadLetter",
    "Decision",
    "Delivered",
    "ErrorClass",
    "Evidence",
    "Failure",
    "Guarded",
    "History",
    "IllegalTransitionError",
    "Item",
    "Jitter",
    "Job",
    "JobError",
    "JobFailedError",
    "JobStatus",
    "JobTimeoutError",
    "Judge",
    "Message",
    "Misfit",
    "NeedsReview",
    "NestedRetryWarning",
    "Park",
    "ParkState",
    "Parking",
    "PayloadError",
    "Permanent",
    "Pipeline",
    "Policy",
    "Profile",
    "ProfileBook",
    "ProfileError",
    "Reason",
    "RedactionReport",
    "RefusedError",
    "ReprieveError",
    "ResultError",
    "RetryAt",
    "RetryEvent",
    "Retryable",
    "SchemaError",
    "Scope",
    "Severity",
    "StoreAddressError",
    "StoreError",
    "StoreRefusedError",
    "StoreUnavailableError",
    "StreamMessage",
    "Submission",
    "SubmitError",
    "UnknownNameError",
    "Unusable",
    "UsageError",
    "Verdict",
    "attempts",
    "calculate_backoff",
    "classify",
    "classify_error",
    "classify_response",
    "classify_text",
    "connect",
    "consumer",
    "decide",
    "deliver",
    "deliver_blocking",
    "get_retry_delay",
    "guarded",
    "handle_item_failure",
    "load_profiles",
    "redact",
    "redact_exception",
    "redact_mapping",
    "register_environment",
    "register_secret",
    "retry",
    "rule",
    "should_move_to_dlq",
    "url_signature",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - only when it is asked for

        return version("reprieve")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reprieve' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when a name is first used

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
