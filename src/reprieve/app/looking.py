"""Look-ups in threads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Looks:
    """Blocking look-ups that a coroutine awaits; nothing can stop one, so whoever closes waits for them."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[object]] = set()

    async def __call__(self, look: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
        """What it finds; a caller that is cancelled leaves it running."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[T] = loop.run_in_executor(None, partial(look, *arguments, **options))
        self._under_way.add(found)  # type: ignore[arg-type]  # whatever they find
        found.add_done_callback(self._under_way.discard)
        return await asyncio.shield(found)

    async def close(self) -> None:
        """Wait for those that are under way, whoever asked for them."""
        while self._under_way:
            await asyncio.wait(self._under_way)
