"""Campaigns: their members frozen, their waves launched once whoever tries, and what became of each member."""

import pytest
from letters_lab import step

from reprieve.core.canary import CampaignState
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.core.remedies import RootCause
from reprieve.ports import intents as i

NOW = 1_700_000_000.0
RUNNING, GATHERING, PAUSED, STOPPED = (
    CampaignState.RUNNING,
    CampaignState.GATHERING,
    CampaignState.PAUSED,
    CampaignState.STOPPED,
)


def dead(lab, keys="abcd", **values):
    return tuple(lab.dead(key, **values) for key in keys)


def run(lab, letter_id, ending="finish", **values):
    """Run its job, which was replayed, to this end."""
    lease = lab.lease(letter_id)
    said = lab.bury(lease, **values) if ending == "bury" else getattr(lab.say, ending)(lease.job_id, lease.fence)
    return lab.desk.do(said)


def test_a_campaign_begins_by_gathering(lab):
    steps = (step(LetterEvent.TRIAGE, cause=RootCause.CODE), step(LetterEvent.OVERRIDE))
    campaign_id = lab.desk.do(lab.gathering(steps=steps, rate=20.0, restart=True, stage="llm", waves=(1, 5)))
    row = lab.desk.row("campaigns", id=campaign_id)
    assert (row["state"], row["wave"], row["launched"], row["waves"], row["rate"]) == (
        "gathering",
        0,
        0,
        "[1, 5]",
        20.0,
    )
    assert (row["created_by"], row["created_at"], row["changed_by"], row["changed_at"]) == ("ann", NOW + 11) * 2
    assert (row["restart"], row["stage"], row["fingerprint"], row["reason"]) == (True, "llm", "v1:1", "")


def test_a_group_has_one_campaign_that_is_not_over(lab):
    first = lab.desk.do(lab.gathering())
    for before, after in [(GATHERING, RUNNING), (RUNNING, PAUSED), (PAUSED, RUNNING)]:
        rows = lab.desk.rows("campaigns")
        assert lab.desk.do(lab.gathering(actor="bob")) is None
        assert lab.desk.rows("campaigns") == rows
        lab.desk.do(lab.steering(first, before, after))
    assert lab.desk.do(lab.gathering(fingerprint="v1:2")) is not None
    assert None not in lab.desk.batch(lab.gathering(fingerprint=None), lab.gathering(fingerprint=None, actor="bob"))
    lab.desk.do(lab.steering(first, RUNNING, STOPPED))
    assert lab.desk.do(lab.gathering(actor="bob")) not in {None, first}


def test_members_are_written_down_in_their_order_and_once(lab):
    campaign_id = lab.desk.do(lab.gathering())
    assert lab.desk.do(i.Enlist(campaign_id=campaign_id, letters=(5, 3, 9))) == 3
    assert lab.desk.do(i.Enlist(campaign_id=campaign_id, letters=(9, 1, 5, 1))) == 1
    assert lab.desk.do(i.Enlist(campaign_id=campaign_id, letters=(3, 5))) == 0
    assert lab.members(campaign_id) == [(each, "waiting", None) for each in (5, 3, 9, 1)]


@pytest.mark.parametrize("state", [state for state in CampaignState if state is not GATHERING])
def test_nobody_joins_a_campaign_that_has_begun(lab, state):
    campaign_id = lab.campaign(dead(lab, "ab"))
    lab.desk.do(lab.steering(campaign_id, RUNNING, state))
    late = lab.dead("late")
    assert lab.desk.do(i.Enlist(campaign_id=campaign_id, letters=(late,))) == 0
    assert lab.desk.do(i.Enlist(campaign_id=404, letters=(late,))) == 0
    assert len(lab.members(campaign_id)) == 2


def test_a_launch_replays_the_next_members_in_their_order(lab):
    a, b, c, d = dead(lab)
    campaign_id = lab.campaign((c, a, d, b))
    assert lab.desk.do(lab.launching(campaign_id, 0, 0, 1)) == i.Launched(replayed=1, left_out=0)
    assert lab.members(campaign_id) == [
        (c, "replaying", 0),
        (a, "waiting", None),
        (d, "waiting", None),
        (b, "waiting", None),
    ]
    row = lab.row(c)
    assert (row["state"], row["campaign_id"], row["replays"]) == ("replaying", campaign_id, 1)
    assert lab.told(c) == [("override", "ann", "replaying")]
    (entry,) = lab.desk.history(c)
    assert (entry["note"], entry["at"]) == ("a fix is out", NOW + 20)
    assert lab.detail(c) == {"stage": "fetch", "restart": False, "campaign": campaign_id}
    assert lab.desk.do(lab.launching(campaign_id, 0, 1, 2)) == i.Launched(replayed=2, left_out=0)
    assert [state for _, state, _ in lab.members(campaign_id)] == ["replaying"] * 3 + ["waiting"]
    assert lab.desk.row("campaigns", id=campaign_id)["launched"] == 3


def test_each_member_takes_the_steps_of_its_campaign_from_the_stage_that_was_ordered(lab):
    lease = lab.desk.lease()
    lab.desk.do(lab.say.checkpoint(lease.job_id, 1))
    lab.desk.do(lab.bury(lease, stage="llm"))
    letter_id = lab.of(lease.job_id)
    steps = (step(LetterEvent.TRIAGE, cause=RootCause.CODE), step(LetterEvent.REMEDIATE), step(LetterEvent.APPROVE))
    campaign_id = lab.campaign((letter_id,), steps=(*steps, step(LetterEvent.REPLAY)), restart=True)
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    assert [event for event, *_ in lab.told(letter_id)] == ["triage", "remediate", "approve", "replay"]
    assert (lab.row(letter_id)["cause"], lab.desk.queued(lease.job_id)["stage"]) == ("code", "fetch")
    assert lab.desk.rows("checkpoints") == []


def test_members_that_cannot_be_replayed_any_more_are_left_out_and_counted(lab):
    a, b, c, d = dead(lab)
    campaign_id = lab.campaign((a, b, c, d, 999))
    lab.remedy(a, LetterEvent.DISCARD)
    lab.replay(c)
    before = [lab.row(each) for each in (a, c)]
    assert lab.desk.do(lab.launching(campaign_id, 0, 0, 10)) == i.Launched(replayed=2, left_out=3)
    states = {letter_id: state for letter_id, state, wave in lab.members(campaign_id) if wave == 0}
    assert states == {a: "left_out", b: "replaying", c: "left_out", d: "replaying", 999: "left_out"}
    assert [lab.row(each) for each in (a, c)] == before
    assert lab.desk.row("campaigns", id=campaign_id)["launched"] == 5
    assert lab.desk.do(lab.launching(campaign_id, 0, 5, 10)) == i.Launched(replayed=0, left_out=0), "nobody is left"


def test_members_that_were_replayed_or_escalated_since_they_were_enlisted_are_left_out(lab):
    """The remedy was for the failure that they had then, and by whoever had them then."""
    a, b, c, d = dead(lab)
    lab.remedy(c, LetterEvent.ESCALATE)
    campaign_id = lab.campaign((a, b, c, d))
    lab.replay(a)
    run(lab, a, "bury", error_class="AUTH_DENIED", fingerprint="v1:2")
    lab.remedy(b, LetterEvent.ESCALATE)
    before = [lab.row(each) for each in (a, b)]
    assert lab.desk.do(lab.launching(campaign_id, 0, 0, 10)) == i.Launched(replayed=2, left_out=2)
    states = {letter_id: state for letter_id, state, _ in lab.members(campaign_id)}
    assert states == {a: "left_out", b: "left_out", c: "replaying", d: "replaying"}, "c was so when it was enlisted"
    assert [lab.row(each) for each in (a, b)] == before


@pytest.mark.parametrize(("wave", "launched"), [(0, 0), (0, 2), (1, 1), (1, 0)])
def test_a_launch_from_elsewhere_than_where_the_campaign_is_comes_too_late(lab, wave, launched):
    campaign_id = lab.campaign(dead(lab))
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    before = lab.desk.everything()
    assert lab.desk.do(lab.launching(campaign_id, wave, launched, 1)) is None
    assert lab.desk.everything() == before


@pytest.mark.parametrize("state", [state for state in CampaignState if state is not RUNNING])
def test_only_a_running_campaign_is_launched(lab, state):
    campaign_id = lab.campaign(dead(lab, "ab"))
    lab.desk.do(lab.steering(campaign_id, RUNNING, state))
    before = lab.desk.everything()
    assert lab.desk.do(lab.launching(campaign_id, 0, 0, 1)) is None
    assert lab.desk.do(lab.launching(404, 0, 0, 1)) is None
    assert lab.desk.everything() == before


def test_of_two_launches_in_one_batch_one_is_heard(lab):
    campaign_id = lab.campaign(dead(lab))
    first, second = lab.desk.batch(lab.launching(campaign_id, 0, 0, 1), lab.launching(campaign_id, 0, 0, 2))
    assert (first, second) == (i.Launched(replayed=1, left_out=0), None)
    answers = lab.desk.batch(lab.launching(campaign_id, 0, 1, 1), lab.launching(campaign_id, 0, 2, 1))
    assert answers == [i.Launched(replayed=1, left_out=0), None], "whose turn it is was asked once"
    assert [state for _, state, _ in lab.members(campaign_id)] == ["replaying"] * 2 + ["waiting"] * 2


def test_a_launch_in_the_batch_that_pauses_its_campaign_follows_the_order_of_saying(lab):
    campaign_id = lab.campaign(dead(lab))
    pause = lab.steering(campaign_id, RUNNING, PAUSED)
    assert lab.desk.batch(lab.launching(campaign_id, 0, 0, 1), pause) == [i.Launched(replayed=1, left_out=0), True]
    lab.desk.do(lab.steering(campaign_id, PAUSED, RUNNING))
    pause = lab.steering(campaign_id, RUNNING, PAUSED)
    assert lab.desk.batch(pause, lab.launching(campaign_id, 0, 1, 1)) == [True, None]


@pytest.mark.parametrize(
    ("ending", "values", "state"),
    [
        ("finish", {}, "confirmed"),
        ("skip", {}, "failed"),
        ("bury", {"fingerprint": "v1:1"}, "returned"),
        ("bury", {"fingerprint": "v1:2"}, "failed"),
    ],
)
def test_what_becomes_of_a_replay_becomes_of_the_member(lab, ending, values, state):
    (letter_id,) = dead(lab, "a")
    campaign_id = lab.campaign((letter_id,))
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    run(lab, letter_id, ending, **values)
    lab.settle()
    assert lab.members(campaign_id) == [(letter_id, state, 0)]


def test_a_member_that_is_cancelled_has_failed(lab):
    (letter_id,) = dead(lab, "a")
    campaign_id = lab.campaign((letter_id,))
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    lab.desk.do(lab.say.cancel(lab.job(letter_id)))
    assert (lab.settle(), lab.members(campaign_id)) == (1, [(letter_id, "failed", 0)])


def test_what_happens_to_a_letter_after_its_campaign_is_not_the_campaigns(lab):
    (letter_id,) = dead(lab, "a")
    first = lab.campaign((letter_id,))
    lab.desk.do(lab.launching(first, 0, 0, 1))
    run(lab, letter_id, "bury")
    lab.replay(letter_id)
    assert lab.row(letter_id)["campaign_id"] is None
    run(lab, letter_id, "bury")
    lab.desk.do(lab.steering(first, RUNNING, STOPPED))
    second = lab.campaign((letter_id,), now=NOW + 60)
    lab.desk.do(lab.launching(second, 0, 0, 1, now=NOW + 61))
    run(lab, letter_id)
    lab.settle()
    assert (lab.members(first), lab.members(second)) == ([(letter_id, "returned", 0)], [(letter_id, "confirmed", 0)])


def test_a_group_that_grows_while_it_is_replayed_leaves_the_newcomers_out(lab):
    members = dead(lab, "ab")
    campaign_id = lab.campaign(members)
    newcomer = lab.dead("c")
    lab.desk.do(lab.launching(campaign_id, 0, 0, 10))
    assert {letter_id for letter_id, *_ in lab.members(campaign_id)} == set(members)
    assert lab.state(newcomer) is LetterState.OPEN


# --- steering ---------------------------------------------------------------------------------------------------------


def test_a_campaign_changes_its_state_only_where_it_is_expected(lab):
    campaign_id = lab.campaign(dead(lab, "a"))
    before = lab.desk.everything()
    assert lab.desk.do(lab.steering(campaign_id, PAUSED, RUNNING)) is False
    assert lab.desk.do(lab.steering(404, RUNNING, PAUSED)) is False
    assert lab.desk.everything() == before
    several = i.Steer(
        campaign_id=campaign_id, fence=1, expects=(PAUSED, RUNNING), state=STOPPED, actor="reprieve", reason="it came back", now=NOW + 70
    )  # fmt: skip
    assert lab.desk.do(several) is True
    row = lab.desk.row("campaigns", id=campaign_id)
    assert (row["state"], row["changed_by"], row["reason"], row["changed_at"]) == (
        "stopped", "reprieve", "it came back", NOW + 70,
    )  # fmt: skip
    assert (row["created_by"], row["wave_at"]) == ("ann", NOW + 11)


def test_a_wave_begins_with_nobody_launched(lab):
    campaign_id = lab.campaign(dead(lab))
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    widen = lab.steering(campaign_id, RUNNING, RUNNING, wave=1, now=NOW + 80)
    assert lab.desk.do(widen) is True
    row = lab.desk.row("campaigns", id=campaign_id)
    assert (row["state"], row["wave"], row["launched"], row["wave_at"]) == ("running", 1, 0, NOW + 80)
    lab.desk.do(lab.launching(campaign_id, 1, 0, 2))
    assert [wave for *_, wave in lab.members(campaign_id)] == [0, 1, 1, None]


def test_of_two_who_widen_a_campaign_one_does(lab):
    campaign_id = lab.campaign(dead(lab))
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    assert lab.desk.do(lab.steering(campaign_id, RUNNING, RUNNING, wave=1, now=NOW + 80)) is True
    lab.desk.do(lab.launching(campaign_id, 1, 0, 2))
    before = lab.desk.everything()
    late = lab.steering(campaign_id, RUNNING, RUNNING, wave=1, now=NOW + 81, actor="bob", fence=1)
    assert lab.desk.do(late) is False
    assert lab.desk.do(lab.steering(campaign_id, RUNNING, RUNNING, wave=1, now=NOW + 81, actor="bob")) is False
    assert lab.desk.do(lab.steering(campaign_id, RUNNING, RUNNING, wave=0, now=NOW + 81, actor="bob")) is False
    assert lab.desk.everything() == before


def test_who_resumes_a_campaign_leaves_its_wave_as_it_was(lab):
    campaign_id = lab.campaign(dead(lab))
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    lab.desk.do(lab.steering(campaign_id, RUNNING, PAUSED))
    lab.desk.do(lab.steering(campaign_id, PAUSED, RUNNING))
    row = lab.desk.row("campaigns", id=campaign_id)
    assert (row["wave"], row["launched"]) == (0, 1)


def test_every_change_of_a_campaign_is_kept_with_who_did_it_and_why(lab):
    campaign_id = lab.campaign(dead(lab, "a"))
    lab.desk.do(lab.steering(campaign_id, RUNNING, PAUSED, actor="bob", reason="lunch", now=NOW + 81))
    lab.desk.do(lab.steering(campaign_id, PAUSED, RUNNING, actor="eve", reason="coffee", now=NOW + 82))
    lab.desk.do(lab.steering(campaign_id, RUNNING, RUNNING, actor="reprieve", reason="on", wave=1, now=NOW + 83))
    names = ("fence", "actor", "state", "wave", "reason", "at")
    assert [tuple(row[name] for name in names) for row in lab.desk.rows("campaign_history")] == [
        (1, "ann", "running", 0, "so it is", NOW + 12),
        (2, "bob", "paused", 0, "lunch", NOW + 81),
        (3, "eve", "running", 0, "coffee", NOW + 82),
        (4, "reprieve", "running", 1, "on", NOW + 83),
    ]
