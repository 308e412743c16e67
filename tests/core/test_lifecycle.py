"""The table of a job's states: every pair of status and event, and the ways that lead out of each."""

import itertools
import pickle

import pytest

from reprieve.core.lifecycle import OVER, TRANSITIONS, JobEvent, JobStatus, after
from reprieve.errors import IllegalTransitionError

PAIRS = list(itertools.product(JobStatus, JobEvent))
OPEN = [status for status in JobStatus if not status.over]

# Written out a second time, by status, so that a change of the table has to be meant.
EXPECTED = {
    "pending": {
        "claim": "in_progress", "finish": "succeeded", "retry": "retryable_failed", "bury": "dead_letter",
        "skip": "skipped", "ask": "needs_review", "cancel": "cancelled",
    },
    "in_progress": {
        "claim": "in_progress", "checkpoint": "in_progress", "finish": "succeeded", "retry": "retryable_failed",
        "bury": "dead_letter", "skip": "skipped", "ask": "needs_review", "release": "in_progress",
        "cancel": "cancelled",
    },
    "retryable_failed": {
        "claim": "in_progress", "finish": "succeeded", "retry": "retryable_failed", "bury": "dead_letter",
        "skip": "skipped", "ask": "needs_review", "cancel": "cancelled",
    },
    "needs_review": {"answer": "in_progress", "skip": "skipped", "cancel": "cancelled"},
    "dead_letter": {"replay": "in_progress"},
    "succeeded": {},
    "skipped": {"reopen": "needs_review"},
    "cancelled": {},
}  # fmt: skip


@pytest.mark.parametrize(("status", "event"), PAIRS, ids=[f"{status}-{event}" for status, event in PAIRS])
def test_every_pair_leads_where_it_should_or_is_refused_and_changes_nothing(status, event):
    before = dict(TRANSITIONS)
    expected = EXPECTED[status].get(event)
    if expected is not None:
        assert after(status, event) is JobStatus(expected)
    else:
        with pytest.raises(IllegalTransitionError) as refused:
            after(status, event)
        assert (refused.value.kind, refused.value.state, refused.value.event) == ("job", status, event)
        assert refused.value.__suppress_context__
    assert before == TRANSITIONS


def reachable(status, events):
    found, todo = set(), [status]
    while todo:
        state = todo.pop()
        for event in events:
            target = TRANSITIONS.get((state, event))
            if target is not None and target not in found:
                found.add(target)
                todo.append(target)
    return found


@pytest.mark.parametrize("status", OPEN)
def test_what_is_not_over_has_a_way_to_every_end(status):
    assert reachable(status, JobEvent) >= OVER


@pytest.mark.parametrize("status", [status for status in OPEN if status is not JobStatus.NEEDS_REVIEW])
def test_without_any_person_a_job_can_still_succeed_and_be_given_up(status):
    of_people = {JobEvent.CANCEL, JobEvent.ANSWER, JobEvent.REPLAY, JobEvent.REOPEN, JobEvent.ASK}
    assert reachable(status, set(JobEvent) - of_people) >= {JobStatus.SUCCEEDED, JobStatus.DEAD_LETTER}


@pytest.mark.parametrize("status", sorted(OVER))
def test_what_is_over_is_left_by_the_replay_of_a_dead_letter_and_by_who_takes_a_rejection_back_alone(status):
    ways_out = {event for event in JobEvent if (status, event) in TRANSITIONS}
    left = {JobStatus.DEAD_LETTER: {JobEvent.REPLAY}, JobStatus.SKIPPED: {JobEvent.REOPEN}}
    assert ways_out == left.get(status, set())
    assert status.over


def test_every_status_but_the_first_is_reached_and_the_first_never_again():
    assert set(TRANSITIONS.values()) == set(JobStatus) - {JobStatus.PENDING}


def test_every_event_happens_to_some_job():
    assert {event for _, event in TRANSITIONS} == set(JobEvent)


def test_a_refusal_reads_as_a_sentence_and_survives_pickling():
    with pytest.raises(IllegalTransitionError) as refused:
        after(JobStatus.SUCCEEDED, JobEvent.CLAIM)
    assert str(refused.value) == "a job that is succeeded cannot claim"
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
