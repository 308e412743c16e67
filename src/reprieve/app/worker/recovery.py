"""Taking over what dead workers held.

A death that nobody saw is a crash, unless something says otherwise: the worker was being stopped (a deployment), its process
is alive on this very machine (it only lost its lease), or the store was away until that lease had run out, so that it could
not have said how it ended. A job that was claimed when a worker crashed becomes a
suspect and is run alone; only a worker that dies with nothing else in it condemns a job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Final

from reprieve.app.alerts.raising import Alerts
from reprieve.app.worker.verdicts import Trial, log_decision, lost, verdict
from reprieve.core.decide import RetryAt
from reprieve.core.policy import Cause
from reprieve.ports.intents import Leave, Lost, Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.app.pipeline import Pipeline
    from reprieve.app.worker.runner import Runner
    from reprieve.core.policy import Profile
    from reprieve.ports.intents import Lease, LostWorker

_LOG: Final = logging.getLogger("reprieve.worker")
HOST: Final = socket.gethostname()


async def take_over(runner: Runner, *, everybody: bool = False, patiently: bool = False) -> int:
    """Take over from all who are lost; from all but ourselves where nobody else can be alive. Says how many jobs it was.

    Patiently: only from those whose death was seen. The others may have been cut off from the store, and be back soon.
    """
    moment = float(2**40) if everybody else runner.now()
    taken = 0
    for worker in await runner.journal.store.lost_workers(moment, besides=runner.worker_id):
        if worker.worker_id in runner.journal.workers and everybody:
            continue
        lives = False if everybody else _lives(worker, runner.journal.workers)
        if patiently and worker.cause is None and lives is not False:
            continue
        cause = _cause(worker, lives=lives)
        # From now on it can claim nothing: what it holds is all that it will ever hold.
        seen = everybody or worker.cause is not None or lives is False
        if not await runner.journal.ask(Lost(worker_id=worker.worker_id, cause=cause, now=runner.now(), seen=seen)):
            continue  # it was only late: it lives
        leases = await runner.journal.store.leases_of(worker.worker_id)
        _LOG.warning("worker %s is gone (%s); taking over %d jobs", worker.name, cause, len(leases))
        await asyncio.gather(*[_take(runner, worker, lease, cause) for lease in leases])
        await runner.journal.ask(Leave(worker_id=worker.worker_id))
        taken += len(leases)
    return taken


async def _take(runner: Runner, worker: LostWorker, lease: Lease, cause: Cause) -> None:
    """Guarded by the fence: two who take over at the same time do it once."""
    now = runner.now()
    opened_at = now if lease.opened_at is None else lease.opened_at
    trial = Trial(
        lease=lease, stage=lease.stage, profile=_profile(runner.pipelines, lease, runner.fallback), counters=lease.counters,
        # It began with the claim, or when the stage before it was done.
        started_at=max(opened_at, lease.leased_at or opened_at), opened_at=opened_at, worker_id=worker.worker_id,
        idempotent=True, proven=lease.alone,
    )  # fmt: skip
    judged = lost(f"worker {worker.name} was lost: {cause}", cause, lease.stage)
    decision, intent = verdict(trial, judged, now=now, draw=runner.draw(), key=runner.digest_key)
    if cause is Cause.DEPLOY and isinstance(decision, RetryAt):
        counters = lease.counters.plus(cause)
        await runner.journal.ask(Release(job_id=lease.job_id, fence=lease.fence, counters=counters, now=now))
        return
    log_decision(trial, judged, decision)
    await Alerts(runner.journal).written(trial.profile, lease.pipeline, intent, await runner.journal.ask(intent))


def _profile(pipelines: Mapping[str, Pipeline], lease: Lease, fallback: Profile) -> Profile:
    """The stage's, where this worker knows it."""
    pipeline = pipelines.get(lease.pipeline)
    stage = None if pipeline is None else pipeline.find(lease.stage)
    return fallback if stage is None else stage.profile


def _cause(worker: LostWorker, *, lives: bool | None) -> Cause:
    if worker.cause is not None:
        return worker.cause
    if worker.stopping:
        return Cause.DEPLOY
    return Cause.LOST_LEASE if lives or worker.unheard else Cause.CRASH


def _lives(worker: LostWorker, ours: set[int]) -> bool | None:
    """Whether its process is there; None where that cannot be seen from here."""
    if worker.host != HOST:
        return None
    # A restarted container has its predecessor's name and process id.
    return worker.worker_id in ours if worker.pid == os.getpid() else _is_alive(worker.pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
