"""What the services share: how changes reach the store, who asked for them and why, and which names there are."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from reprieve.app.redaction import redact
from reprieve.core.failure import ErrorClass
from reprieve.errors import UnknownNameError, UsageError
from reprieve.ports.alerting import AlertKeeper
from reprieve.ports.dead_letters import DeadLetterKeeper, GroupFilter
from reprieve.ports.reader import Keeper
from reprieve.ports.reviews import ReviewKeeper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reprieve.app.journal import Journal
    from reprieve.ports.dead_letters import DeadLetterReader, LetterFilter
    from reprieve.ports.reader import Reader

    OpenJournal = Callable[[], Awaitable[Journal]]
    MayOverride = Callable[[str], bool]


class Upkeep(Keeper, DeadLetterKeeper, ReviewKeeper, AlertKeeper, Protocol):
    """All upkeep there is."""


AUDIT: Final = logging.getLogger("reprieve.operations")
"""Told of every change, with its actor."""
PATIENCE: Final = 10.0
"""Seconds for which a change waits for a store that is away."""
_LONGEST_ACTOR: Final = 200
_LONGEST_REASON: Final = 1000
_MOST_GROUPS: Final = 10_000


def actor_of(actor: str) -> str:
    """The actor's name as it is kept; a change without one is refused."""
    if not actor.strip():
        raise UsageError("a change needs an actor: say who asks for it")
    if len(actor) > _LONGEST_ACTOR or not actor.isprintable():
        raise UsageError(f"an actor is a name of at most {_LONGEST_ACTOR} printable characters")
    return actor


def reason_of(reason: str, *, longest: int = _LONGEST_REASON) -> str:
    """A reason as it is kept: sanitized, then cut."""
    text = reason.encode("utf-8", "replace").decode().replace("\0", " ").strip()
    return redact(text)[:longest]


def everybody(actor: str) -> bool:
    """Whether this one may: always."""
    _ = actor
    return True


async def require_pipeline(reader: Reader, name: str) -> None:
    """Refuse a pipeline that has no stage and no job, with the nearest name."""
    stages = await asyncio.to_thread(reader.stages, counted=True)
    known = tuple(sorted({stage.pipeline for stage in stages}))
    if name not in known:
        raise UnknownNameError("pipeline", name, known)


async def require_known(reader: Reader, letters: DeadLetterReader, wanted: LetterFilter | GroupFilter) -> None:
    """Refuse a pipeline, a stage or a class that there is none of: no dead letter will ever be found by it."""
    stages = await asyncio.to_thread(reader.stages, counted=True)
    asked = (
        ("pipeline", wanted.pipeline, {stage.pipeline for stage in stages}),
        ("stage", wanted.stage, {stage.stage for stage in stages if wanted.pipeline in (None, stage.pipeline)}),
        ("error class", wanted.error_class, set(map(str, ErrorClass))),
    )
    if all(name is None or name in known for _, name, known in asked):
        return
    # What is not declared anywhere may still have died: stages of old, items without a pipeline, classes of the user's own.
    died = await asyncio.to_thread(letters.groups, GroupFilter(limit=_MOST_GROUPS), now=0.0)
    for kind, name, known in asked:
        match kind:
            case "pipeline":
                known.update(each for group in died for each in group.pipelines)
            case "stage":
                known.update(each for group in died for each in group.stages)
            case _:
                known.update(group.error_class for group in died)
        if name is not None and name not in known:
            raise UnknownNameError(kind, name, tuple(sorted(known)))
