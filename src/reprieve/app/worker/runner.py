"""One claimed job through its stages: call, checkpoint, call, ... finish; or what became of it instead."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.alerts.raising import Alerts
from reprieve.app.pipeline.job import Job
from reprieve.app.worker.running import UNTRIED, LeaseLostError, Why
from reprieve.app.worker.verdicts import Trial, judge, judge_apart, log_decision, lost, verdict
from reprieve.app.worker.waiting import waited_on
from reprieve.core.classify import is_passage
from reprieve.core.decide import RetryAt
from reprieve.core.failure import ErrorClass
from reprieve.core.policy import Cause
from reprieve.errors import Misfit, StoreRefusedError, Wait
from reprieve.ports.intents import Await, Checkpoint, Finish, Release, Stop, StoredResult, Written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from concurrent.futures import Executor

    from reprieve.app.journal import Journal
    from reprieve.app.pipeline import Pipeline, Stage
    from reprieve.app.worker.gates import Gates
    from reprieve.app.worker.running import Running
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile
    from reprieve.ports.intents import Bury, Counters, Lease, Retry, SetAside
    from reprieve.ports.isolation import Isolator

_LOG: Final = logging.getLogger("reprieve.worker")


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs claimed jobs; holds what all of them share."""

    journal: Journal
    pipelines: Mapping[str, Pipeline]
    gates: Gates
    now: Callable[[], float]
    draw: Callable[[], float]
    digest_key: bytes
    worker_id: int
    threads: Executor | None = None
    isolator: Isolator | None = None
    accepted_before: Callable[[int, str], Awaitable[bool]] | None = None
    fallback: Profile
    """For stages of dead workers that this one does not know."""
    stopping: bool = False
    limits: dict[tuple[str, str], asyncio.Semaphore] = field(default_factory=dict)
    wake: Callable[[], None] | None = None
    """Called when a job has left a stage, where stages take only so many."""
    watch: Callable[[int, BaseException, Failure], None] | None = None
    """Shown what a stage of a job raised, and the verdict on it; for tests."""

    async def run(self, running: Running) -> None:
        """Take a job as far as it goes; never raises but for what ends the worker."""
        lease = running.lease
        pipeline = self.pipelines[lease.pipeline]
        try:
            stage = pipeline.find(lease.stage)
            if stage is not None:
                await self._through(running, pipeline, stage)
        except Misfit as misfit:
            running.free_slot()
            _LOG.warning("job %d waits for an upgrade of its pipeline: %s", lease.job_id, misfit)
            await self._wait_on(lease, f"upgrade:{pipeline.fingerprint}")
        except StoreRefusedError as refused:
            running.free_slot()
            await self._refused(running, pipeline, refused)
        except Wait as wait:
            running.free_slot()
            await self._wait_on(lease, waited_on(wait.on))
        except LeaseLostError:
            _LOG.warning("job %d was taken over by another worker", lease.job_id)
        finally:
            running.free_slot()

    async def _through(self, running: Running, pipeline: Pipeline, stage: Stage) -> None:
        lease = running.lease
        stored = {result.stage: result for result in lease.results}
        while True:
            running.started_at = self.now()
            data = await self._attempt(running, pipeline, stage, stored)
            if data is None:
                return
            finished_at = self.now()
            if not self.gates.is_quiet((lease.pipeline, stage.name)):
                await self.gates.succeeded((lease.pipeline, stage.name), finished_at)
            following = pipeline.after(stage)
            if following is None:
                running.free_slot()
                finish = Finish(
                    job_id=lease.job_id, fence=lease.fence, stage=stage.name, result=data,
                    result_type=stage.result.fingerprint, attempt=running.counters.handler + 1,
                    started_at=running.started_at, finished_at=finished_at,
                )  # fmt: skip
                await self._told(lease, await self.journal.ask(finish))
                return
            checkpoint = Checkpoint(
                job_id=lease.job_id, fence=lease.fence, stage=stage.name, next_stage=following.name, result=data,
                result_type=stage.result.fingerprint, attempt=running.counters.handler + 1,
                started_at=running.started_at, finished_at=finished_at,
            )  # fmt: skip
            answer = await self.journal.ask(checkpoint)
            if answer is not Written.APPLIED:
                await self._told(lease, answer)
                return
            stored[stage.name] = StoredResult(stage=stage.name, data=data, type=stage.result.fingerprint)
            stage = following
            running.go_on(stage.name, finished_at)
            if self.limits and self.wake is not None:
                self.wake()
            if self.stopping or self.gates.is_closed((lease.pipeline, stage.name), finished_at):
                await self.release(lease, UNTRIED)
                return

    async def _attempt(
        self, running: Running, pipeline: Pipeline, stage: Stage, stored: Mapping[str, StoredResult]
    ) -> bytes | None:
        """The stage's result as bytes; None where something else became of it, which is written by then."""
        lease = running.lease
        if lease.payload is None:
            raise Misfit("payload", "was erased")
        # Anew for each stage: what one does to it must not depend on whether another worker takes over.
        payload = pipeline.decode_payload(lease.payload, lease.payload_type)
        arguments = stage.arguments(stored)
        # Under the name that the job stands at, so that a renamed stage still finds what it remembered.
        running.job = job = Job(
            id=lease.job_id, payload=payload, pipeline=lease.pipeline, stage=running.stage,
            attempt=running.counters.handler + 1, idempotency_key=lease.idempotency_key, subject=lease.subject,
            version=lease.version, created_at=lease.created_at, memory=running, fresh=running.fresh,
        )  # fmt: skip
        if running.why is not None:
            await self._stopped(running, stage)
            return None
        running.calling, running.profile = True, stage.profile
        running.in_thread = not (stage.asynchronous or stage.isolated)
        try:
            value = await self._call(stage, job, arguments)
            running.calling = False
            return stage.encode(value)
        except (KeyboardInterrupt, SystemExit):
            running.calling = False
            await self.release(lease, running.counters.plus(Cause.DEPLOY))
            raise
        except (LeaseLostError, Wait):
            running.calling = False
            raise
        except BaseException as exc:
            running.calling = False
            if not is_passage(exc):
                await self._failed(running, stage, exc)
                return None
            await self._stopped(running, stage)
            if running.is_unwanted():
                raise
        return None

    def _trial(self, running: Running, stage: Stage) -> Trial:
        """The attempt that is being made, for deciding what becomes of it; under the name that the job stands at."""
        opened_at = running.started_at if running.opened_at is None else running.opened_at
        return Trial(
            lease=running.lease, stage=running.stage, profile=stage.profile, counters=running.counters, opened_at=opened_at,
            started_at=running.started_at, worker_id=self.worker_id, idempotent=stage.idempotent, proven=running.lease.alone,
        )  # fmt: skip

    def _call(self, stage: Stage, job: Job[Any], arguments: list[object]) -> Awaitable[object]:
        limit = self.limits.get((stage.pipeline, stage.name))
        if limit is not None:
            return self._call_in_turn(limit, stage, job, arguments)
        if stage.asynchronous and stage.timeout is None:
            call: Awaitable[object] = stage.function(job, *arguments)
            return call
        return self._call_now(stage, job, arguments)

    async def _call_in_turn(
        self, limit: asyncio.Semaphore, stage: Stage, job: Job[Any], arguments: list[object]
    ) -> object:
        async with limit:
            return await self._call_now(stage, job, arguments)

    async def _call_now(self, stage: Stage, job: Job[Any], arguments: list[object]) -> object:
        if stage.asynchronous:
            try:
                async with asyncio.timeout(stage.timeout) as limit:
                    return await stage.function(job, *arguments)
            except TimeoutError:
                if limit.expired():
                    raise _too_slow(stage) from None
                raise
        if stage.isolated and self.isolator is not None:
            apart = partial(judge_apart, profile=stage.profile, stage=stage.name)
            try:
                return await self.isolator.call(stage.function, (job, *arguments), timeout=stage.timeout, judge=apart)
            except TimeoutError:
                raise _too_slow(stage) from None
        context = contextvars.copy_context()
        call = partial(context.run, _plainly, stage.function, job, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)

    async def _failed(self, running: Running, stage: Stage, exc: BaseException) -> None:
        now, trial = self.now(), self._trial(running, stage)
        judged = judge(exc, stage.profile, stage.name, now)
        if self.watch is not None:
            self.watch(running.lease.job_id, exc, judged.failure)
        if judged.cause is not Cause.HANDLER:
            running.free_slot()
            # A child of its own that dies proves its job guilty: nobody else was in there.
            trial = replace(trial, proven=True)
            decision, intent = verdict(trial, judged, now=now, draw=self.draw(), key=self.digest_key)
            log_decision(trial, judged, decision)
            await self._decided(trial, intent)
            return
        failure = judged.failure
        if failure.error_class == ErrorClass.POLICY_REJECTED and self.accepted_before is not None:
            before = partial(self.accepted_before, running.lease.job_id, stage.name)
            trial = replace(trial, accepted_before=await self.journal.look(before))
        ceiling = stage.profile.policy_for(failure).retry_after_ceiling
        cost = await self.gates.failed(
            (running.lease.pipeline, stage.name), self.pipelines[running.lease.pipeline].breaker, failure,
            job_id=running.lease.job_id, probe=running.probe, now=now, ceiling=ceiling,
        )  # fmt: skip
        running.free_slot()
        decision, intent = verdict(
            trial, judged, now=now, draw=self.draw(), key=self.digest_key, free=cost.free, not_before=cost.not_before
        )
        log_decision(trial, judged, decision)
        await self._decided(trial, intent)

    async def _refused(self, running: Running, pipeline: Pipeline, refused: StoreRefusedError) -> None:
        """What became of a job cannot be written, by no worker: that is its failure. A person is asked where not even that can."""
        lease, stage = running.lease, pipeline.find(running.stage)
        _LOG.error("job %d: the store does not take what became of it: %s", lease.job_id, refused)
        try:
            if stage is not None:
                await self._failed(running, stage, refused)
                return
        except StoreRefusedError as again:
            _LOG.error("job %d waits for a person, as the store does not take that either: %s", lease.job_id, again)
        await self._wait_on(lease, "review:refused")

    async def _stopped(self, running: Running, stage: Stage) -> None:
        """Somebody ended the stage: the one who asked, the worker that goes, or the lease; or the stage itself."""
        lease, now, trial = running.lease, self.now(), self._trial(running, stage)
        running.free_slot()
        match running.why:
            case Why.TAKEN:
                return
            case Why.CANCEL:
                await self.journal.ask(Stop(job_id=lease.job_id, fence=lease.fence, now=now))
                return
            case Why.LEASE:
                judged = lost("the worker's lease ran out", Cause.LOST_LEASE, trial.stage)
            case Why.STOP:
                judged = lost("the worker was stopped", Cause.DEPLOY, trial.stage)
            case None:
                judged = lost("the stage was cancelled, and nobody had asked for it", Cause.DEPLOY, trial.stage)
        decision, intent = verdict(trial, judged, now=now, draw=self.draw(), key=self.digest_key)
        if judged.cause is Cause.DEPLOY and isinstance(decision, RetryAt):
            # Handing back what a deployment interrupts, or a cancellation, is no failure: it leaves a count, and no row.
            await self.release(lease, trial.counters.plus(Cause.DEPLOY))
            return
        await Alerts(self.journal).written(trial.profile, lease.pipeline, intent, await self.journal.ask(intent))

    async def release(self, lease: Lease, counters: Counters) -> None:
        """Hand a job back, to be claimed again at once."""
        await self._told(
            lease,
            await self.journal.ask(Release(job_id=lease.job_id, fence=lease.fence, counters=counters, now=self.now())),
        )

    async def _wait_on(self, lease: Lease, waits_on: str) -> None:
        await self._told(
            lease,
            await self.journal.ask(Await(job_id=lease.job_id, fence=lease.fence, waits_on=waits_on, now=self.now())),
        )

    async def _decided(self, trial: Trial, intent: Retry | Bury | SetAside) -> None:
        """Have it written what becomes of a failed attempt."""
        answer = await self.journal.ask(intent)
        await Alerts(self.journal).written(trial.profile, trial.lease.pipeline, intent, answer)
        await self._told(trial.lease, answer)

    async def _told(self, lease: Lease, answer: Written) -> None:
        """What the store made of it: usually just that; else the job is somebody else's, or is to be cancelled."""
        if answer is Written.STALE:
            _LOG.warning("job %d is not this worker's any more; its attempt counts for nothing", lease.job_id)
        elif answer is Written.CANCELLED:
            await self.journal.ask(Stop(job_id=lease.job_id, fence=lease.fence, now=self.now()))


def _plainly(function: Callable[..., object], *arguments: object) -> object:
    """What a coroutine does by itself: a StopIteration cannot leave through a future, which would wait for ever."""
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("the stage raised StopIteration") from error


def _too_slow(stage: Stage) -> TimeoutError:
    if stage.operation is not None:
        detail = "its process was killed" if stage.isolated else stage.operation.unstopped
        return stage.operation.error(detail)
    return TimeoutError(f"the stage took longer than its timeout of {stage.timeout:g} s")
