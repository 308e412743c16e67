"""Signatures in the form of Standard Webhooks: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIX: Final = "whsec_"
_SHORTEST: Final = 24
"""Bytes of a key, as the form asks for."""


def key_of(secret: str) -> bytes:
    """The key that a secret spells; the words of a refusal hold none of it."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"a webhook's secret is {_PREFIX}... with base64 after it, and this one is not") from None
    if len(key) < _SHORTEST:
        raise UsageError(f"a webhook's secret has {len(key)} bytes, and {_SHORTEST} are the fewest")
    return key


def signed(keys: Sequence[bytes], *, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers that prove who sent it and when; a signature for each key, so that keys can be changed."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at)}
    content = b"%s.%d.%s" % (message_id.encode(), at, body)
    signatures = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys]
    return headers | ({"webhook-signature": " ".join(f"v1,{each}" for each in signatures)} if keys else {})
