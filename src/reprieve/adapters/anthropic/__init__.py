"""Models behind Anthropic's API."""

from __future__ import annotations

from reprieve.adapters.anthropic.model import Anthropic

__all__ = ["Anthropic"]
