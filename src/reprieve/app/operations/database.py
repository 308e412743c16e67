"""The database: whether its tables fit and nothing in them is orphaned; upgrading; moving to another."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.operations.asking import AUDIT, actor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reprieve.ports.reader import Keeper, Orphans, Reader, SchemaView

_ORPHANS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a look at the database found."""

    schema: SchemaView
    orphans: Orphans | None
    """None where the tables do not fit, so that nothing was looked for."""

    @property
    def sound(self) -> bool:
        """Whether it can be worked with, and nothing in it is odd."""
        found = self.orphans
        return found is not None and not (found.neither or found.both or found.jobless or found.unleased)


class DatabaseOperations:
    """What an operator can see and do about the database itself."""

    def __init__(self, reader: Reader, keeper: Keeper) -> None:
        self._reader, self._keeper = reader, keeper

    async def check(self) -> Health:
        """Look, and change nothing; reads every job's row, so it takes seconds where there are millions."""
        schema = await asyncio.to_thread(self._keeper.schema)
        if schema.fit != "current":
            return Health(schema=schema, orphans=None)
        return Health(schema=schema, orphans=await asyncio.to_thread(self._reader.orphans, limit=_ORPHANS_SHOWN))

    async def upgrade(self, *, actor: str) -> tuple[SchemaView, SchemaView]:
        """Make the tables, or bring them up to date: what there was, and what there is."""
        actor = actor_of(actor)
        before = await asyncio.to_thread(self._keeper.schema)
        await asyncio.to_thread(self._keeper.upgrade)
        after = await asyncio.to_thread(self._keeper.schema)
        if before != after:
            AUDIT.info("%s upgraded the database from revision %s to %s", actor, before.revision, after.revision)
        return before, after

    async def copy(
        self, to: str, *, actor: str, told: Callable[[str, int], None] = lambda *_: None
    ) -> Mapping[str, int]:
        """Copy everything into another, empty database; `told` hears, in a thread, of each table's rows as they come."""
        actor = actor_of(actor)
        counts = await asyncio.to_thread(self._keeper.copy_to, to, told)
        AUDIT.info("%s copied the database: %d rows", actor, sum(counts.values()))
        return counts
