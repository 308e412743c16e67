"""Stages: look, pause, resume."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, reason_of
from reprieve.app.pipeline.rules import check_name
from reprieve.errors import UnknownNameError
from reprieve.ports.intents import Pause, Resume
from reprieve.ports.reader import StageView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.operations.asking import OpenJournal
    from reprieve.ports.reader import Reader


class StageOperations:
    """What an operator can see and do about stages."""

    def __init__(self, reader: Reader, journal: OpenJournal) -> None:
        self._reader, self._journal = reader, journal

    async def list(self, pipeline: str | None = None) -> Sequence[StageView]:
        """Every stage that a worker has registered or a job stands at, with how many do."""
        stages = await asyncio.to_thread(self._reader.stages, counted=True)
        if pipeline is None:
            return stages
        found = [stage for stage in stages if stage.pipeline == pipeline]
        if not found:
            raise UnknownNameError("pipeline", pipeline, tuple(sorted({stage.pipeline for stage in stages})))
        return found

    async def pause(
        self, pipeline: str, stage: str | None = None, *, actor: str, reason: str = "", declared: Sequence[str] = ()
    ) -> Sequence[StageView]:
        """Let nobody claim a stage, or any of a pipeline's; what runs goes on. Those that were not paused before.

        Before a worker has registered the stages, name one, or say which the pipeline has: `declared`.
        """
        actor, reason = actor_of(actor), reason_of(reason)
        wanted = await self._pausable(pipeline, stage, declared)
        journal = await self._journal()
        now = await journal.store.now()
        changed = []
        for each in wanted:
            pause = Pause(pipeline=each.pipeline, stage=each.stage, actor=actor, reason=reason, now=now)
            if await journal.ask(pause, patience=PATIENCE):
                AUDIT.info("%s paused stage %s of %s", actor, each.stage, each.pipeline)
                changed.append(each)
        return changed

    async def resume(self, pipeline: str, stage: str | None = None, *, actor: str) -> Sequence[StageView]:
        """Let a paused or held stage go on, or all of a pipeline's. Those that stood still before."""
        actor = actor_of(actor)
        wanted = await self._wanted(pipeline, stage)
        journal = await self._journal()
        now = await journal.store.now()
        changed = []
        for each in wanted:
            resume = Resume(pipeline=each.pipeline, stage=each.stage, actor=actor, now=now)
            if await journal.ask(resume, patience=PATIENCE):
                AUDIT.info("%s resumed stage %s of %s", actor, each.stage, each.pipeline)
                changed.append(each)
        return changed

    async def _pausable(self, pipeline: str, stage: str | None, declared: Sequence[str]) -> Sequence[StageView]:
        """What is to be paused, registered or not."""
        rows = [each for each in await asyncio.to_thread(self._reader.stages) if each.pipeline == pipeline]
        if declared:
            known = {each: _unregistered(pipeline, each) for each in declared}
            known |= {each.stage: each for each in rows}
            if stage is not None and stage not in known:
                raise UnknownNameError(f"stage of {pipeline}", stage, tuple(known))
            return [each for each in known.values() if stage in (None, each.stage)]
        # What is paused may have been so before any worker came; one that is not was registered, with all the others.
        if stage is None or any(not each.paused for each in rows):
            return await self._wanted(pipeline, stage)
        await self.list(pipeline)  # a job at least has been there
        return [_unregistered(pipeline, check_name("stage", stage))]

    async def _wanted(self, pipeline: str, stage: str | None) -> Sequence[StageView]:
        stages = await self.list(pipeline)
        if stage is None:
            return stages
        found = [each for each in stages if each.stage == stage]
        if not found:
            raise UnknownNameError(f"stage of {pipeline}", stage, tuple(each.stage for each in stages))
        return found


def _unregistered(pipeline: str, stage: str) -> StageView:
    return StageView(
        pipeline=pipeline, stage=stage, paused=False, paused_by=None, reason=None, held_until=None, opened_at=None,
        error_class=None, probe_until=None, changed_at=None,
    )  # fmt: skip
