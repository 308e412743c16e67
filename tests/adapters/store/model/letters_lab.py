"""Dead letters in any state, brought there by what a store understands and by nothing else."""

from __future__ import annotations

import json
from typing import Any

from reprieve.core.canary import CampaignState
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.ports import intents as i

NOW = 1_700_000_000.0
WAY = {
    LetterState.OPEN: (),
    LetterState.TRIAGED: (LetterEvent.TRIAGE,),
    LetterState.REMEDIATED: (LetterEvent.TRIAGE, LetterEvent.REMEDIATE),
    LetterState.APPROVED: (LetterEvent.TRIAGE, LetterEvent.REMEDIATE, LetterEvent.APPROVE),
    LetterState.ESCALATED: (LetterEvent.ESCALATE,),
    LetterState.DISCARDED: (LetterEvent.DISCARD,),
}
"""By hand; the other states come with a replay."""


def step(event: LetterEvent, note: str = "because", **values: Any) -> i.Step:
    return i.Step(event=event, note=note, **values)


class Letters:
    """What the tests of dead letters do, time and again."""

    def __init__(self, desk: Any, say: Any) -> None:
        self.desk = desk
        self.say = say

    # --- doing

    def bury(self, lease: Any, *, at: float = NOW + 1, attempt: Any = None, **letter: Any) -> i.Bury:
        """What its worker says when it gives the job up; class, stage and fingerprint go into the attempt too."""
        shared = {name: letter[name] for name in ("stage", "error_class", "category", "fingerprint") if name in letter}
        values = {"decision": "dead_letter", "retry_at": None, "number": 5, "ended_at": at, **shared, **(attempt or {})}
        record = self.say.letter(**({"last_failure_at": at} | letter))
        return self.say.bury(lease.job_id, lease.fence, attempt=self.say.attempt(**values), letter=record)

    def dead(self, key: str = "key", *, submit: Any = None, **values: Any) -> int:
        """A job that died; its letter's id."""
        lease = self.desk.lease(key, **(submit or {}))
        assert self.desk.do(self.bury(lease, **values)) is i.Written.APPLIED
        return self.of(lease.job_id)

    def remedy(self, letters: int | tuple[int, ...], *events: Any, again: bool = False, **values: Any) -> i.Remedied:
        return self.desk.do(self.remedying(letters, *events, **values), again=again)

    def remedying(self, letters: int | tuple[int, ...], *events: Any, **values: Any) -> i.Remedy:
        ids = (letters,) if isinstance(letters, int) else letters
        steps = tuple(each if isinstance(each, i.Step) else step(each) for each in events)
        return i.Remedy(letters=ids, steps=steps, **({"actor": "ann", "now": NOW + 10} | values))

    def replay(self, letters: int | tuple[int, ...], *events: Any, again: bool = False, **values: Any) -> i.Remedied:
        return self.desk.do(self.replaying(letters, *events, **values), again=again)

    def replaying(self, letters: int | tuple[int, ...], *events: Any, **values: Any) -> i.Replay:
        """Against all gates, unless events say otherwise."""
        remedy = self.remedying(letters, *(events or (LetterEvent.OVERRIDE,)))
        defaults = {"actor": "ann", "now": NOW + 20}
        return i.Replay(letters=remedy.letters, steps=remedy.steps, **(defaults | values))

    def lease(self, letter_id: int, *stages: str) -> i.Lease:
        """Claim its job, which was replayed."""
        job_id = self.job(letter_id)
        return next(lease for lease in self.desk.claim(1, *stages, now=NOW + 30) if lease.job_id == job_id)

    def settle(self, now: float = NOW + 50, **values: Any) -> int:
        return self.desk.do(i.Settle(now=now, **values))

    def bring(self, state: LetterState, key: str = "key") -> int:
        """A letter in this state."""
        letter_id = self.dead(key)
        if state in WAY:
            if WAY[state]:
                assert self.remedy(letter_id, *WAY[state], now=NOW + 5).applied == (letter_id,)
            return letter_id
        assert self.replay(letter_id, now=NOW + 5).applied == (letter_id,)
        if state is not LetterState.REPLAYING:
            lease = self.lease(letter_id)
            assert self.desk.do(self.say.finish(lease.job_id, lease.fence)) is i.Written.APPLIED
            assert self.settle(NOW + 6) == 1
        if state is LetterState.RESOLVED:
            assert self.remedy(letter_id, LetterEvent.RESOLVE, now=NOW + 7).applied == (letter_id,)
        assert self.state(letter_id) is state
        return letter_id

    def campaign(self, letters: tuple[int, ...], *, waves: tuple[int, ...] = (1, 2), **values: Any) -> int:
        """A campaign that runs over these."""
        campaign_id = self.desk.do(self.gathering(waves=waves, **values))
        assert self.desk.do(i.Enlist(campaign_id=campaign_id, letters=letters)) == len(letters)
        assert self.desk.do(self.steering(campaign_id, CampaignState.GATHERING, CampaignState.RUNNING)) is True
        return campaign_id

    def gathering(self, **values: Any) -> i.Gather:
        defaults = {
            "actor": "ann", "now": NOW + 11, "selection": '{"fingerprint": "v1:1"}', "fingerprint": "v1:1",
            "steps": (step(LetterEvent.OVERRIDE, "a fix is out"),), "waves": (1, 2),
        }  # fmt: skip
        return i.Gather(**(defaults | values))

    def steering(self, campaign_id: int, before: CampaignState, after: CampaignState, **values: Any) -> i.Steer:
        seen = self.desk.row("campaigns", id=campaign_id)
        defaults = {
            "actor": "ann",
            "reason": "so it is",
            "now": NOW + 12,
            "fence": 0 if seen is None else seen["fence"],
        }
        return i.Steer(campaign_id=campaign_id, expects=(before,), state=after, **(defaults | values))

    def launching(self, campaign_id: int, wave: int, launched: int, count: int, **values: Any) -> i.Launch:
        defaults = {"campaign_id": campaign_id, "wave": wave, "launched": launched, "count": count, "now": NOW + 20}
        return i.Launch(**(defaults | values))

    # --- looking

    def row(self, letter_id: int) -> dict[str, Any]:
        return self.desk.row("dead_letters", id=letter_id)

    def of(self, job_id: int) -> int:
        return self.desk.row("dead_letters", job_id=job_id)["id"]

    def job(self, letter_id: int) -> int:
        return self.row(letter_id)["job_id"]

    def state(self, letter_id: int) -> LetterState:
        return LetterState(self.row(letter_id)["state"])

    def told(self, letter_id: int) -> list[tuple[str, str, str]]:
        """Event, actor and the state after it, of each entry of the history."""
        return [(row["event"], row["actor"], row["after"]) for row in self.desk.history(letter_id)]

    def detail(self, letter_id: int) -> dict[str, Any]:
        """Of the last entry."""
        return json.loads(self.desk.history(letter_id)[-1]["detail"])

    def members(self, campaign_id: int) -> list[tuple[int, str, int | None]]:
        rows = self.desk.rows("campaign_members", campaign_id=campaign_id)
        return [(row["letter_id"], row["state"], row["wave"]) for row in sorted(rows, key=lambda row: row["place"])]

    def counts(self) -> dict[str, int]:
        """How many letters are in which state, as it is counted."""
        counts: dict[str, int] = {}
        for row in self.desk.rows("dead_letter_counts"):
            counts[row["state"]] = counts.get(row["state"], 0) + row["letters"]
        return {state: letters for state, letters in counts.items() if letters}
