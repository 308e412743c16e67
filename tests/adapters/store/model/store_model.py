"""The contract of a store, as plainly as it can be said: what rows there are after each intent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from letters_model import Letters

from reprieve.ports import intents as i
from reprieve.ports.intents import Cancelled, QueueState, Written

if TYPE_CHECKING:
    from reprieve.core.policy import Cause

NONE = i.Counters()
GOES_ON = {"retry", "review", "wait", "release"}


@dataclass
class Entry:
    """A job in the queue, as the model knows it."""

    pipeline: str
    stage: str
    priority: int
    state: QueueState = QueueState.READY
    fence: int = 0
    worker_id: int | None = None
    leased_at: float | None = None
    run_at: float | None = None
    opened_at: float | None = None
    waits_on: str | None = None
    alone: bool = False
    cancelled_by: str | None = None
    cancel_reason: str | None = None
    counters: i.Counters = NONE

    @property
    def idle(self) -> QueueState:
        suspect = self.counters.crash + self.counters.out_of_memory > 0
        return QueueState.SUSPECT if suspect else QueueState.READY

    def give_back(self, state: QueueState, **changes: Any) -> Entry:
        free = {"worker_id": None, "leased_at": None, "run_at": None, "waits_on": None, "alone": False}
        return replace(self, **(free | {"state": state} | changes))


@dataclass
class Gate:
    """A stage, as the model knows it."""

    paused_by: str | None = None
    held_until: float | None = None
    opened_at: float | None = None
    probe_until: float | None = None

    def lets_through(self, now: float, *, probe: bool) -> bool:
        held = self.held_until is not None and self.held_until > now
        return self.paused_by is None and not held and (self.opened_at is None or probe)


@dataclass
class Model:
    """The contract, as plainly as it can be said."""

    jobs: dict[int, i.Submit] = field(default_factory=dict)
    reruns: dict[int, int | None] = field(default_factory=dict)
    queue: dict[int, Entry] = field(default_factory=dict)
    ended: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    attempts: list[tuple[int, int]] = field(default_factory=list)
    results: dict[tuple[int, str], bytes] = field(default_factory=dict)
    finished: dict[tuple[int, str], tuple[float, float]] = field(default_factory=dict)
    memos: dict[tuple[int, str, str], bytes] = field(default_factory=dict)
    gates: dict[tuple[str, str], Gate] = field(default_factory=dict)
    workers: dict[int, tuple[float, bool, Cause | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.letters = Letters(self)

    def enqueue(self, job_id: int, stage: str, fence: int) -> None:
        job = self.jobs[job_id]
        self.queue[job_id] = Entry(job.pipeline, stage, job.priority, fence=fence)

    def gate(self, place: tuple[str, str]) -> Gate:
        return self.gates.setdefault(place, Gate())

    def end(
        self, job_id: int, status: str, stage: str, fence: int, reason: str | None, by: str | None, at: float
    ) -> None:
        del self.queue[job_id]
        self.ended[job_id] = (status, 599 if status == "dead_letter" else None, stage, fence, reason, by, at)

    def end_cancelled(self, job_id: int, reason: str | None, by: str | None, at: float) -> None:
        entry = self.queue[job_id]
        self.end(job_id, "cancelled", entry.stage, entry.fence, reason, by, at)

    def cancel(self, wanted: i.Cancel) -> Cancelled:
        entry = self.queue.get(wanted.job_id)
        if entry is None:
            return Cancelled.OVER if wanted.job_id in self.jobs else Cancelled.UNKNOWN
        if entry.state is QueueState.LEASED:
            self.queue[wanted.job_id] = replace(entry, cancelled_by=wanted.actor, cancel_reason=wanted.reason)
            return Cancelled.REQUESTED
        self.end_cancelled(wanted.job_id, wanted.reason, wanted.actor, wanted.now)
        return Cancelled.DONE

    def submit(self, wanted: i.Submit, new_id: int) -> i.Submitted | i.KeyTaken | i.VersionTooLow:
        for job_id, job in self.jobs.items():
            if job.idempotency_key == wanted.idempotency_key:
                if job.pipeline != wanted.pipeline:
                    return i.KeyTaken(pipeline=job.pipeline)
                version = job.version if wanted.next_version else None
                mismatch = job.payload != wanted.payload
                return i.Submitted(job_id=job_id, duplicate=True, mismatch=mismatch, version=version)
        kin = {
            job.version: job_id
            for job_id, job in self.jobs.items()
            if wanted.subject is not None and (job.pipeline, job.subject) == (wanted.pipeline, wanted.subject)
        }
        settled = None
        if wanted.next_version:
            settled = max(kin, default=0) + 1
            wanted = replace(wanted, version=settled, next_version=False)
        if wanted.version in kin:
            job_id = kin[wanted.version]
            return i.Submitted(job_id=job_id, duplicate=True, mismatch=self.jobs[job_id].payload != wanted.payload)
        if kin and max(kin) > wanted.version:
            return i.VersionTooLow(highest=max(kin))
        self.jobs[new_id] = wanted
        self.reruns[new_id] = kin[max(kin)] if kin else None
        later = wanted.run_at is not None and wanted.run_at > wanted.created_at
        state, run_at = (QueueState.SCHEDULED, wanted.run_at) if later else (QueueState.READY, None)
        self.queue[new_id] = Entry(wanted.pipeline, wanted.stage, wanted.priority, state=state, run_at=run_at)
        older = [
            job_id for job_id in kin.values() if job_id in self.queue and self.queue[job_id].stage in wanted.supersedes
        ]
        for job_id in older:
            reason = f"superseded by version {wanted.version}"
            self.cancel(i.Cancel(job_id=job_id, actor="reprieve", reason=reason, now=wanted.created_at))
        return i.Submitted(job_id=new_id, superseded=tuple(sorted(older)), version=settled)

    def claimable(self, wanted: i.Claim, state: QueueState) -> list[int]:
        *_, given_up = self.workers.get(wanted.worker_id, ("unknown",))
        if given_up is not None:
            return []
        free = {
            place
            for place in wanted.stages
            if self.gates.get(place, Gate()).lets_through(wanted.now, probe=wanted.probe)
        }
        found = [
            job_id
            for job_id, entry in self.queue.items()
            if entry.state is state and (entry.pipeline, entry.stage) in free
        ]
        return sorted(found, key=lambda job_id: (-self.queue[job_id].priority, job_id))

    def expected(self, wanted: i.Claim) -> list[int]:
        left = dict(wanted.stages)
        chosen = []
        for job_id in self.claimable(wanted, QueueState.READY):
            place = (self.queue[job_id].pipeline, self.queue[job_id].stage)
            if left[place] > 0 and len(chosen) < wanted.capacity:
                left[place] -= 1
                chosen.append(job_id)
        return chosen

    def take(self, job_id: int, wanted: i.Claim) -> i.Lease:
        entry, job = self.queue[job_id], self.jobs[job_id]
        self.queue[job_id] = replace(
            entry, state=QueueState.LEASED, fence=entry.fence + 1, worker_id=wanted.worker_id, leased_at=wanted.now,
            run_at=None, opened_at=wanted.now if entry.opened_at is None else entry.opened_at, alone=wanted.suspects,
        )  # fmt: skip
        return i.Lease(
            job_id=job_id, fence=entry.fence + 1, pipeline=job.pipeline, stage=entry.stage,
            idempotency_key=job.idempotency_key, payload=job.payload, payload_type=job.payload_type,
            created_at=job.created_at, priority=job.priority, subject=job.subject, version=job.version,
            counters=entry.counters, opened_at=entry.opened_at, alone=wanted.suspects,
        )  # fmt: skip

    def report(self, name: str, said: Any) -> Written:
        entry = self.queue.get(said.job_id)
        unleased = name == "complete" or getattr(said, "unleased", False)
        if entry is None or entry.fence != said.fence or (entry.state is QueueState.LEASED) is unleased:
            return Written.STALE
        asked = entry.cancelled_by is not None
        if name == "stop" and not asked:
            return Written.STALE
        at = said.attempt.ended_at if hasattr(said, "letter") or name in {"retry", "skip", "review"} else None
        if (asked and name in GOES_ON) or name == "stop":
            when = said.now if at is None else at
            self.end_cancelled(said.job_id, entry.cancel_reason, entry.cancelled_by, when)
            return Written.APPLIED if name == "stop" else Written.CANCELLED
        if name in {"retry", "bury", "skip", "review"}:
            self.attempts.append((said.job_id, said.fence))
        self._write(name, said, entry, at)
        if getattr(said, "pause", False):
            gate = self.gate((entry.pipeline, said.attempt.stage))
            gate.paused_by = gate.paused_by or "reprieve"
        if name == "bury" and self.letters.bury(said):
            return Written.ESCALATED
        return Written.CANCELLED if name == "checkpoint" and asked else Written.APPLIED

    def _write(self, name: str, said: Any, entry: Entry, at: float | None) -> None:
        job_id, fence = said.job_id, said.fence
        bumped = entry.fence + bool(getattr(said, "unleased", False))
        match name:
            case "checkpoint":
                self.results[job_id, said.stage] = said.result
                self.finished[job_id, said.stage] = (said.finished_at, said.started_at)
                self.queue[job_id] = replace(
                    entry, stage=said.next_stage, counters=i.Counters(), alone=False, opened_at=said.finished_at
                )
            case "finish" | "complete":
                ended = said.now if name == "complete" else said.finished_at
                self.end(job_id, "succeeded", said.stage, fence, None, None, ended)
            case "bury" | "skip":
                dead = name == "bury"
                status, reason = ("dead_letter", said.letter.reason) if dead else ("skipped", said.attempt.error_class)
                self.end(job_id, status, said.attempt.stage, fence, reason, None, at)
            case "review":
                changes = {"waits_on": "review", "counters": said.counters, "fence": bumped}
                self.queue[job_id] = entry.give_back(QueueState.WAITING, **changes)
            case "retry":
                changes = {"run_at": said.run_at, "stage": said.stage, "opened_at": said.opened_at}
                changes |= {"counters": said.counters, "fence": bumped}
                self.queue[job_id] = entry.give_back(QueueState.SCHEDULED, **changes)
            case "wait":
                self.queue[job_id] = entry.give_back(QueueState.WAITING, waits_on=said.waits_on)
            case "release":
                back = replace(entry, counters=said.counters)
                later = said.run_at is not None
                self.queue[job_id] = back.give_back(QueueState.SCHEDULED if later else back.idle, run_at=said.run_at)
            case "remember":
                self.memos.setdefault((job_id, said.stage, said.key), said.value)
