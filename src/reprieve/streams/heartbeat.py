"""The heartbeat of a consumer: a thread with a connection of its own, so that no handler can keep it from beating."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from reprieve.app.redaction import redact
from reprieve.streams.connection import COMMAND_TIMEOUT_SECONDS, BlockingRedisConnection
from reprieve.streams.scripts import HEARTBEAT

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.streams.connection import RedisAddress
    from reprieve.streams.keys import StreamKeys

BEATS_PER_LEASE: Final = 3
_RETRY_SECONDS: Final = 0.2
_LOST_SHARE: Final = 0.9
"""A consumer gives its lease up a little earlier than others take it over."""
_LOG: Final = logging.getLogger("reprieve.streams")


class Heartbeat:
    """Renews the lease of one consumer until it is stopped, or until `is_alive` says that the consumer hangs."""

    def __init__(
        self, address: RedisAddress, keys: StreamKeys, consumer: str, lease: float, is_alive: Callable[[], bool]
    ) -> None:
        self._keys, self._consumer, self._lease, self._is_alive = keys, consumer, lease, is_alive
        timeout = min(COMMAND_TIMEOUT_SECONDS, lease / BEATS_PER_LEASE)
        self._connection = BlockingRedisConnection(address, timeout=timeout)
        self._stopped = threading.Event()
        self._first = True
        self._renewed_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="reprieve-heartbeat", daemon=True)

    def beat(self) -> None:
        """Renew the lease once; the first time before the thread starts."""
        began = time.monotonic()
        keys = [self._keys.consumers, self._keys.rescue_hold]
        self._connection.run(HEARTBEAT, keys, self._consumer, round(self._lease * 1000), int(self._first))
        self._first = False
        self._renewed_at = began

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    @property
    def age(self) -> float:
        """Seconds since the last heartbeat that succeeded was sent."""
        return time.monotonic() - self._renewed_at

    @property
    def has_lease(self) -> bool:
        """Whether no other consumer can have taken over by now."""
        return self.age < self._lease * _LOST_SHARE

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=COMMAND_TIMEOUT_SECONDS)
        self._connection.close()

    def _run(self) -> None:
        pause = self._lease / BEATS_PER_LEASE
        wait, failing = pause, False
        while not self._stopped.wait(wait):
            if not self._is_alive():
                _LOG.critical("%s: the event loop hangs, so the heartbeat stops and others take over", self._consumer)
                wait = pause
                continue
            try:
                self.beat()
            except Exception as error:  # noqa: BLE001 - a heartbeat that ends silently would lose every lease
                if not failing:
                    _LOG.warning("%s: no heartbeat: %s", self._consumer, redact(str(error)))
                wait, failing = min(pause, _RETRY_SECONDS), True
            else:
                wait, failing = pause, False
