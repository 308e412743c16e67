"""The statements move a signature as the table of its states says, each of its moves, and in no other way."""

from itertools import product

import pytest

from reprieve.core.analysis import ANALYSIS_TRANSITIONS, AnalysisEvent, AnalysisStatus, ReviewEvent
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

NOW = 1_700_000_000.0
ACTIVE, SKIPPED, ANALYZED, REVIEW = AnalysisStatus
LATER = NOW + 9


class Hand:
    """What is done to one signature of its own."""

    def __init__(self, desk, name):
        self.desk, self.name = desk, name

    @property
    def row(self):
        (found,) = self.desk.run(self.desk.store.analyses([self.name]))
        return found

    def take(self, question="q1", now=NOW):
        self.desk.do(i.Reserve(signatures=(self.name,), question=question, owner="me", until=now + 60, now=now))

    def conclude(self, now=LATER):
        place = {"signature": self.name, "fence": self.row.fence}
        self.desk.do(i.Conclude(**place, answer=b'"a"', model="m", now=now))

    def fault(self, status, now=LATER):
        place = {"signature": self.name, "fence": self.row.fence}
        return self.desk.do(i.Fault(**place, status=status, error_type="x", error_reason="x", now=now))

    def ask(self):
        if self.fault(REVIEW) is Written.STALE:
            place = {"signature": self.name, "fence": self.row.fence}
            self.desk.do(i.Recall(**place, question="q1", reason="x", now=LATER, material=i.Material()))

    def rule(self, event, now=LATER):
        mine = [each["id"] for each in self.desk.rows("reviews") if each["url_signature"] == self.name]
        answer = b'"by hand"' if event is ReviewEvent.VERIFY else None
        self.desk.do(i.Rule(review_id=(mine or [404])[-1], event=event, actor="ada", note="x", now=now, answer=answer))

    def reset(self):
        self.desk.do(i.Reset(signatures=(self.name,), actor="ada", note="x", now=LATER))


def begun(hand, start):
    """A signature that is so: by the model, or by a person."""
    hand.take()
    match start:
        case "skipped":
            hand.fault(SKIPPED, NOW + 1)
        case "analyzed":
            hand.conclude(NOW + 1)
        case "waiting" | "verified" | "rejected":
            hand.fault(REVIEW, NOW + 1)
    if start in ("verified", "rejected"):
        hand.rule(ReviewEvent.VERIFY if start == "verified" else ReviewEvent.REJECT, NOW + 2)


STARTS = ("active", "skipped", "analyzed", "waiting", "verified", "rejected")
MOVES = {
    AnalysisEvent.ANALYZE: Hand.conclude,
    AnalysisEvent.SKIP: lambda hand: hand.fault(SKIPPED),
    AnalysisEvent.PUT_OFF: lambda hand: hand.fault(ACTIVE),
    AnalysisEvent.ASK: Hand.ask,
    AnalysisEvent.VERIFY: lambda hand: hand.rule(ReviewEvent.VERIFY),
    AnalysisEvent.REJECT: lambda hand: hand.rule(ReviewEvent.REJECT),
    AnalysisEvent.UNDO: lambda hand: hand.rule(ReviewEvent.UNDO),
    AnalysisEvent.RESET: Hand.reset,
    AnalysisEvent.RENEW: lambda hand: hand.take("q2", LATER),
}


@pytest.mark.spec("LLM-5.1")
def test_a_signature_goes_where_the_table_says_and_nowhere_else(desk):
    made = {}
    for start, event in product(STARTS, AnalysisEvent):
        hand = Hand(desk, f"{start}/{event}")
        begun(hand, start)
        before = hand.row
        MOVES[event](hand)
        if (after := hand.row) != before:
            made[before.status, event] = after.status
    assert made == dict(ANALYSIS_TRANSITIONS)
