"""Messages by HTTP: signed as Standard Webhooks has it, under an idempotency key, and only to addresses that are public."""

from __future__ import annotations

from reprieve.adapters.webhook.sender import Webhook

__all__ = ["Webhook"]
