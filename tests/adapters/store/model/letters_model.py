"""The contract about dead letters as plainly as it can be said, and the rules that hand it and a store the same intents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from letters_audit import audit
from letters_lab import step

from reprieve.core.lifecycle import LETTER_TRANSITIONS, LetterEvent, LetterState, after_another_death
from reprieve.ports import intents as i

E = LetterEvent
REPLAYS = {E.REPLAY, E.OVERRIDE}
BY_HAND = sorted(set(E) - REPLAYS - {E.RECOVER, E.FAIL, E.RELAPSE, E.WITHDRAW})
CLASSES = st.sampled_from(["NETWORK_TIMEOUT", "AUTH_DENIED"])
FINGERPRINTS = st.sampled_from(["v1:1", "v1:2"])
ACTS = ["replay", "replay", "run", "run", "remedy", "settle", "die"]
WAYS = [(E.OVERRIDE,), (E.OVERRIDE,), (E.TRIAGE, E.REMEDIATE, E.APPROVE, E.REPLAY), (E.REPLAY,), (E.REOPEN, E.OVERRIDE)]


@dataclass
class Letter:
    """A dead letter, as the model knows it."""

    fence: int
    error_class: str
    fingerprint: str
    state: LetterState = LetterState.OPEN
    replays: int = 0
    history: list[tuple[str, str, str]] = field(default_factory=list)

    def allows(self, events: tuple[LetterEvent, ...]) -> bool:
        state: LetterState | None = self.state
        for event in events:
            state = None if state is None else LETTER_TRANSITIONS.get((state, event))
        return state is not None

    def take(self, *events: LetterEvent) -> None:
        for event in events:
            after = LETTER_TRANSITIONS[self.state, event]
            self.history.append((event.value, self.state.value, after.value))
            self.state = after


class Letters:
    """The letters of a model, by job."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.of: dict[int, Letter] = {}

    def bury(self, said: i.Bury) -> bool:
        """Whether it is another death that is for engineering."""
        record, letter = said.letter, self.of.get(said.job_id)
        if letter is None:
            self.of[said.job_id] = Letter(said.fence, record.error_class, record.fingerprint)
            return False
        retryable = said.attempt.error_retryable
        event = after_another_death(before=letter.error_class, error_class=record.error_class, retryable=retryable)
        letter.take(event)
        letter.fence, letter.error_class, letter.fingerprint = said.fence, record.error_class, record.fingerprint
        return event is E.RELAPSE

    def can_replay(self, job_id: int, events: tuple[LetterEvent, ...], stage: str | None) -> bool:
        status, _, failed, *_ = self.model.ended.get(job_id, (None, None, None))
        done = {name for job, name in self.model.results if job == job_id}
        return self.of[job_id].allows(events) and status == "dead_letter" and stage in {None, failed, *done}

    def replay(self, job_id: int, events: tuple[LetterEvent, ...], stage: str | None, *, restart: bool) -> None:
        _, _, failed, fence, *_ = self.model.ended.pop(job_id)
        job = self.model.jobs[job_id]
        done = {name: when for (job, name), when in self.model.finished.items() if job == job_id}
        if stage is None and restart:
            start, forgotten = job.stage, {*done, failed}
        elif stage in done:
            start, forgotten = stage, {stage, failed} | {name for name, when in done.items() if when > done[stage]}
        else:
            start, forgotten = failed, set()
        for kept in (self.model.results, self.model.finished, self.model.memos):
            for key in [key for key in kept if key[0] == job_id and key[1] in forgotten]:
                del kept[key]
        self.model.enqueue(job_id, start, fence + 1)
        self.of[job_id].take(*events)
        self.of[job_id].replays += 1

    def settled(self) -> dict[int, LetterEvent]:
        """Which are to be settled, and how."""
        ends = {"succeeded": E.RECOVER, "cancelled": E.WITHDRAW, "skipped": E.WITHDRAW}
        return {
            job_id: ends[self.model.ended[job_id][0]]
            for job_id, letter in self.of.items()
            if letter.state is LetterState.REPLAYING and job_id in self.model.ended
        }


class LetterRules:
    """What people do about dead letters, tried on a store and on the model."""

    desk: Any
    say: Any
    submits: Any
    model: Any
    now: float

    def agree_on_letters(self, rows: dict[str, list[dict[str, Any]]]) -> None:
        """The letters and all that is counted about them are what the model says."""
        audit(rows)
        self.ids = {row["job_id"]: row["id"] for row in rows["dead_letters"]}
        groups = {row["id"]: (row["error_class"], row["fingerprint"]) for row in rows["dead_letter_groups"]}
        told: dict[int, list[tuple[str, str, str]]] = {letter_id: [] for letter_id in self.ids.values()}
        for row in rows["dead_letter_history"]:
            told[row["letter_id"]].append((row["event"], row["before"], row["after"]))
        found = {
            row["job_id"]: Letter(
                row["fence"], *groups[row["group_id"]], LetterState(row["state"]), row["replays"], told[row["id"]]
            )
            for row in rows["dead_letters"]
        }
        assert found == self.model.letters.of

    def death(self, data: Any, attempt: i.AttemptRecord, pipeline: str) -> dict[str, Any]:
        """How a job dies: with one of few classes, so that it dies of the same one again."""
        shared = {"error_class": data.draw(CLASSES), "fingerprint": data.draw(FINGERPRINTS)}
        letter = self.say.letter(pipeline=pipeline, stage=attempt.stage, last_failure_at=self.now, **shared)
        return {"letter": letter, "attempt": replace(attempt, **shared, error_retryable=data.draw(st.booleans()))}

    def some_letters(self, data: Any) -> list[int]:
        return data.draw(st.lists(st.sampled_from([*self.model.letters.of]), min_size=1, max_size=3, unique=True))

    def both_of_letters(self, said: Any, jobs: list[int], allowed: list[int]) -> None:
        """Answered for each as the model would, and the same if it is sent again, which does nothing."""
        for again in (False, True):
            answer = self.desk.do(said, again=again)
            assert answer.applied == tuple(self.ids[job_id] for job_id in allowed)
            assert {each.letter_id for each in answer.refused} == {self.ids[job_id] for job_id in jobs} - set(
                answer.applied
            )
            self.agree()

    # Several in a row: drawn one by one among all other rules, death would hardly ever follow on death.
    @rule(data=st.data(), acts=st.lists(st.sampled_from(ACTS), min_size=2, max_size=12))
    def live_and_die(self, data: Any, acts: list[str]) -> None:
        self.die(data)
        for act in acts if self.model.letters.of else ():  # nobody dies where the only worker has left
            getattr(self, act)(data)

    def remedy(self, data: Any) -> None:
        self.now += 1  # two remedies at one moment by the same person would be one that is sent again
        jobs = self.some_letters(data)
        state = self.model.letters.of[jobs[0]].state
        events = data.draw(st.sampled_from([[], [], [], *([event] for event in BY_HAND)]))
        for _ in range(data.draw(st.integers(1, 3))):
            # Mostly steps that the first of them can take: drawn at random hardly any would be.
            events.append(
                data.draw(st.sampled_from([event for event in BY_HAND if (state, event) in LETTER_TRANSITIONS]))
            )
            state = LETTER_TRANSITIONS[state, events[-1]]
        allowed = [job_id for job_id in jobs if self.model.letters.of[job_id].allows(tuple(events))]
        for job_id in allowed:
            self.model.letters.of[job_id].take(*events)
        ids = tuple(self.ids[job_id] for job_id in jobs)
        said = i.Remedy(letters=ids, steps=tuple(map(step, events)), actor="ann", now=self.now)
        self.both_of_letters(said, jobs, allowed)

    def replay(self, data: Any) -> None:
        self.now += 1
        jobs, events = self.some_letters(data), data.draw(st.sampled_from(WAYS))
        restart, stage = data.draw(
            st.sampled_from([(False, None), (False, None), (True, None), (False, "fetch"), (True, "llm")])
        )
        allowed = [job_id for job_id in jobs if self.model.letters.can_replay(job_id, events, stage)]
        for job_id in allowed:
            self.model.letters.replay(job_id, events, stage, restart=restart)
        said = i.Replay(
            letters=tuple(self.ids[job_id] for job_id in jobs), steps=tuple(map(step, events)), actor="ann", now=self.now,
            restart=restart, stage=stage,
        )  # fmt: skip
        self.both_of_letters(said, jobs, allowed)

    def die(self, data: Any) -> None:
        for _ in range(data.draw(st.integers(1, 2))):
            self.now += 1
            wanted = self.submits(f"dies-{self.now}", priority=9, created_at=self.now)
            self.model.submit(wanted, self.desk.do(wanted).job_id)
        self.run_on(data, ["bury"])

    def run(self, data: Any) -> None:
        self.run_on(
            data, data.draw(st.sampled_from([["bury"], ["bury"], ["checkpoint", "bury"], ["finish"], ["skip"]]))
        )

    def run_on(self, data: Any, names: list[str]) -> None:
        """Have a worker say this of what it claims, whatever an earlier failure has paused."""
        for (pipeline, stage), gate in self.model.gates.items():
            if gate.paused_by is not None or gate.held_until is not None:
                self.desk.do(i.Resume(pipeline=pipeline, stage=stage, actor="ann", now=self.now))
                gate.paused_by = gate.held_until = gate.opened_at = gate.probe_until = None
        self.work(data, names, i.Counters())

    def settle(self, _data: Any) -> None:
        settled = self.model.letters.settled()
        assert self.desk.do(i.Settle(now=self.now)) == len(settled)
        for job_id, event in settled.items():
            self.model.letters.of[job_id].take(event)
        self.agree()
