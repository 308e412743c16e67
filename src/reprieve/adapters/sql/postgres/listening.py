"""LISTEN on a connection of its own; only a hint, so whatever goes wrong here costs no more than a poll's wait."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from reprieve.adapters.sql.postgres.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.adapters.sql.address import PostgresAddress

_LONGEST_WAIT = 30.0


class Listener:
    """Calls whoever subscribed when the server says that there may be something to do."""

    def __init__(self, address: PostgresAddress) -> None:
        self._link = Link(address, session="LISTEN reprieve")
        self._wakes: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Begin to listen with the first subscriber; the return value ends it."""
        self._wakes.append(wake)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen(), name="reprieve-listener")

        def leave() -> None:
            with suppress(ValueError):
                self._wakes.remove(wake)

        return leave

    async def close(self) -> None:
        """Stop listening."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._link.drop()

    async def _listen(self) -> None:
        wait = 0.1
        while True:
            try:
                connection = (await self._link.cursor()).connection
                self._tell()  # what was said while nobody listened
                wait = 0.1
                async for _ in connection.notifies():
                    self._tell()
            except (psycopg.Error, OSError):
                await self._link.drop()
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _tell(self) -> None:
        for wake in tuple(self._wakes):
            wake()
