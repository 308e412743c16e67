"""The failure of a task for its dead letter: as the worker classified it, else by how the worker ended."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.judging import classify
from reprieve.app.redaction import redact, redact_mapping
from reprieve.core.failure import Failure
from reprieve.core.record import writable
from reprieve.errors import Permanent, Retryable, UsageError
from reprieve.streams.dead_letters import MAX_STACK_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.streams.history import MessageHistory
    from reprieve.supervisor.task_runner import TaskReport

RETRY_OFF: Final = "retry_off"
"""The reason of a dead letter whose failure is retryable, in a supervisor that does not retry."""
_MAX_FAILURE_BYTES: Final = 32_768
_MAX_LENGTHS: Final = {"message": 1000, "signature": 200, "fingerprint": 100, "exception_type": 200, "error_class": 100}


class TaskFailed(Permanent):
    """A task that is not tried again."""


class TaskInterrupted(Retryable):
    """A task that may be tried again."""


_OWN_NAMES: Final = re.compile(f"^(?:{TaskFailed.__name__}|{TaskInterrupted.__name__}|{Retryable.__name__}): ")
"""What the history puts before the text of a failure that the supervisor reports to its consumer."""


def read_failure(values: object) -> Failure | None:
    """Read the classification in a worker's result, sanitized; None where there is none that can be used."""
    if not isinstance(values, dict) or len(json.dumps(values)) > _MAX_FAILURE_BYTES:
        return None
    try:
        failure = Failure.from_dict(redact_mapping(values))
    except UsageError:
        return None
    texts = [getattr(failure, name) for name in _MAX_LENGTHS]
    if not all(isinstance(text, str) for text in texts):
        return None
    return failure if all(map(_fits, texts, _MAX_LENGTHS.values())) else None


def read_stack(value: object) -> str:
    """Read the stack in a worker's result, sanitized; empty where there is none."""
    return writable(redact(value))[:MAX_STACK_LENGTH] if isinstance(value, str) else ""


def describe_task_error(report: TaskReport) -> str:
    """Return what went wrong in one line, as `KeyError: 'text'` or `Process crashed`."""
    text, name = report.error or "", report.exception_type or ""
    return text if not name or text.startswith(name) else f"{name}: {text}"


def failure_of_task(report: TaskReport, error_class: str | None) -> Failure:
    """Return the worker's classification, else one of how the worker ended."""
    if report.failure is not None:
        return report.failure
    kind = TaskInterrupted if report.end.is_retryable else TaskFailed
    return classify(kind(report.error or "", error_class=error_class), profile="orchestrator")


def describe_failure(report: TaskReport, failure: Failure, *, is_retried: bool) -> dict[str, Any]:
    """Return what goes into the `error_context` in the place of what the consumer saw of the failure."""
    context: dict[str, Any] = {
        "error": describe_task_error(report),
        "error_class": str(failure.error_class),
        "category": failure.category.value,
        "severity": failure.severity.value,
        "retryable": failure.retryable,
        "fingerprint": failure.fingerprint,
        "signature": failure.signature,
        "evidence": [] if report.failure is None else failure.as_dict()["evidence"],
        "stack": report.stack,
    }
    optional = {
        "exception_type": report.exception_type,
        "status_code": failure.status_code,
        "code": failure.code,
        "reason": RETRY_OFF if failure.retryable and not is_retried else None,
    }
    return context | {name: value for name, value in optional.items() if value is not None}


def describe_history(history: MessageHistory) -> dict[str, Any]:
    """Return a history as JSON values, its events without the names that the supervisor gives to failures."""
    values: dict[str, Any] = json.loads(history.to_json())
    if "events" in values:
        values["events"] = [_without_own_name(event) for event in values["events"]]
    return values


def _without_own_name(event: Mapping[str, Any]) -> dict[str, Any]:
    return {**event, "error": _OWN_NAMES.sub("", str(event.get("error", "")))}


def _fits(text: str, length: int) -> bool:
    return len(text) <= length
