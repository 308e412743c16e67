"""Messages in Slack, marked with metadata by which they are found again."""

from __future__ import annotations

from reprieve.adapters.slack.sender import Slack

__all__ = ["Slack"]
