"""Random intents against both stores and against a small model of the contract: rows and answers agree after every step."""

from __future__ import annotations

from dataclasses import replace
from functools import partialmethod
from inspect import getmembers
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RULE_MARKER,
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from letters_model import LetterRules
from store_model import Entry, Gate, Model

from reprieve.core.lifecycle import JobStatus
from reprieve.core.policy import Cause
from reprieve.ports import intents as i
from reprieve.ports.intents import QueueState, Written

NOW = 1_700_000_000.0
STAGES = ("fetch", "llm")
EVERYWHERE = [("review", "fetch"), ("review", "llm"), ("other", "fetch")]
PLACES = st.sampled_from(EVERYWHERE)
COUNTERS = st.builds(i.Counters, handler=st.integers(0, 2), crash=st.sampled_from([0, 0, 1]), deploy=st.integers(0, 1))
REPORTS = ["checkpoint", "finish", "retry", "bury", "skip", "review", "wait", "release", "remember", "stop"]


def entry_of(row: dict[str, Any]) -> Entry:
    """What a row of the queue says; only a running job is asked to stop."""
    assert row["cancel_requested"] == (row["cancelled_by"] is not None)
    assert not row["cancel_requested"] or row["state"] == QueueState.LEASED
    values = {name: row[name] for name in Entry.__dataclass_fields__ if name in row}
    counters = i.Counters(**{name: row[name] for name in i.Counters.__dataclass_fields__})
    run_at = row["run_at"] if row["state"] == QueueState.SCHEDULED else None
    return Entry(**(values | {"state": QueueState(row["state"]), "counters": counters, "run_at": run_at}))


def gate_of(row: dict[str, Any]) -> Gate:
    return Gate(row["paused_by"], row["held_until"], row["opened_at"], row["probe_until"])


def worker_of(row: dict[str, Any]) -> tuple[float, bool, Cause | None]:
    cause = row["lost_cause"]
    return row["expires_at"], row["stopping"], None if cause is None else Cause(cause)


MODELLED = (
    "jobs", "queue", "outcomes", "attempts", "checkpoints", "memos", "stages", "workers", "campaign_counts", "campaign_members",
    "dead_letters", "dead_letter_counts", "dead_letter_groups", "dead_letter_history", "dead_letter_hours", "dead_letter_texts",
)  # fmt: skip
"""The tables that the model knows or that the audit of dead letters reads."""


class Machine(LetterRules, RuleBasedStateMachine):
    """Hands the same intents to a store and to the model."""

    desk: Any
    say: Any
    submits: Any

    @initialize(places=st.lists(PLACES, min_size=2, max_size=6))
    def begin(self, places: list[tuple[str, str]]) -> None:
        self.desk.empty()
        self.model = Model()
        self.now = NOW
        for number, (pipeline, stage) in enumerate(places):
            wanted = self.submits(f"first-{number}", pipeline=pipeline, stage=stage)
            self.model.submit(wanted, self.desk.do(wanted).job_id)
        for _ in range(3):
            self.register(places[0])

    def has(self, state: QueueState) -> bool:
        return any(entry.state is state for entry in self.model.queue.values())

    def known(self, data: Any) -> int:
        return data.draw(st.sampled_from([*self.model.queue, *[*self.model.ended][-2:], 999]))

    def agree(self) -> None:
        """The rows say what the model says."""
        model, rows = self.model, self.desk.everything(MODELLED)
        assert {row["id"]: row["rerun_of"] for row in rows["jobs"]} == model.reruns
        assert {row["job_id"]: entry_of(row) for row in rows["queue"]} == model.queue
        columns = ("status", "status_code", "stage", "fence", "reason", "ended_by", "finished_at")
        assert {row["job_id"]: tuple(row[name] for name in columns) for row in rows["outcomes"]} == model.ended
        assert [(row["job_id"], row["fence"]) for row in rows["attempts"]] == model.attempts
        self.agree_on_letters(rows)
        assert {(row["job_id"], row["stage"]): bytes(row["result"]) for row in rows["checkpoints"]} == model.results
        memos = {(row["job_id"], row["stage"], row["key"]): bytes(row["value"]) for row in rows["memos"]}
        assert memos == model.memos
        assert {(row["pipeline"], row["stage"]): gate_of(row) for row in rows["stages"]} == model.gates
        assert {row["id"]: worker_of(row) for row in rows["workers"]} == model.workers
        assert not set(model.queue) & set(model.ended)
        assert set(model.queue) | set(model.ended) == set(model.jobs)

    def both(self, intent: i.Intent, expected: Any) -> None:
        """The store answers as the model does; sent again after an unknown outcome, it answers the same and does nothing."""
        assert self.desk.do(intent) == expected
        if expected in {Written.APPLIED, Written.CANCELLED, Written.ESCALATED} or (
            isinstance(intent, i.Submit) and hasattr(expected, "job_id")
        ):
            again = self.desk.do(intent, again=True)
            if not isinstance(intent, i.Submit):
                assert again == expected
            elif not expected.duplicate:
                assert (again.job_id, again.duplicate) == (expected.job_id, False)
        self.agree()

    @rule(seconds=st.sampled_from([1, 5, 30, 100]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule(
        key=st.sampled_from("abcdefgh"),
        place=PLACES,
        payload=st.sampled_from([b"1", b"2"]),
        priority=st.sampled_from([0, 0, 5]),
        version=st.one_of(st.none(), st.integers(1, 4), st.just("next")),
        subject=st.sampled_from(["x", "y"]),
        delay=st.sampled_from([None, None, -5, 10]),
        supersedes=st.sampled_from([(), ("fetch",), STAGES]),
    )
    def submit(
        self, key: str, place: tuple[str, str], version: int | str | None, delay: float | None, **values: Any
    ) -> None:
        subject = values.pop("subject") if version is not None else values.pop("subject") and None
        self.now += 1  # two submissions at one moment would be one that is sent again
        values |= {"version": None, "next_version": True} if version == "next" else {"version": version}
        wanted = self.submits(
            key, pipeline=place[0], stage=place[1], subject=subject, created_at=self.now,
            run_at=None if delay is None else self.now + delay, **values,
        )  # fmt: skip
        answer = self.desk.do(wanted)
        new_id = getattr(answer, "job_id", 0)
        assert getattr(answer, "duplicate", True) or new_id > max(self.model.jobs, default=0)
        assert answer == self.model.submit(wanted, new_id)
        if hasattr(answer, "job_id") and not answer.duplicate:
            again = self.desk.do(wanted, again=True)
            assert (again.job_id, again.duplicate) == (new_id, False)
        self.agree()

    @precondition(lambda self: self.has(QueueState.READY))
    @rule(
        worker_id=st.integers(1, 3),
        capacity=st.sampled_from([5, 2, 1, 0]),
        places=st.just(dict.fromkeys(EVERYWHERE, 3)) | st.dictionaries(PLACES, st.integers(0, 3), min_size=1),
        probe=st.booleans(),
    )
    def claim(self, **values: Any) -> None:
        self.take(i.Claim(now=self.now, stages=values.pop("places"), **values))

    def take(self, wanted: i.Claim) -> list[int]:
        answer = self.desk.do(wanted)
        assert answer.suspects == bool(self.model.claimable(wanted, QueueState.SUSPECT))
        expected = [self.model.take(job_id, wanted) for job_id in self.model.expected(wanted)]
        assert [replace(lease, results=()) for lease in answer.leases] == expected
        for lease in answer.leases:
            results = {(lease.job_id, result.stage): result.data for result in lease.results}
            first = lease.stage == self.model.jobs[lease.job_id].stage
            kept = {} if first else {key: data for key, data in self.model.results.items() if key[0] == lease.job_id}
            assert results == kept
        self.agree()
        return [lease.job_id for lease in answer.leases]

    # The same rule three times: most of what happens to a store is work.
    @rule(data=st.data(), names=st.lists(st.sampled_from(REPORTS), min_size=1, max_size=3), used=COUNTERS)
    def work(self, data: Any, names: list[str], used: i.Counters) -> None:
        stages = dict.fromkeys(EVERYWHERE, 2)
        taken = self.take(i.Claim(now=self.now, worker_id=1, capacity=2, stages=stages))
        for job_id in taken:
            for name in names:
                self.say_about(data, name, used, job_id, 0)

    @rule(data=st.data(), names=st.lists(st.sampled_from(REPORTS), min_size=1, max_size=3), used=COUNTERS)
    def work_on(self, data: Any, names: list[str], used: i.Counters) -> None:
        self.work(data, names, used)

    @rule(data=st.data(), names=st.lists(st.sampled_from(REPORTS), min_size=1, max_size=3), used=COUNTERS)
    def work_and_wait(self, data: Any, names: list[str], used: i.Counters) -> None:
        self.work(data, names, used)
        self.now += 10
        self.promote(100)

    @precondition(lambda self: self.has(QueueState.SUSPECT))
    @rule(worker_id=st.integers(1, 3), places=st.sets(PLACES, min_size=1))
    def claim_a_suspect(self, worker_id: int, places: set[tuple[str, str]]) -> None:
        stages = dict.fromkeys(sorted(places), 5)
        wanted = i.Claim(worker_id=worker_id, capacity=5, stages=stages, now=self.now, suspects=True)
        answer = self.desk.do(wanted)
        suspects = self.model.claimable(wanted, QueueState.SUSPECT)
        assert [lease.job_id for lease in answer.leases] == suspects[:1]
        assert answer.suspects == (len(suspects) > 1)
        for lease in answer.leases:
            assert replace(lease, results=()) == self.model.take(lease.job_id, wanted)
        self.agree()

    @precondition(lambda self: self.has(QueueState.LEASED))
    @rule(data=st.data(), name=st.sampled_from(REPORTS), used=COUNTERS)
    def report(self, data: Any, name: str, used: i.Counters) -> None:
        leased = [job_id for job_id, entry in self.model.queue.items() if entry.state is QueueState.LEASED]
        self.say_about(data, name, used, data.draw(st.sampled_from(leased)), 0)

    @rule(data=st.data(), name=st.sampled_from(REPORTS), used=COUNTERS, off=st.sampled_from([0, -1, 1]))
    def report_on_anything(self, data: Any, name: str, used: i.Counters, off: int) -> None:
        self.say_about(data, name, used, self.known(data), off)

    @rule(data=st.data(), name=st.sampled_from(["complete", "retry", "bury", "skip", "review"]), used=COUNTERS)
    def report_without_a_lease(self, data: Any, name: str, used: i.Counters) -> None:
        self.say_about(data, name, used, self.known(data), 0, unleased=True)

    def say_about(
        self, data: Any, name: str, used: i.Counters, job_id: int, off: int, *, unleased: bool = False
    ) -> None:
        entry = self.model.queue.get(job_id)
        stage = entry.stage if entry else "fetch"
        values: dict[str, Any] = {}
        if name in {"retry", "review", "skip", "release"}:
            values["counters"] = used
        if name in {"checkpoint", "finish", "complete", "retry", "remember"}:
            values["stage"] = stage
        values |= {"started_at": self.now - 1, "finished_at": self.now} if name in {"checkpoint", "finish"} else {}
        if name in {"retry", "bury", "skip", "review"}:
            decision = {"retry": "retry", "bury": "dead_letter"}.get(name, "park")
            due = self.now + 10 if name == "retry" else None
            values["attempt"] = self.say.attempt(
                stage=stage, decision=decision, retry_at=due, ended_at=self.now, started_at=self.now - 1
            )
            values |= {"unleased": True} if unleased else {}
        if name == "retry":
            values |= {"run_at": self.now + 10, "opened_at": self.now - 1}
        if name == "bury":
            pipeline = entry.pipeline if entry else "review"
            values |= self.death(data, values["attempt"], pipeline)
        if name in {"bury", "skip", "review"}:
            values["pause"] = data.draw(st.sampled_from([False, False, False, True]))
        if name == "release":
            values["run_at"] = data.draw(st.sampled_from([None, self.now + 10]))
        if name == "remember":
            values |= {"key": data.draw(st.sampled_from("kl")), "value": data.draw(st.sampled_from([b"1", b"2"]))}
        if name in {"wait", "release", "remember", "complete", "stop"}:
            values["now"] = self.now
        said = getattr(self.say, name)(job_id, (entry.fence if entry else 1) + off, **values)
        self.both(said, self.model.report(name, said))

    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        wanted = self.say.cancel(self.known(data), now=self.now)
        self.both(wanted, self.model.cancel(wanted))

    @rule(limit=st.sampled_from([100, 1]))
    def promote(self, limit: int) -> None:
        scheduled = {job_id: e for job_id, e in self.model.queue.items() if e.state is QueueState.SCHEDULED}
        due = [job_id for job_id, entry in scheduled.items() if entry.run_at <= self.now]
        answer = self.desk.do(i.Promote(now=self.now, limit=limit))
        assert answer.count == min(limit, len(due))
        promoted = [job_id for job_id in due if self.desk.state(job_id) is not QueueState.SCHEDULED]
        assert len(promoted) == answer.count
        assert not promoted or max(scheduled[each].run_at for each in promoted) <= min(
            [scheduled[each].run_at for each in due if each not in promoted], default=self.now
        )
        for job_id in promoted:
            self.model.queue[job_id] = replace(scheduled[job_id], state=scheduled[job_id].idle, run_at=None)
        left = [entry.run_at for job_id, entry in scheduled.items() if job_id not in promoted]
        assert answer.next_due == min(left, default=None)
        self.agree()

    @precondition(lambda self: self.has(QueueState.WAITING))
    @rule(prefix=st.sampled_from(["deploy", "review"]), unless=st.sampled_from(["", "review"]), places=st.sets(PLACES))
    def wake(self, prefix: str, unless: str, places: set[tuple[str, str]]) -> None:
        woken = [
            job_id
            for job_id, entry in self.model.queue.items()
            if entry.waits_on is not None and entry.waits_on.startswith(prefix) and entry.waits_on != unless
            and (not places or (entry.pipeline, entry.stage) in places)
        ]  # fmt: skip
        answer = self.desk.do(i.Wake(prefix=prefix, unless=unless, stages=tuple(sorted(places)), now=self.now))
        for job_id in woken:
            entry = self.model.queue[job_id]
            self.model.queue[job_id] = entry.give_back(entry.idle)
        assert answer == len(woken)
        self.agree()

    @rule(
        place=PLACES,
        kind=st.sampled_from([i.Pause, i.Resume, i.Hold, i.Close, i.Probe, i.GiveBack]),
        opens=st.booleans(),
    )
    def change_a_stage(self, place: tuple[str, str], kind: type, opens: bool) -> None:  # noqa: FBT001 - as drawn
        about = {"pipeline": place[0], "stage": place[1], "now": self.now}
        gate = self.model.gates.get(place, Gate())
        match kind:
            case i.Pause:
                wanted = i.Pause(**about, actor="ann", reason="x")
                expected, after = gate.paused_by is None, replace(gate, paused_by=gate.paused_by or "ann")
            case i.Resume:
                wanted = i.Resume(**about, actor="ann")
                expected, after = (gate.paused_by, gate.held_until) != (None, None), Gate()
            case i.Hold:
                until = self.now + 20
                wanted = i.Hold(**about, until=until, error_class="X", reason="x", opens=opens)
                opened = self.now if opens and gate.opened_at is None else gate.opened_at
                probe = None if opens else gate.probe_until
                held = max(until, gate.held_until or until)
                expected, after = True, replace(gate, held_until=held, opened_at=opened, probe_until=probe)
            case i.Close:
                wanted = i.Close(**about)
                expected = gate.opened_at is not None
                after = Gate(paused_by=gate.paused_by) if expected else gate
            case i.GiveBack:
                until = gate.probe_until if opens and gate.probe_until is not None else self.now + 7
                wanted = i.GiveBack(**about, until=until)
                expected = gate.probe_until == until
                after = replace(gate, probe_until=None) if expected else gate
            case _:
                wanted = i.Probe(**about, until=self.now + 15)
                free = gate.probe_until is None or gate.probe_until <= self.now
                expected = gate.opened_at is not None and gate.lets_through(self.now, probe=True) and free
                after = replace(gate, probe_until=self.now + 15) if expected else gate
        assert self.desk.do(wanted) is expected
        if expected or place in self.model.gates:
            self.model.gates[place] = after
        self.agree()

    @rule(place=PLACES)
    def register(self, place: tuple[str, str]) -> None:
        wanted = i.Register(name="w", host="h", pid=1, stages=(place,), now=self.now, expires_at=self.now + 50)
        worker_id = self.desk.do(wanted)
        assert worker_id > max(self.model.workers, default=0)
        self.model.workers[worker_id] = (self.now + 50, False, None)
        self.model.gate(place)
        self.agree()

    @rule(
        worker_id=st.integers(1, 3),
        kind=st.sampled_from([i.Renew, i.Leave, i.Lost]),
        stopping=st.booleans(),
        seen=st.booleans(),
    )
    def change_a_worker(self, worker_id: int, kind: type, stopping: bool, seen: bool) -> None:  # noqa: FBT001 - as drawn
        expires_at, was_stopping, lost = self.model.workers.get(worker_id, (None, None, Cause.CRASH))
        if kind is i.Renew:
            answer = self.desk.do(
                i.Renew(worker_id=worker_id, now=self.now, expires_at=self.now + 50, stopping=stopping)
            )
            asked = {
                job_id
                for job_id, entry in self.model.queue.items()
                if entry.worker_id == worker_id and entry.cancelled_by is not None
            }
            assert (answer.alive, set(answer.cancel)) == (lost is None, asked if lost is None else set())
            if lost is None:
                self.model.workers[worker_id] = (self.now + 50, stopping, None)
        elif kind is i.Leave:
            assert self.desk.do(i.Leave(worker_id=worker_id)) is (worker_id in self.model.workers)
            self.model.workers.pop(worker_id, None)
        else:
            is_known = worker_id in self.model.workers
            is_lost = is_known and (seen or lost is not None or expires_at <= self.now)
            cause = Cause.OUT_OF_MEMORY if seen else Cause.CRASH
            assert self.desk.do(i.Lost(worker_id=worker_id, cause=cause, now=self.now, seen=seen)) is is_lost
            if is_lost:
                self.model.workers[worker_id] = (expires_at, was_stopping, lost or cause)
        self.agree()

    @rule(worker_id=st.integers(1, 3))
    def look(self, worker_id: int) -> None:
        held = {job_id: entry.fence for job_id, entry in self.model.queue.items() if entry.worker_id == worker_id}
        leases = self.desk.run(self.desk.store.leases_of(worker_id))
        assert {lease.job_id: lease.fence for lease in leases} == held
        lost = self.desk.run(self.desk.store.lost_workers(self.now, besides=worker_id))
        assert {worker.worker_id: worker.cause for worker in lost} == {
            other: cause
            for other, (expires_at, _, cause) in self.model.workers.items()
            if other != worker_id and (expires_at <= self.now or cause is not None)
        }
        for job_id, entry in self.model.queue.items():
            status = self.desk.status(job_id)
            if entry.state is QueueState.WAITING:
                assert (status is JobStatus.NEEDS_REVIEW) == entry.waits_on.startswith("review")
            if status is JobStatus.PENDING:
                assert entry.fence == 0


def run(machine: type[Machine], steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=50, stateful_step_count=steps, suppress_health_check=list(HealthCheck)),
    )


@pytest.mark.spec("REV-1.2", "REV-2.2", "CRIT-3.3")
def test_a_store_does_what_the_model_says(desk, say, submits):
    run(type("OfThis", (Machine,), {"desk": desk, "say": say, "submits": staticmethod(submits)}), 50)


ABOUT_LETTERS = {"live_and_die", "time_passes", "cancel"}


@pytest.mark.spec("CRIT-5.4", "CRIT-5.6")
def test_a_store_does_what_the_model_says_about_dead_letters(desk, say, submits):
    others = {
        name: partialmethod(found)  # which is drawn no more, and can be called
        for name, found in getmembers(Machine)
        if hasattr(found, RULE_MARKER) and name not in ABOUT_LETTERS
    }
    run(type("OfLetters", (Machine,), {"desk": desk, "say": say, "submits": staticmethod(submits), **others}), 10)
