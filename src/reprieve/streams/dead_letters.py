"""The record of a dead letter: an entry of `{queue}:dlq` with three fields.

    original_message   the entry's fields as JSON, byte for byte (`decode_fields` gives them back); `null` if the entry
                       was trimmed before it was handled
    error_context      JSON: error, timestamp, service, attempts (ORC-5.3), then more about the failure; sanitized
    origin             JSON: queue, id, group, deliveries, key

The dead letter is the only store of the message, so `original_message` is not sanitized.

A replay of a message whose entry still exists claims that entry for the waiting consumer with
`RETRYCOUNT <deliveries of origin>`, not with 0: the number of deliveries is the fence of every decision, so it must
never go back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from reprieve.core.record import writable
from reprieve.streams.message import decode_fields, encode_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.core.failure import Failure
    from reprieve.core.policy import Cause
    from reprieve.streams.history import MessageHistory
    from reprieve.streams.message import Fields, StreamMessage

ORIGINAL_MESSAGE: Final = "original_message"
ERROR_CONTEXT: Final = "error_context"
ORIGIN: Final = "origin"
MAX_ERROR_LENGTH: Final = 1100
MAX_STACK_LENGTH: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeadLetter:
    """A dead letter as it was read. An entry that another program wrote has empty values for what it lacks."""

    dead_letter_id: str
    queue: str
    group: str
    message_id: str
    """The id of the original entry."""
    key: str
    """The stable key that the handler saw."""
    deliveries: int
    """How often the original was delivered: the RETRYCOUNT of a replay."""
    original: Fields | None = field(repr=False)
    """The fields of the original; None if it was trimmed, or if they cannot be read."""
    error: str
    timestamp: str
    """ISO 8601, UTC."""
    service: str
    attempts: int
    error_class: str
    category: str
    reason: str
    """Which rule of `decide` ended it."""
    integration: str
    """The host that ran the task: `celery`, `dramatiq`, `taskiq`; empty for a consumer of streams."""
    history: Mapping[str, Any] = field(repr=False)
    """`MessageHistory` as JSON: first_failure_at, events, replays, replayed_from, ..."""
    context: Mapping[str, Any] = field(repr=False)
    """All of `error_context`."""

    @property
    def replays(self) -> int:
        """How often this message was replayed before."""
        return _number(self.history.get("replays"))


def describe_error(failure: Failure) -> str:
    """Return what went wrong in one sanitized line, as `ValueError: Invalid project_id`."""
    name = failure.exception_type.rpartition(".")[2]
    text = failure.message if not name or failure.message.startswith(name) else f"{name}: {failure.message}"
    return text[:MAX_ERROR_LENGTH]


def build_error_context(  # noqa: PLR0913 - what is known of a failure, all by keyword
    failure: Failure,
    *,
    at: float,
    service: str,
    attempts: int,
    reason: str,
    origin: Cause,
    history: MessageHistory,
    consumer: str,
    stack: str = "",
    park_state: str = "",
) -> dict[str, Any]:
    """Return the `error_context` of a dead letter. Everything in it is sanitized."""
    context: dict[str, Any] = {
        "error": describe_error(failure),
        "timestamp": iso_timestamp(at),
        "service": service,
        "attempts": attempts,
        "error_class": str(failure.error_class),
        "category": failure.category.value,
        "severity": failure.severity.value,
        "retryable": failure.retryable,
        "reason": reason,
        "origin": origin.value,
        "attempts_by_origin": history.by_origin(),
        "consumer": consumer,
        "fingerprint": failure.fingerprint,
        "signature": failure.signature,
        "evidence": failure.as_dict()["evidence"],
        "history": json.loads(history.to_json()),
    }
    optional = {
        "status_code": failure.status_code,
        "code": failure.code,
        "park_state": park_state,
        "stack": writable(stack[:MAX_STACK_LENGTH]),
    }
    return context | {name: value for name, value in optional.items() if value}


def build_origin(message: StreamMessage) -> dict[str, Any]:
    """Return the `origin` of a dead letter."""
    return {
        "queue": message.queue,
        "id": message.id,
        "group": message.group,
        "deliveries": message.deliveries,
        "key": message.key,
    }


def encode_dead_letter(message: StreamMessage, context: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the three fields of a dead letter: original_message, error_context, origin."""
    return encode_fields(message.fields), json.dumps(context), json.dumps(build_origin(message))


def decode_dead_letter(queue: str, entry_id: bytes, entry: Sequence[bytes]) -> StreamDeadLetter:
    """Read an entry of `{queue}:dlq`, also of another tool."""
    values = {entry[index]: entry[index + 1] for index in range(0, len(entry), 2)}
    context, origin = _object(values.get(b"error_context")), _object(values.get(b"origin"))
    message_id = str(origin.get("id", ""))
    return StreamDeadLetter(
        dead_letter_id=entry_id.decode(),
        queue=str(origin.get("queue", queue)),
        group=str(origin.get("group", "")),
        message_id=message_id,
        key=str(origin.get("key") or (f"{queue}:{message_id}" if message_id else "")),
        deliveries=_number(origin.get("deliveries")),
        original=_original(values.get(b"original_message")),
        error=str(context.get("error", "")),
        timestamp=str(context.get("timestamp", "")),
        service=str(context.get("service", "")),
        attempts=_number(context.get("attempts")),
        error_class=str(context.get("error_class", "")),
        category=str(context.get("category", "")),
        reason=str(context.get("reason", "")),
        integration=str(origin.get("integration") or ""),
        history=context["history"] if isinstance(context.get("history"), dict) else {},
        context=context,
    )


def iso_timestamp(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")


def _original(text: bytes | None) -> Fields | None:
    if text is None or text == b"null":
        return None
    try:
        return decode_fields(text)
    except ValueError:
        return None


def _object(text: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(text or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
