"""Models behind OpenAI's API, or behind one that is compatible with it."""

from __future__ import annotations

from reprieve.adapters.openai.model import OpenAI

__all__ = ["OpenAI"]
