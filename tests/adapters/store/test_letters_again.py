"""What is said about dead letters and sent again after an unknown outcome is answered as before, and done once."""

import pytest
from letters_lab import step

from reprieve.core.canary import CampaignState
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

NOW = 1_700_000_000.0
RUNNING, GATHERING = CampaignState.RUNNING, CampaignState.GATHERING
FOR_GOOD = {"error_retryable": False, "error_type": "terminal"}


def is_done_once(desk, intent):
    """What it is answered, when it is sent and when it is sent again, which changes nothing."""
    answer = desk.do(intent)
    before = desk.everything()
    assert desk.do(intent, again=True) == answer
    assert desk.everything() == before
    return answer


def is_done_now(desk, intent):
    """What it is answered where the first try was lost: it is done by the second."""
    before = desk.everything()
    answer = desk.do(intent, again=True)
    assert desk.everything() != before
    return answer


@pytest.mark.parametrize(
    "events", [(LetterEvent.TRIAGE,), (LetterEvent.NOTE,), (LetterEvent.TRIAGE, LetterEvent.REMEDIATE)]
)
def test_a_remedy(lab, events):
    ids = (lab.dead("a"), lab.bring(LetterState.REPLAYING, "b"), 999)
    answer = is_done_once(lab.desk, lab.remedying(ids, *events))
    assert ids[0] in answer.applied
    assert is_done_now(lab.desk, lab.remedying(lab.dead("c"), *events)).applied


def test_a_remedy_that_was_followed_by_others_was_done_all_the_same(lab):
    letter_id = lab.dead()
    said = lab.remedying(letter_id, LetterEvent.TRIAGE)
    lab.desk.do(said)
    lab.remedy(letter_id, LetterEvent.REMEDIATE, LetterEvent.APPROVE)
    before = lab.desk.everything()
    assert lab.desk.do(said, again=True).applied == (letter_id,)
    assert lab.desk.everything() == before


@pytest.mark.parametrize(
    ("other", "note"), [({"actor": "bob"}, "because"), ({"now": NOW + 11}, "because"), ({}, "another reason")]
)
def test_somebody_elses_remedy_is_not_taken_for_this_one(lab, other, note):
    letter_id = lab.dead()
    lab.remedy(letter_id, LetterEvent.DISCARD)
    before = lab.desk.everything()
    assert lab.remedy(letter_id, step(LetterEvent.DISCARD, note), again=True, **other).applied == ()
    assert lab.desk.everything() == before


@pytest.mark.parametrize("values", [{}, {"restart": True}, {"revision": i.Revision(payload=b"1", payload_type="T")}])
def test_a_replay(lab, values):
    letter_id = lab.dead("a")
    said = lab.replaying((letter_id, 999), **values)
    assert is_done_once(lab.desk, said).applied == (letter_id,)
    assert lab.row(letter_id)["replays"] == 1
    assert is_done_now(lab.desk, lab.replaying(lab.dead("b"), **values)).applied


def test_a_replay_whose_job_has_died_since_is_not_replayed_again(lab):
    letter_id = lab.dead()
    said = lab.replaying(letter_id)
    lab.desk.do(said)
    lab.desk.do(lab.bury(lab.lease(letter_id)))
    before = lab.desk.everything()
    assert lab.desk.do(said, again=True).applied == (letter_id,)
    assert lab.desk.everything() == before


def test_settling_again_settles_nothing_twice(lab):
    letter_id = lab.dead()
    lab.replay(letter_id)
    lease = lab.lease(letter_id)
    lab.desk.do(lab.say.finish(lease.job_id, lease.fence))
    assert lab.desk.do(i.Settle(now=NOW), again=True) == 1
    before = lab.desk.everything()
    assert lab.desk.do(i.Settle(now=NOW), again=True) == 0
    assert lab.desk.everything() == before


@pytest.mark.parametrize("attempt", [{}, FOR_GOOD])
def test_another_death(lab, attempt):
    letter_id = lab.dead(attempt=attempt)
    first = lab.bury(lab.desk.lease("other"), attempt=attempt)
    lab.replay(letter_id)
    second = lab.bury(lab.lease(letter_id), at=NOW + 99, attempt=attempt)
    expected = Written.ESCALATED if attempt else Written.APPLIED
    assert is_done_once(lab.desk, second) is expected
    assert lab.desk.batch(first, second, again=True) == [Written.APPLIED, expected]
    assert [row["deaths"] for row in lab.desk.rows("dead_letter_hours")] == [3]


def test_a_death_that_was_replayed_since_was_a_death(lab):
    lease = lab.desk.lease()
    said = lab.bury(lease)
    lab.desk.do(said)
    lab.replay(lab.of(lease.job_id))
    before = lab.desk.everything()
    assert lab.desk.do(said, again=True) is Written.APPLIED
    lab.desk.do(lab.bury(lab.lease(lab.of(lease.job_id)), at=NOW + 99, attempt=FOR_GOOD))
    before = lab.desk.everything()
    assert lab.desk.do(said, again=True) is Written.APPLIED, "the first, which was no relapse"
    assert lab.desk.everything() == before


def test_a_skip_is_not_taken_for_a_death(lab):
    letter_id = lab.dead()
    lab.replay(letter_id)
    lease = lab.lease(letter_id)
    lab.desk.do(lab.say.skip(lease.job_id, lease.fence))
    assert lab.desk.do(lab.bury(lease), again=True) is Written.STALE


def test_a_campaign_that_was_begun_is_that_campaign(lab):
    first = is_done_once(lab.desk, lab.gathering())
    assert is_done_now(lab.desk, lab.gathering(fingerprint=None, now=NOW + 12)) != first
    assert is_done_now(lab.desk, lab.gathering(fingerprint=None, selection="{}")) != first
    assert is_done_now(lab.desk, lab.gathering(fingerprint=None, actor="bob")) != first


def test_members_that_were_enlisted_are_counted_as_new(lab):
    campaign_id = lab.desk.do(lab.gathering())
    lab.desk.do(i.Enlist(campaign_id=campaign_id, letters=(1, 2, 3)))
    assert is_done_once(lab.desk, i.Enlist(campaign_id=campaign_id, letters=(1, 4, 5))) == 2
    assert is_done_now(lab.desk, i.Enlist(campaign_id=campaign_id, letters=(6,))) == 1
    assert [letter_id for letter_id, *_ in lab.members(campaign_id)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("wave", [None, 1])
def test_a_campaign_that_was_steered(lab, wave):
    campaign_id = lab.campaign((lab.dead(),))
    state = CampaignState.PAUSED if wave is None else RUNNING
    said = lab.steering(campaign_id, RUNNING, state, wave=wave, now=NOW + 80)
    assert is_done_once(lab.desk, said) is True
    other = lab.steering(campaign_id, RUNNING, state, wave=wave, now=NOW + 81, fence=1)
    assert lab.desk.do(other, again=True) is False, "somebody else's"


def test_a_campaign_that_was_paused_and_resumed_by_somebody_else_stays_resumed(lab):
    campaign_id = lab.campaign((lab.dead(),))
    pause = lab.steering(campaign_id, RUNNING, CampaignState.PAUSED, now=NOW + 80)
    lab.desk.do(pause)
    lab.desk.do(lab.steering(campaign_id, CampaignState.PAUSED, RUNNING, actor="bob", now=NOW + 81))
    before = lab.desk.everything()
    assert lab.desk.do(pause, again=True) is True, "it was done, before bob"
    assert lab.desk.do(pause) is False
    assert lab.desk.everything() == before


def test_a_launch(lab):
    ids = tuple(lab.dead(key) for key in "abcd")
    campaign_id = lab.campaign(ids)
    lab.remedy(ids[1], LetterEvent.DISCARD)
    assert is_done_once(lab.desk, lab.launching(campaign_id, 0, 0, 2)) == i.Launched(replayed=1, left_out=1)
    somebody_elses = lab.launching(campaign_id, 0, 0, 2, now=NOW + 21)
    assert lab.desk.do(somebody_elses, again=True) is None
    assert is_done_now(lab.desk, lab.launching(campaign_id, 0, 2, 2, now=NOW + 22)) == i.Launched(
        replayed=2, left_out=0
    )


def test_a_launch_after_which_the_campaign_has_gone_on(lab):
    campaign_id = lab.campaign(tuple(lab.dead(key) for key in "abc"))
    said = lab.launching(campaign_id, 0, 0, 1)
    lab.desk.do(said)
    lab.desk.do(lab.steering(campaign_id, RUNNING, RUNNING, wave=1))
    before = lab.desk.everything()
    assert lab.desk.do(said, again=True) == i.Launched(replayed=1, left_out=0)
    assert lab.desk.everything() == before
