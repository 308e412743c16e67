"""A replay puts a job back into the queue: from where, with what it keeps, and what it forgets."""

from dataclasses import replace

import pytest
from letters_lab import step

from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.core.remedies import RootCause
from reprieve.ports import intents as i
from reprieve.ports.intents import QueueState, Written

NOW = 1_700_000_000.0
FIXED = i.Revision(payload=b'{"fixed": true}', payload_type="Change2")


@pytest.fixture
def died_at_notify(lab):
    """A letter of a job that finished fetch and llm, remembered something in each stage, and died in notify."""
    desk, say = lab.desk, lab.say
    lease = desk.lease(priority=7, subject="cl-1", version=2)
    for number, (stage, following) in enumerate((("fetch", "llm"), ("llm", "notify"))):
        desk.do(say.remember(lease.job_id, 1, stage=stage))
        times = {"started_at": NOW + 10 * number, "finished_at": NOW + 10 * number + 5}
        desk.do(say.checkpoint(lease.job_id, 1, stage=stage, next_stage=following, **times))
    desk.do(say.remember(lease.job_id, 1, stage="notify"))
    desk.do(lab.bury(lease, stage="notify", at=NOW + 30))
    return lab.of(lease.job_id)


def kept(lab, letter_id):
    """The stages that have results, and those that have memos."""
    job_id = lab.job(letter_id)
    return tuple({row["stage"] for row in lab.desk.rows(table, job_id=job_id)} for table in ("checkpoints", "memos"))


EVERYTHING = ({"fetch", "llm"}, {"fetch", "llm", "notify"})


@pytest.mark.spec("CRIT-5.4")
def test_a_replay_starts_at_the_failed_stage_and_keeps_all_that_was_finished(lab, died_at_notify):
    job_id = lab.job(died_at_notify)
    payload = lab.desk.row("jobs", id=job_id)
    lab.replay(died_at_notify)
    assert lab.desk.outcome(job_id) is None
    assert kept(lab, died_at_notify) == EVERYTHING
    assert lab.desk.row("jobs", id=job_id) == payload, "the job, and with it its payload, is the same"
    lease = lab.lease(died_at_notify, "notify")
    assert (lease.stage, [result.stage for result in lease.results]) == ("notify", ["fetch", "llm"])
    assert (lease.payload, lease.subject, lease.version, lease.priority) == (b"{}", "cl-1", 2, 7)


@pytest.mark.spec("CRIT-3.3")
def test_a_replay_opens_a_fresh_budget(lab):
    desk, say = lab.desk, lab.say
    lease = desk.lease()
    desk.do(say.retry(lease.job_id, 1, run_at=NOW, counters=i.Counters(handler=4, crash=1, deploy=2)))
    desk.do(i.Promote(now=NOW))
    (lease,) = desk.claim(suspects=True)
    desk.do(lab.bury(lease))
    lab.replay(lab.of(lease.job_id))
    row = desk.queued(lease.job_id)
    assert (row["state"], row["fence"], row["opened_at"], row["run_at"], row["alone"]) == (0, 3, None, None, False)
    (again,) = desk.claim()
    assert (again.counters, again.opened_at, again.fence) == (i.Counters(), None, 4)


@pytest.mark.spec("CRIT-5.4")
def test_a_restart_begins_with_the_first_stage_and_forgets_everything(lab, died_at_notify):
    lab.replay(died_at_notify, restart=True)
    assert kept(lab, died_at_notify) == (set(), set())
    assert lab.lease(died_at_notify).stage == "fetch"
    assert lab.detail(died_at_notify) == {"stage": "fetch", "restart": True}


@pytest.mark.spec("CRIT-5.4")
@pytest.mark.parametrize(
    ("stage", "results", "memos"),
    [
        ("fetch", set(), set()),
        ("llm", {"fetch"}, {"fetch"}),
        ("notify", *EVERYTHING),
    ],
)
def test_a_chosen_stage_and_what_came_after_are_run_again(lab, died_at_notify, stage, results, memos):
    lab.replay(died_at_notify, stage=stage)
    assert kept(lab, died_at_notify) == (results, memos)
    lease = lab.lease(died_at_notify, stage)
    assert (lease.stage, {result.stage for result in lease.results}) == (stage, results)
    assert lab.detail(died_at_notify) == {"stage": stage, "restart": False}


def test_stages_that_ended_at_the_same_moment_are_not_taken_for_later_ones(lab):
    desk, say = lab.desk, lab.say
    lease = desk.lease()
    for stage, following in (("fetch", "llm"), ("llm", "notify")):
        desk.do(say.checkpoint(lease.job_id, 1, stage=stage, next_stage=following, started_at=NOW, finished_at=NOW))
    desk.do(lab.bury(lease, stage="notify"))
    letter_id = lab.of(lease.job_id)
    lab.replay(letter_id, stage="llm")
    assert kept(lab, letter_id)[0] == {"fetch"}, "what llm needs is there"


def test_a_stage_that_the_job_has_not_come_to_is_refused_with_those_it_has(lab, died_at_notify):
    before = lab.desk.everything()
    (refused,) = lab.replay(died_at_notify, stage="publish").refused
    assert refused.why == "it can be replayed from these stages of its job: fetch, llm, notify; not from 'publish'"
    assert refused.state is LetterState.OPEN
    assert lab.desk.everything() == before


@pytest.mark.spec("CRIT-5.4")
def test_a_revision_takes_the_place_of_the_payload_and_starts_at_the_first_stage(lab, died_at_notify):
    job_id = lab.job(died_at_notify)
    lab.replay(died_at_notify, revision=FIXED, now=NOW + 44, actor="bob")
    lease = lab.lease(died_at_notify)
    assert (lease.stage, lease.payload, lease.payload_type) == ("fetch", b'{"fixed": true}', "Change2")
    assert (lease.subject, lease.version, lease.results) == ("cl-1", 2, ())
    assert kept(lab, died_at_notify) == (set(), set())
    (old,) = lab.desk.rows("revisions")
    assert (old["job_id"], old["number"], bytes(old["payload"]), old["payload_type"]) == (job_id, 1, b"{}", "Change")
    assert (old["replaced_at"], old["replaced_by"]) == (NOW + 44, "bob")
    assert lab.detail(died_at_notify) == {"stage": "fetch", "restart": False, "revision": 1}


def test_a_revision_may_start_at_a_chosen_stage_which_forgets_its_memos(lab, died_at_notify):
    lab.replay(died_at_notify, revision=FIXED, stage="notify")
    assert kept(lab, died_at_notify) == ({"fetch", "llm"}, {"fetch", "llm"})
    assert lab.lease(died_at_notify, "notify").payload == b'{"fixed": true}'


def test_revisions_are_numbered_and_all_are_kept(lab):
    letter_id = lab.dead()
    for number in range(3):
        lab.replay(letter_id, revision=i.Revision(payload=b"%d" % number, payload_type=f"T{number}"))
        lab.desk.do(lab.bury(lab.lease(letter_id), error_class=f"E{number}"))
    rows = lab.desk.rows("revisions")
    assert [(row["number"], bytes(row["payload"]), row["payload_type"]) for row in rows] == [
        (1, b"{}", "Change"),
        (2, b"0", "T0"),
        (3, b"1", "T1"),
    ]
    assert bytes(lab.desk.row("jobs")["payload"]) == b"2"


@pytest.mark.spec("CRIT-5.1", "CRIT-5.2", "CRIT-5.3")
def test_a_replay_takes_all_its_steps_in_one_go(lab):
    letter_id = lab.dead()
    triage = step(LetterEvent.TRIAGE, "wrong field", cause=RootCause.DATA)
    replay = step(LetterEvent.REPLAY, "now it fits", detail='{"ticket": "T-1"}')
    answer = lab.replay(letter_id, triage, LetterEvent.REMEDIATE, LetterEvent.APPROVE, replay)
    assert answer == i.Remedied(applied=(letter_id,))
    row = lab.row(letter_id)
    assert (row["state"], row["cause"], row["replays"], row["campaign_id"]) == ("replaying", "data", 1, None)
    assert [event for event, *_ in lab.told(letter_id)] == ["triage", "remediate", "approve", "replay"]
    assert lab.detail(letter_id) == {"ticket": "T-1", "stage": "fetch", "restart": False}


@pytest.mark.parametrize("events", [(LetterEvent.TRIAGE,), (), (LetterEvent.OVERRIDE, LetterEvent.NOTE)])
def test_a_replay_that_does_not_end_with_the_replay_is_refused(lab, events):
    letter_id = lab.dead()
    before = lab.desk.everything()
    said = i.Replay(letters=(letter_id,), steps=tuple(map(step, events)), actor="ann", now=NOW)
    assert lab.desk.do(said).refused[0].why == "the last step of a replay is the replay"
    assert lab.desk.everything() == before


def test_a_replay_inside_other_steps_is_refused(lab):
    letter_id = lab.dead()
    before = lab.desk.everything()
    assert lab.replay(letter_id, LetterEvent.OVERRIDE, LetterEvent.OVERRIDE).applied == ()
    assert lab.remedy(letter_id, LetterEvent.OVERRIDE).applied == ()
    assert lab.desk.everything() == before


def test_a_discarded_letter_is_reopened_and_replayed_in_one_go(lab):
    letter_id = lab.bring(LetterState.DISCARDED)
    lab.replay(letter_id, LetterEvent.REOPEN, LetterEvent.OVERRIDE)
    row = lab.row(letter_id)
    assert (row["state"], row["closed_at"]) == ("replaying", None)


# --- what cannot be replayed ------------------------------------------------------------------------------------------


def test_a_letter_whose_job_has_succeeded_is_not_replayed(lab):
    letter_id = lab.bring(LetterState.REPLAYED)
    lab.remedy(letter_id, LetterEvent.ESCALATE)
    before = lab.desk.everything()
    (refused,) = lab.replay(letter_id).refused
    assert refused.state is LetterState.ESCALATED
    assert refused.why.startswith(f"its job {lab.job(letter_id)} has succeeded: there is nothing to replay")
    assert lab.desk.everything() == before


def test_a_letter_that_is_replayed_beside_an_escalated_one_is_not_for_engineering(lab):
    plain, escalated = lab.dead("a"), lab.bring(LetterState.ESCALATED, "b")
    lab.replay((plain, escalated), LetterEvent.NOTE, LetterEvent.OVERRIDE)
    assert [lab.row(each)["escalated"] for each in (plain, escalated)] == [False, True]


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["UPDATE jobs SET payload = NULL"], "the payload of its job 1 was erased"),
        (["DELETE FROM outcomes", "DELETE FROM jobs"], "its job 1 was pruned"),
        (["DELETE FROM outcomes"], "its job 1 is not over"),
    ],
)
def test_a_job_that_is_not_there_any_more_is_not_replayed(lab, statements, why):
    letter_id = lab.dead()
    for statement in statements:
        lab.desk.write(statement)
    before = lab.desk.everything()
    (refused,) = lab.replay(letter_id, restart=True, revision=FIXED).refused
    assert (refused.state, refused.why) == (LetterState.OPEN, why)
    assert lab.desk.everything() == before


def test_letters_that_can_be_replayed_are_beside_those_that_cannot(lab):
    states = [LetterState.OPEN, LetterState.REPLAYING, LetterState.ESCALATED, LetterState.RESOLVED]
    ids = tuple(lab.bring(state, f"key-{state}") for state in states)
    answer = lab.replay((999, *ids))
    assert answer.applied == (ids[0], ids[2])
    assert [(each.letter_id, each.state) for each in answer.refused] == [
        (999, None),
        (ids[1], LetterState.REPLAYING),
        (ids[3], LetterState.RESOLVED),
    ]
    assert lab.counts() == {"replaying": 3, "resolved": 1}


def test_jobs_that_died_at_different_stages_each_go_on_where_they_were(lab):
    desk, say = lab.desk, lab.say
    first = lab.dead("a")
    lease = desk.lease("b")
    desk.do(say.checkpoint(lease.job_id, 1))
    desk.do(lab.bury(lease, stage="llm"))
    second = lab.of(lease.job_id)
    lab.replay((first, second))
    assert [desk.queued(lab.job(each))["stage"] for each in (first, second)] == ["fetch", "llm"]
    assert [lab.detail(each)["stage"] for each in (first, second)] == ["fetch", "llm"]


# --- workers find it ----------------------------------------------------------------------------------------------------


def test_a_claim_finds_what_its_own_batch_replayed(lab):
    letter_id = lab.dead()
    wanted = i.Claim(worker_id=lab.desk.register(), capacity=5, stages={("review", "fetch"): 5}, now=NOW)
    claimed, _ = lab.desk.batch(wanted, lab.replaying(letter_id))
    assert [lease.job_id for lease in claimed.leases] == [lab.job(letter_id)]


def test_a_replayed_job_can_go_wrong_in_every_way_that_a_job_can(lab):
    letter_id = lab.dead()
    lab.replay(letter_id)
    lease = lab.lease(letter_id)
    desk, say = lab.desk, lab.say
    assert desk.do(say.retry(lease.job_id, lease.fence, run_at=NOW)) is Written.APPLIED
    desk.do(i.Promote(now=NOW))
    lease = lab.lease(letter_id)
    assert desk.do(say.review(lease.job_id, lease.fence)) is Written.APPLIED
    assert desk.do(i.Wake(prefix="review", now=NOW)) == 1
    lease = lab.lease(letter_id)
    assert desk.do(say.release(lease.job_id, lease.fence)) is Written.APPLIED
    assert desk.state(lease.job_id) is QueueState.READY
    lease = lab.lease(letter_id)
    assert desk.do(lab.bury(lease)) is Written.APPLIED
    assert lab.state(letter_id) is LetterState.OPEN


@pytest.mark.parametrize(
    ("newer", "refused"), [("finish", True), ("retry", True), ("bury", False), ("cancel", False), (None, False)]
)
def test_an_older_version_is_not_replayed_after_a_newer_one_unless_somebody_insists(lab, submits, newer, refused):
    desk, subject = lab.desk, {"subject": "cl-7", "version": 1}
    old = lab.dead("old", submit=subject)
    if newer == "cancel":
        desk.do(lab.say.cancel(desk.do(submits("new", **(subject | {"version": 2}))).job_id))
    elif newer is not None:
        lease = desk.lease("new", **(subject | {"version": 2}))
        said = lab.bury(lease) if newer == "bury" else getattr(lab.say, newer)(lease.job_id, lease.fence)
        assert desk.do(said) is i.Written.APPLIED
    lab.remedy(old, LetterEvent.TRIAGE, LetterEvent.REMEDIATE, LetterEvent.APPROVE)
    done = lab.replay(old, LetterEvent.REPLAY)
    assert (done.applied == ()) is refused
    if refused:
        assert "version 2 of its subject came after it" in done.refused[0].why
        assert lab.replay(old, LetterEvent.REPLAY, insists=True).applied == (old,)


def test_an_override_replays_an_older_version_too(lab):
    old = lab.dead("old", submit={"subject": "cl-7", "version": 1})
    lab.desk.lease("new", subject="cl-7", version=2)
    assert lab.replay(old, LetterEvent.OVERRIDE).applied == (old,)


def test_what_is_submitted_again_is_compared_with_what_was_submitted_not_with_a_revision(lab, submits):
    first, versioned = submits("plain"), submits("versioned", subject="cl-7", version=1)
    for said in (first, versioned):
        letter_id = lab.dead(said.idempotency_key, submit={"subject": said.subject, "version": said.version})
        for _ in range(2):
            lab.replay(letter_id, revision=i.Revision(payload=b'{"n": 2}', payload_type="v1:2"))
            lab.desk.do(lab.bury(lab.lease(letter_id), at=NOW + 99))
        again = lab.desk.do(said)
        assert (again.duplicate, again.mismatch) == (True, False)
        assert lab.desk.do(replace(said, payload=b'{"n": 3}')).mismatch is True
