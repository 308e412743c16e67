"""A model on this machine: llama.cpp in a process of its own."""

from __future__ import annotations

from reprieve.adapters.localmodel.model import LocalModel

__all__ = ["LocalModel"]
