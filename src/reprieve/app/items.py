"""For callers who run their own loop over jobs that no worker claims: what became of an item (ING-5.2).

Such jobs belong to a pipeline that no worker runs. A step is a name of the caller's own; where workers have registered the
stages of the pipeline, it has to be one of them.

The same machinery as a worker's: classify, decide, write. There is no lease; a report is guarded by the job's fence, read just
before, and tried again where somebody else has written meanwhile. So every failure is counted once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from random import random
from typing import TYPE_CHECKING, Any, Final, assert_never

from reprieve.app.ingestion import PROFILE, judge_error, log_failure
from reprieve.app.pipeline.rules import check_name
from reprieve.app.pipeline.values import TypeCodec
from reprieve.app.profiles import resolve
from reprieve.app.worker.verdicts import Judged, Trial, judge, verdict
from reprieve.core.backoff import shown
from reprieve.core.decide import Abort, DeadLetter, Park, RetryAt
from reprieve.core.failure import ErrorClass
from reprieve.core.lifecycle import JobEvent, after
from reprieve.core.policy import ParkState
from reprieve.errors import StoreUnavailableError, UnknownNameError, UsageError
from reprieve.ports.intents import Complete, Counters, Lease, QueueState, Written

if TYPE_CHECKING:
    from reprieve.app.alerts.raising import Alerts
    from reprieve.app.journal import Journal
    from reprieve.app.profiles import ProfileLike
    from reprieve.core.decide import Decision
    from reprieve.core.policy import Profile
    from reprieve.ports.reader import JobView, Reader

_PATIENCE: Final = 10.0
"""Seconds for which a report waits for a store that is away."""
_TRIES: Final = 5
"""Looks at a job that others change at the same time."""
_HIGHEST_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Reports about jobs that nobody has leased."""

    journal: Journal
    reader: Reader
    digest_key: bytes
    alerts: Alerts

    async def failed(
        self,
        job: int | str,
        agent_name: str,
        step_name: str,
        error: object,
        config: ProfileLike | None = None,
        *,
        draw: float | None = None,
    ) -> Decision:
        """Classify, compute the delay, decide, write and log; returns what was decided."""
        step = check_name("step", step_name)
        profile = resolve(PROFILE if config is None else config)
        now = await self.journal.store.now()
        judged = _judged(error, profile, step, now)
        chance = random() if draw is None else draw  # noqa: S311 - jitter
        for _ in range(_TRIES):
            view, trial = await asyncio.to_thread(self._trial, job, step, profile, judged, now)
            decision, intent = verdict(trial, judged, now=now, draw=chance, key=self.digest_key)
            after(view.status, _event(decision))
            answer = await self.journal.ask(intent, patience=_PATIENCE)
            if answer is not Written.STALE:
                await self.alerts.written(profile, view.pipeline, intent, answer)
                became = f"set aside as {decision.state}" if isinstance(decision, Park) else None
                log_failure(agent_name, step, judged.failure, decision, intent.attempt.number, became=became)
                return decision
        raise _crowded(job)

    async def completed(self, job: int | str, step_name: str, result: object = None) -> None:
        """End the job as succeeded; the result is whatever JSON can hold."""
        step = check_name("step", step_name)
        codec = TypeCodec.of(Any)
        data = codec.encode(result, f"the result of {step}")
        now = await self.journal.store.now()
        for _ in range(_TRIES):
            view = await asyncio.to_thread(self._unleased, job, step)
            after(view.status, JobEvent.FINISH)
            intent = Complete(
                job_id=view.job_id, fence=view.fence, stage=step, result=data, result_type=codec.fingerprint, now=now
            )
            if await self.journal.ask(intent, patience=_PATIENCE) is not Written.STALE:
                return
        raise _crowded(job)

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _unleased(self, job: int | str, step: str) -> JobView:
        view = None
        if isinstance(job, str):
            view = self.reader.job_by_key(job)
        elif isinstance(job, bool) or not isinstance(job, int):
            raise UsageError(f"a job is given by its id or its key, not by {shown(job)}")
        elif 0 < job <= _HIGHEST_ID:
            view = self.reader.job(job)
        if view is None:
            raise UnknownNameError("job", str(job))
        if view.state is QueueState.LEASED:
            raise UsageError(f"job {view.job_id} is being run by a worker, which reports what becomes of it")
        self._require_stage(view.pipeline, step)
        return view

    def _require_stage(self, pipeline: str, step: str) -> None:
        """Refuse a step that is no stage, where workers have said which stages there are."""
        known = [each for each in self.reader.stages() if each.pipeline == pipeline]
        # A pause or a hold leaves a row too, of a step that no worker may know.
        registered = any(each.changed_at is None for each in known)
        if registered and all(each.stage != step for each in known):
            raise UnknownNameError(f"stage of {pipeline}", step, tuple(each.stage for each in known))

    def _trial(self, job: int | str, step: str, profile: Profile, judged: Judged, now: float) -> tuple[JobView, Trial]:
        view = self._unleased(job, step)
        counters = view.counters if view.stage == step else Counters()
        began = self._began(view.job_id, step) if counters.handler else None
        lease = Lease(
            job_id=view.job_id, fence=view.fence, pipeline=view.pipeline, stage=view.stage, payload_type="",
            idempotency_key=view.idempotency_key, payload=self.reader.payload(view.job_id), created_at=view.created_at,
            subject=view.subject, version=view.version,
        )  # fmt: skip
        trial = Trial(
            lease=lease, stage=step, profile=profile, counters=counters, opened_at=now if began is None else began,
            started_at=now, worker_id=None, unleased=True,
        )  # fmt: skip
        if judged.failure.error_class == ErrorClass.POLICY_REJECTED:
            trial = replace(trial, accepted_before=self.reader.accepted_before(view.job_id, step))
        return view, trial

    def _began(self, job_id: int, step: str) -> float | None:
        """When the first of the failures that are counted happened: the step's own beginning is known to the caller only."""
        first = [each for each in self.reader.attempts(job_id) if each.stage == step and each.number == 1]
        return first[-1].started_at if first else None


def _judged(error: object, profile: Profile, step: str, now: float) -> Judged:
    if isinstance(error, BaseException):
        return judge(error, profile, step, now)
    failure = judge_error(error, profile, now, stage=step)
    return Judged(failure=failure, stack=lambda: f"{failure.message}\n")


def _event(decision: Decision) -> JobEvent:
    match decision:
        case RetryAt():
            return JobEvent.RETRY
        case DeadLetter() | Abort():
            return JobEvent.BURY
        case Park():
            return JobEvent.SKIP if decision.state is ParkState.SKIPPED else JobEvent.ASK
        case _:
            assert_never(decision)


def _crowded(job: int | str) -> StoreUnavailableError:
    return StoreUnavailableError(f"job {job} was changed by somebody else each time: try again")
