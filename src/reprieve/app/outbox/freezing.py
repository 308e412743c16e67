"""A message as bytes that stay the same on every try, and the token that stands for one recipient of one version."""

from __future__ import annotations

import json
from dataclasses import fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import UsageError
from reprieve.ports.sending import Message

if TYPE_CHECKING:
    from reprieve.ports.intents import DeliveryRecord

_FIELDS: Final = tuple(field.name for field in fields(Message))
_LARGEST: Final = 1_048_576


def token_of(changelist_id: str, recipient: str, review_version: int) -> str:
    """The same for ever for one recipient of one version, and another for everybody else: 40 hex digits."""
    parts = (changelist_id, recipient, str(review_version))
    return sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:40]


def freeze(message: Message) -> bytes:
    """The message as it is kept and sent; refused where no JSON holds it, or where it is too large."""
    if not isinstance(message, Message):
        raise UsageError(f"deliver takes messages, not {type(message).__name__}: reprieve.Message(recipient=...)")
    record = {name: getattr(message, name) for name in _FIELDS}
    try:
        data = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise UsageError(f"a message holds what JSON cannot: {type(error).__name__}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"a message takes {len(data):,} bytes, and {_LARGEST:,} are the most")
    return data


def thaw(row: DeliveryRecord) -> Message | None:
    """The message that a row holds; None once it was erased."""
    if row.body is None:
        return None
    record: dict[str, Any] = json.loads(row.body)
    return Message(**{**{name: record[name] for name in _FIELDS if name in record}, "recipient": row.recipient})
