"""Ready-made replies, shaped as the providers shape them; each is a function that returns an act."""

from __future__ import annotations

from reprieve.testing.replies import anthropic, github, google, openai, slack, stripe, web

__all__ = ["anthropic", "github", "google", "openai", "slack", "stripe", "web"]
