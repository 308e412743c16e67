"""Alerts through Apprise: everything that it reaches by a URL."""

from __future__ import annotations

from reprieve.adapters.apprise.sink import AppriseSink

__all__ = ["AppriseSink"]
