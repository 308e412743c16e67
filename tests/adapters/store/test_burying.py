"""A job has one dead letter, however often it dies: the groups, counts and hours it stands in, and what another death means."""

import json

import pytest
from letters_lab import step

from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.core.remedies import RootCause
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

NOW = 1_700_000_000.0
HOUR = int(NOW // 3600)
SAME = {"error_class": "AUTH_DENIED", "fingerprint": "v1:denied"}
FOR_GOOD = {"error_retryable": False, "error_type": "terminal"}


def die_again(lab, letter_id, *, at=NOW + 4000, **values):
    """Replay it, and give it up again."""
    lab.replay(letter_id)
    return lab.desk.do(lab.bury(lab.lease(letter_id), at=at, **values))


def test_letters_with_one_kind_of_failure_share_a_group(lab):
    first, second = lab.dead("a"), lab.dead("b")
    (group,) = lab.desk.rows("dead_letter_groups")
    assert {lab.row(letter_id)["group_id"] for letter_id in (first, second)} == {group["id"]}
    assert (group["fingerprint"], group["pipeline"], group["stage"]) == ("v1:1", "review", "fetch")
    assert (group["error_class"], group["category"], group["signature"]) == (
        "NETWORK_TIMEOUT",
        "network",
        "it was slow",
    )
    assert lab.counts() == {"open": 2}


@pytest.mark.parametrize("name", ["fingerprint", "stage", "error_class", "category", "pipeline"])
def test_a_failure_that_differs_stands_in_a_row_of_its_own(lab, name):
    lab.dead("a")
    lab.dead("b", **{name: "another"})
    assert len(lab.desk.rows("dead_letter_groups")) == 2
    assert [row["letters"] for row in lab.desk.rows("dead_letter_counts")] == [1, 1]


def test_a_group_knows_its_first_and_last_death_and_the_hours_of_all(lab):
    for key, at in (("a", NOW + 5000), ("b", NOW + 10), ("c", NOW + 9000), ("d", NOW + 20)):
        lab.dead(key, at=at)
    (group,) = lab.desk.rows("dead_letter_groups")
    assert (group["first_seen"], group["last_seen"]) == (NOW + 10, NOW + 9000)
    hours = {row["hour"]: row["deaths"] for row in lab.desk.rows("dead_letter_hours")}
    assert hours == {HOUR: 2, HOUR + 1: 1, HOUR + 2: 1}


@pytest.mark.spec("ING-7.1")
@pytest.mark.parametrize("pipeline", [None, "review"])
def test_each_death_of_one_letter_flows_in(lab, pipeline):
    moments = [NOW, NOW + 10, NOW + 1000, NOW + 3600, NOW + 3700]
    letter_id = lab.dead(at=moments[0])
    for at in moments[1:]:
        die_again(lab, letter_id, at=at)
    lab.dead("another", at=NOW + 3650)
    reader = SqlDeadLetterReader(lab.desk.url)
    try:
        for now, deaths in ((NOW + 1000, 3), (NOW + 3600, 3), (NOW + 3610, 2), (NOW + 3700, 4), (NOW + 9000, 0)):
            assert reader.stats(now=now, window=7200, pipeline=pipeline).inflow_last_hour == deaths
        found = reader.stats(now=NOW + 3700, window=7200, pipeline=pipeline)
        assert found.inflow_per_hour * 2 == sum(found.trend) == 6
        assert reader.stats(now=NOW + 3700, window=7200, pipeline="mail").inflow_last_hour == 0
    finally:
        reader.close()


@pytest.mark.spec("CRIT-4.6")
def test_a_batch_of_burials_is_one_of_each(lab, submits):
    desk = lab.desk
    desk.batch(*[submits(f"key-{number}") for number in range(40)])
    leases = desk.claim()
    buried = [lab.bury(lease, fingerprint=f"v1:{lease.job_id % 4}", message=f"of {lease.job_id}") for lease in leases]
    stale = lab.say.bury(leases[0].job_id, 7)
    assert desk.batch(*buried[1:], stale) == [Written.APPLIED] * 39 + [Written.STALE]
    assert [len(desk.rows(table)) for table in ("dead_letters", "dead_letter_texts", "attempts", "outcomes")] == [
        39
    ] * 4
    assert [desk.letter(lease.job_id)["message"] for lease in leases[1:]] == [
        f"of {each.job_id}" for each in leases[1:]
    ]
    assert sorted(row["letters"] for row in desk.rows("dead_letter_counts")) == [9, 10, 10, 10]
    assert [row["job_id"] for row in desk.rows("queue")] == [leases[0].job_id]


@pytest.mark.spec("CRIT-5.6")
def test_another_death_with_the_same_class_that_is_not_retryable_is_for_engineering(lab):
    letter_id = lab.dead(**SAME, attempt=FOR_GOOD)
    assert die_again(lab, letter_id, **SAME, attempt=FOR_GOOD) is Written.ESCALATED
    row = lab.row(letter_id)
    assert (row["state"], row["escalated"], row["closed_at"], row["replays"]) == ("escalated", True, None, 1)
    assert lab.told(letter_id)[-1] == ("relapse", "reprieve", "escalated")
    assert lab.desk.status(lab.job(letter_id)) == "dead_letter"
    assert lab.counts() == {"escalated": 1}


@pytest.mark.spec("CRIT-5.6")
def test_a_conflict_that_comes_again_where_nothing_may_be_repeated_is_for_engineering(lab):
    """Elsewhere it would be retried: by its class it can be, at this stage it never is."""
    conflict = {"error_class": "WRITE_CONFLICT", "reason": "not_idempotent", "attempt": {"error_retryable": True}}
    letter_id = lab.dead(**conflict)
    assert die_again(lab, letter_id, **conflict) is Written.ESCALATED
    assert lab.state(letter_id) is LetterState.ESCALATED


def test_a_cause_is_of_one_failure_and_goes_with_it(lab):
    named = step(LetterEvent.TRIAGE, cause=RootCause.DATA)
    passing, lasting = lab.dead("a", **SAME), lab.dead("b", **SAME, attempt=FOR_GOOD)
    for letter_id, attempt in ((passing, {"error_retryable": True}), (lasting, FOR_GOOD)):
        lab.replay(letter_id, named, LetterEvent.OVERRIDE)
        lab.desk.do(lab.bury(lab.lease(letter_id), at=NOW + 99, **SAME, attempt=attempt))
    assert (lab.row(passing)["state"], lab.row(passing)["cause"]) == ("open", None)
    assert (lab.row(lasting)["state"], lab.row(lasting)["cause"]) == ("escalated", "data"), "it is the same failure"


@pytest.mark.spec("CRIT-5.6")
@pytest.mark.parametrize(
    ("changes", "attempt"),
    [
        ({"error_class": "SCHEMA_INVALID"}, FOR_GOOD),
        ({"error_class": "SCHEMA_INVALID", "fingerprint": "v1:other"}, FOR_GOOD),
        ({}, {"error_retryable": True, "error_type": "retryable"}),
    ],
)
def test_another_death_of_another_class_or_of_one_that_may_pass_opens_the_letter_again(lab, changes, attempt):
    letter_id = lab.dead(**SAME, attempt=attempt)
    assert die_again(lab, letter_id, **(SAME | changes), attempt=attempt) is Written.APPLIED
    row = lab.row(letter_id)
    assert (row["state"], row["escalated"]) == ("open", False)
    assert lab.told(letter_id)[-1] == ("fail", "reprieve", "open")


def test_another_death_comes_back_to_the_letter_there_is(lab):
    letter_id = lab.dead(**SAME, message="denied", attempts=3, at=NOW + 1)
    lab.remedy(letter_id, LetterEvent.TRIAGE, LetterEvent.REMEDIATE, LetterEvent.APPROVE)
    lab.replay(letter_id, LetterEvent.REPLAY)
    lease = lab.lease(letter_id)
    values = {"error_class": "SCHEMA_INVALID", "fingerprint": "v1:new", "stage": "llm", "category": "validation"}
    texts = {"message": "no such field", "last_stack": "Traceback: two", "signature": "no such", "status_code": 422}
    lab.desk.do(lab.bury(lease, at=NOW + 4000, **values, **texts, attempts=1, pages=True))
    assert [row["id"] for row in lab.desk.rows("dead_letters")] == [letter_id]
    shown = lab.desk.letter(lease.job_id)
    assert {name: shown[name] for name in (values | texts)} == values | texts
    assert (shown["attempts"], shown["pages"], shown["fence"]) == (1, True, lease.fence)
    assert (shown["first_failure_at"], shown["opened_at"], shown["last_failure_at"]) == (NOW + 1, NOW + 1, NOW + 4000)
    assert [event for event, *_ in lab.told(letter_id)] == ["triage", "remediate", "approve", "replay", "fail"]
    detail = lab.detail(letter_id)
    assert detail == {
        "error_class": "SCHEMA_INVALID", "stage": "llm", "fingerprint": "v1:new", "message": "no such field",
        "reason": "budget_spent", "attempts": 1,
        "before": {
            "error_class": "AUTH_DENIED", "stage": "fetch", "fingerprint": "v1:denied", "message": "denied",
            "reason": "budget_spent", "attempts": 3,
        },
    }  # fmt: skip
    counts = {row["group_id"]: row["letters"] for row in lab.desk.rows("dead_letter_counts") if row["letters"]}
    assert counts == {lab.row(letter_id)["group_id"]: 1}, "it has left the group it was in"
    assert sorted(row["deaths"] for row in lab.desk.rows("dead_letter_hours")) == [1, 1], "it died in both"


def test_a_letter_tells_of_every_death(lab):
    letter_id = lab.dead(**SAME, attempt=FOR_GOOD)
    for number, error_class in enumerate(["AUTH_DENIED", "BUG", "BUG", "AUTH_DENIED"]):
        values = {"error_class": error_class, "fingerprint": f"v1:{error_class}"}
        die_again(lab, letter_id, at=NOW + 4000 * (number + 1), **values, attempt=FOR_GOOD)
    told = [(event, after) for event, actor, after in lab.told(letter_id) if actor == "reprieve"]
    assert told == [("relapse", "escalated"), ("fail", "open"), ("relapse", "escalated"), ("fail", "open")]
    assert lab.row(letter_id)["replays"] == 4
    before = [json.loads(row["detail"])["before"]["error_class"] for row in lab.desk.history(letter_id)[1::2]]
    assert before == ["AUTH_DENIED", "AUTH_DENIED", "BUG", "BUG"]


def test_a_clock_that_went_back_does_not_stop_a_burial(lab):
    letter_id = lab.dead(at=NOW + 5000)
    assert die_again(lab, letter_id, at=NOW + 100) is Written.APPLIED
    row = lab.row(letter_id)
    assert (row["first_failure_at"], row["last_failure_at"]) == (NOW + 5000, NOW + 5000)


def test_a_burial_of_a_first_death_and_of_another_in_one_batch(lab):
    known = lab.dead("a", **SAME, attempt=FOR_GOOD)
    lab.replay(known)
    lab.desk.submit("b")
    leases = {lease.job_id: lease for lease in lab.desk.claim()}
    again = leases.pop(lab.job(known))
    (new,) = leases.values()
    answers = lab.desk.batch(lab.bury(new, **SAME), lab.bury(again, **SAME, attempt=FOR_GOOD))
    assert answers == [Written.APPLIED, Written.ESCALATED]
    assert lab.counts() == {"open": 1, "escalated": 1}


def test_two_burials_that_pause_one_stage_pause_it_once_for_the_first_reason(lab):
    leases = [lab.desk.lease(key) for key in "ab"]
    first, second = (
        lab.say.bury(
            lease.job_id, 1, pause=True,
            attempt=lab.say.attempt(decision="abort", retry_at=None, error_class=error_class),
        )
        for lease, error_class in zip(leases, ("CONFIG_MISSING", "OTHER"), strict=True)
    )  # fmt: skip
    assert lab.desk.batch(first, second) == [Written.APPLIED] * 2
    row = lab.desk.stage()
    assert (row["paused"], row["paused_by"], row["reason"]) == (True, "reprieve", "CONFIG_MISSING")


# --- settling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "event", "state"),
    [("finish", "recover", "replayed"), ("stop", "withdraw", "discarded"), ("skip", "withdraw", "discarded")],
)
def test_a_replayed_job_that_is_over_settles_its_letter(lab, ending, event, state):
    letter_id = lab.dead()
    lab.replay(letter_id)
    lease = lab.lease(letter_id)
    if ending == "stop":
        lab.desk.do(lab.say.cancel(lease.job_id))
    assert lab.settle() == 0
    assert lab.desk.do(getattr(lab.say, ending)(lease.job_id, lease.fence)) is Written.APPLIED
    assert lab.state(letter_id) is LetterState.REPLAYING, "nothing is done about it where it would slow a worker down"
    assert lab.settle(NOW + 77) == 1
    assert lab.told(letter_id)[-1] == (event, "reprieve", state)
    assert lab.desk.history(letter_id)[-1]["at"] == NOW + 77
    assert lab.row(letter_id)["closed_at"] == (NOW + 77 if state == "discarded" else None)
    assert lab.counts() == {state: 1}
    assert lab.settle() == 0


def test_a_replayed_job_that_is_cancelled_before_anybody_ran_it_settles_its_letter(lab):
    letter_id = lab.dead()
    lab.replay(letter_id)
    assert lab.desk.do(lab.say.cancel(lab.job(letter_id))) == "done"
    assert (lab.settle(), lab.state(letter_id)) == (1, LetterState.DISCARDED)


def test_settling_leaves_alone_what_is_not_replayed(lab):
    for state in LetterState:
        if state is not LetterState.REPLAYING:
            lab.bring(state, f"key-{state}")
    lab.bring(LetterState.REPLAYING)
    before = lab.desk.everything()
    assert lab.settle() == 0
    assert lab.desk.everything() == before


def test_settling_takes_as_many_as_it_was_told(lab):
    ids = tuple(lab.dead(key) for key in "abc")
    lab.replay(ids)
    for lease in lab.desk.claim():
        lab.desk.do(lab.say.finish(lease.job_id, lease.fence))
    assert [lab.settle(limit=2), lab.counts()] == [2, {"replayed": 2, "replaying": 1}]
    assert [lab.settle(limit=2), lab.counts()] == [1, {"replayed": 3}]
    assert isinstance(lab.settle(), int)


@pytest.mark.spec("CRIT-4.6")
@pytest.mark.parametrize("unleased", [False, True])
def test_a_report_of_an_earlier_life_is_stale_after_a_replay(lab, unleased):
    desk, say = lab.desk, lab.say
    job_id = desk.submit()
    fence = 0 if unleased else desk.claim()[0].fence
    values = {"unleased": True} if unleased else {}
    desk.do(say.bury(job_id, fence, **values))
    letter_id = lab.of(job_id)
    lab.replay(letter_id)
    names = (
        ["retry", "bury", "skip", "review"]
        if unleased
        else ["checkpoint", "finish", "retry", "bury", "release", "wait"]
    )
    reports = [getattr(say, name)(job_id, fence, **values) for name in names]
    reports += [say.complete(job_id, fence)] if unleased else []
    before = desk.everything()
    for report in reports:
        assert desk.do(report) is Written.STALE
    assert desk.everything() == before
    assert desk.queued(job_id)["fence"] == fence + 1
    (lease,) = desk.claim()
    assert lease.fence == fence + 2
    for report in reports:
        assert desk.do(report) is Written.STALE
    assert desk.do(say.finish(job_id, lease.fence)) is Written.APPLIED


def test_a_replayed_job_can_be_buried_by_a_caller_without_a_lease(lab):
    job_id = lab.desk.submit()
    lab.desk.do(lab.say.bury(job_id, 0, unleased=True))
    lab.replay(lab.of(job_id))
    assert lab.desk.do(lab.say.bury(job_id, 1, unleased=True)) is Written.APPLIED
    assert [event for event, *_ in lab.told(lab.of(job_id))] == ["override", "fail"]


@pytest.mark.parametrize("kind", [i.Replay, i.Remedy, i.Settle])
def test_a_batch_that_has_nothing_to_do_with_the_queue_does_not_wake_workers_for_nothing(lab, kind):
    from reprieve.adapters.sql.news import is_news  # noqa: PLC0415 - of this test alone

    letter_id = lab.dead()
    said = {
        i.Replay: lab.replaying(letter_id),
        i.Remedy: lab.remedying(letter_id, LetterEvent.TRIAGE),
        i.Settle: i.Settle(now=NOW),
    }[kind]
    assert is_news([said], [lab.desk.do(said)]) is (kind is i.Replay)
    assert not is_news([said], [lab.desk.do(said)]), "a replay that was refused"
