"""What can be done about a dead letter in which state: all of the table, and nothing that it does not have."""

import json
from itertools import product

import pytest
from letters_lab import step

from reprieve.core.lifecycle import LETTER_TRANSITIONS, LetterEvent, LetterState
from reprieve.core.remedies import RootCause

NOW = 1_700_000_000.0
REPLAYS = {LetterEvent.REPLAY, LetterEvent.OVERRIDE}
ENGINES = {LetterEvent.RECOVER, LetterEvent.FAIL, LetterEvent.RELAPSE, LetterEvent.WITHDRAW}
EVERYTHING = list(product(LetterState, LetterEvent))
BY_HAND = {pair: after for pair, after in LETTER_TRANSITIONS.items() if pair[1] not in ENGINES | REPLAYS}
LEGAL = BY_HAND | {pair: after for pair, after in LETTER_TRANSITIONS.items() if pair[1] in REPLAYS}


def ask(lab, letter_id, event):
    """Have this happen to a letter, by the intent that is for it."""
    return (lab.replay if event in REPLAYS else lab.remedy)(letter_id, event)


@pytest.mark.spec("CRIT-5.1", "CRIT-5.2", "CRIT-5.3")
@pytest.mark.parametrize(("state", "event"), [pair for pair in EVERYTHING if pair not in LEGAL])
def test_what_a_state_does_not_allow_is_refused_with_a_reason_and_changes_nothing(lab, state, event):
    letter_id = lab.bring(state)
    before = lab.desk.everything()
    answer = ask(lab, letter_id, event)
    assert answer.applied == ()
    (refused,) = answer.refused
    assert (refused.letter_id, refused.state) == (letter_id, state)
    assert event in refused.why
    assert lab.desk.everything() == before


@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_what_a_state_allows_is_done_and_told_once(lab, state, event):
    letter_id, other = lab.bring(state), lab.dead("other")
    entries, untouched = len(lab.desk.history(letter_id)), lab.row(other)
    assert ask(lab, letter_id, event).applied == (letter_id,)
    assert lab.state(letter_id) is LEGAL[state, event]
    *_, last = lab.desk.history(letter_id)
    assert len(lab.desk.history(letter_id)) == entries + 1
    assert (last["event"], last["before"], last["after"]) == (event, state, LEGAL[state, event])
    assert (last["actor"], last["note"]) == ("ann", "because")
    assert lab.row(other) == untouched


def test_all_states_can_be_brought_about(lab):
    assert {lab.state(lab.bring(state, f"key-{state}")) for state in LetterState} == set(LetterState)
    assert lab.counts() == dict.fromkeys(LetterState, 1)


@pytest.mark.spec("CRIT-5.1")
def test_several_steps_are_taken_together_and_the_cause_is_named(lab):
    letter_id = lab.dead()
    triage = step(LetterEvent.TRIAGE, "the key was wrong", cause=RootCause.DATA, detail='{"ticket": "T-1"}')
    lab.remedy(letter_id, triage, LetterEvent.REMEDIATE, LetterEvent.APPROVE, actor="bob", now=NOW + 42)
    assert lab.told(letter_id) == [
        ("triage", "bob", "triaged"),
        ("remediate", "bob", "remediated"),
        ("approve", "bob", "approved"),
    ]
    first = lab.desk.history(letter_id)[0]
    assert (first["at"], first["note"]) == (NOW + 42, "the key was wrong")
    assert json.loads(first["detail"])["ticket"] == "T-1"
    row = lab.row(letter_id)
    assert (row["state"], row["cause"], row["escalated"]) == ("approved", "data", False)


@pytest.mark.spec("CRIT-5.1")
def test_the_history_keeps_every_cause_that_was_named_with_the_failure_it_was_named_for(lab):
    spent = lab.dead("spent", error_class="NETWORK_TIMEOUT", stage="fetch", attempts=5, budget=5)
    denied = lab.dead("denied", error_class="AUTH_DENIED", stage="llm", attempts=1, budget=5)
    lab.remedy((spent, denied), step(LetterEvent.TRIAGE, cause=RootCause.DATA))
    lab.remedy(denied, step(LetterEvent.TRIAGE, cause=RootCause.CODE))
    named = {
        letter_id: [json.loads(row["detail"]) for row in lab.desk.history(letter_id)] for letter_id in (spent, denied)
    }
    first = {
        "cause": "data",
        "error_class": "AUTH_DENIED",
        "stage": "llm",
        "attempts": 1,
        "budget": 5,
        "exhausted": False,
    }
    assert named[denied] == [first, {**first, "cause": "code"}]
    assert named[spent] == [
        {"cause": "data", "error_class": "NETWORK_TIMEOUT", "stage": "fetch", "attempts": 5, "budget": 5, "exhausted": True}
    ]  # fmt: skip


def test_a_letter_that_is_reopened_has_no_cause_any_more(lab):
    letter_id, other = lab.dead("a"), lab.dead("b")
    for each in (letter_id, other):
        lab.remedy(each, step(LetterEvent.TRIAGE, cause=RootCause.DATA), LetterEvent.DISCARD)
    lab.remedy(letter_id, LetterEvent.REOPEN)
    assert lab.row(letter_id)["cause"] is None
    lab.replay(other, LetterEvent.REOPEN, LetterEvent.OVERRIDE)
    assert lab.row(other)["cause"] is None


def test_a_cause_stands_until_another_is_named(lab):
    letter_id = lab.dead()
    lab.remedy(letter_id, step(LetterEvent.TRIAGE, cause=RootCause.DATA))
    lab.remedy(letter_id, LetterEvent.REMEDIATE)
    assert lab.row(letter_id)["cause"] == "data"
    lab.remedy(letter_id, step(LetterEvent.TRIAGE, cause=RootCause.CODE))
    lab.remedy(letter_id, step(LetterEvent.TRIAGE))
    assert lab.row(letter_id)["cause"] == "code"


def test_steps_are_taken_all_or_none(lab):
    letter_id = lab.dead()
    before = lab.desk.everything()
    answer = lab.remedy(letter_id, LetterEvent.TRIAGE, LetterEvent.APPROVE)
    assert (answer.applied, answer.refused[0].why) == ((), "a dead letter that is triaged cannot approve")
    assert answer.refused[0].state is LetterState.OPEN
    assert lab.desk.everything() == before


def test_many_letters_are_each_judged_by_their_own_state(lab):
    states = [LetterState.OPEN, LetterState.RESOLVED, LetterState.TRIAGED, LetterState.REPLAYING, LetterState.ESCALATED]
    ids = [lab.bring(state, f"key-{state}") for state in states]
    answer = lab.remedy((*reversed(ids), 999), LetterEvent.TRIAGE, LetterEvent.REMEDIATE)
    assert answer.applied == (ids[4], ids[2], ids[0])
    assert [(each.letter_id, each.state) for each in answer.refused] == [
        (ids[3], LetterState.REPLAYING),
        (ids[1], LetterState.RESOLVED),
        (999, None),
    ]
    assert answer.refused[2].why == "there is no dead letter 999"
    assert [lab.state(letter_id) for letter_id in ids] == [
        "remediated",
        "resolved",
        "remediated",
        "replaying",
        "remediated",
    ]
    assert [row["before"] for row in lab.desk.history(ids[2])][-2:] == ["triaged", "triaged"]


def test_what_is_closed_knows_since_when_until_it_is_reopened(lab):
    letter_id = lab.dead()
    lab.remedy(letter_id, LetterEvent.DISCARD, now=NOW + 5)
    lab.remedy(letter_id, LetterEvent.NOTE, now=NOW + 6)
    assert lab.row(letter_id)["closed_at"] == NOW + 5
    lab.remedy(letter_id, LetterEvent.REOPEN, LetterEvent.DISCARD, now=NOW + 7)
    assert lab.row(letter_id)["closed_at"] == NOW + 7
    lab.remedy(letter_id, LetterEvent.REOPEN, now=NOW + 8)
    assert lab.row(letter_id)["closed_at"] is None


@pytest.mark.spec("CRIT-5.6")
def test_what_was_escalated_stays_marked_for_engineering(lab):
    letter_id = lab.dead()
    lab.remedy(letter_id, LetterEvent.ESCALATE)
    assert lab.row(letter_id)["escalated"] is True
    lab.remedy(letter_id, LetterEvent.TRIAGE)
    assert lab.row(letter_id)["escalated"] is True


def test_a_note_changes_nothing_but_the_history(lab):
    letter_id = lab.dead()
    before = lab.row(letter_id)
    lab.remedy(letter_id, step(LetterEvent.NOTE, "asked the provider"))
    assert lab.row(letter_id) == before
    assert [row["note"] for row in lab.desk.history(letter_id)] == ["asked the provider"]


def test_what_is_said_about_one_letter_in_one_batch_holds_in_the_order_of_saying(lab):
    letter_id = lab.dead()
    answers = lab.desk.batch(
        lab.remedying(letter_id, LetterEvent.TRIAGE),
        lab.remedying(letter_id, LetterEvent.TRIAGE, LetterEvent.APPROVE),
        lab.remedying(letter_id, LetterEvent.REMEDIATE, LetterEvent.APPROVE),
        lab.replaying(letter_id, LetterEvent.REPLAY),
        lab.remedying(letter_id, LetterEvent.DISCARD),
    )
    assert [bool(answer.applied) for answer in answers] == [True, False, True, True, False]
    assert lab.state(letter_id) is LetterState.REPLAYING


def test_a_letter_that_is_named_twice_takes_its_steps_once(lab):
    letter_id = lab.dead()
    assert lab.remedy((letter_id, letter_id), LetterEvent.NOTE).applied == (letter_id,)
    assert len(lab.desk.history(letter_id)) == 1


def test_a_thousand_letters_are_remedied_and_replayed_at_once(lab, submits):
    desk = lab.desk
    desk.batch(*[submits(f"key-{number}") for number in range(1000)])
    leases = desk.claim(1, capacity=1000, stages={("review", "fetch"): 1000})
    buried = [lab.bury(lease, fingerprint=f"v1:{lease.job_id % 50}") for lease in leases]
    assert set(desk.batch(*buried)) == {"applied"}
    ids = tuple(row["id"] for row in desk.rows("dead_letters"))
    assert lab.remedy(ids, LetterEvent.TRIAGE, LetterEvent.REMEDIATE, LetterEvent.APPROVE).applied == ids
    assert lab.counts() == {"approved": 1000}
    assert lab.replay(ids, LetterEvent.REPLAY).applied == ids
    leases = desk.claim(1, capacity=1000, stages={("review", "fetch"): 1000})
    desk.batch(*[lab.say.finish(lease.job_id, lease.fence) for lease in leases])
    assert [lab.settle(limit=600), lab.settle(limit=600), lab.settle()] == [600, 400, 0]
    assert lab.counts() == {"replayed": 1000}
