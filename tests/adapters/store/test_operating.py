"""Stages, workers and jobs that wait."""

from dataclasses import replace

import pytest

from reprieve.core.policy import Cause
from reprieve.ports import intents as i
from reprieve.ports.intents import QueueState
from reprieve.ports.reader import StageView

NOW = 1_700_000_000.0


def stage_said(kind, **values):
    defaults = {"pipeline": "review", "stage": "fetch", "now": NOW}
    match kind:
        case i.Pause:
            defaults |= {"actor": "ann", "reason": "upgrade"}
        case i.Resume:
            defaults |= {"actor": "ann"}
        case i.Hold:
            defaults |= {"until": NOW + 30, "error_class": "RATE_LIMITED", "reason": "it said 429"}
        case i.Probe:
            defaults |= {"until": NOW + 60}
    return kind(**(defaults | values))


# --- stages ----------------------------------------------------------------------------------------------------------------


def test_a_pause_says_who_and_why_and_the_first_one_stands(desk):
    desk.register()
    assert desk.do(stage_said(i.Pause)) is True
    assert desk.do(stage_said(i.Pause, actor="bob", reason="other", now=NOW + 9)) is False
    row = desk.stage()
    assert (row["paused"], row["paused_by"], row["reason"], row["changed_at"]) == (True, "ann", "upgrade", NOW)


def test_a_stage_that_no_worker_has_registered_can_be_paused_and_held(desk):
    assert desk.do(stage_said(i.Pause, stage="fetch")) is True
    assert desk.do(stage_said(i.Hold, stage="llm")) is True
    assert desk.stage("fetch")["paused"]
    assert desk.stage("llm")["held_until"] == NOW + 30


def test_a_resume_clears_pause_hold_and_breaker(desk):
    desk.do(stage_said(i.Pause))
    desk.do(stage_said(i.Hold, opens=True))
    assert desk.do(stage_said(i.Resume, now=NOW + 1)) is True
    row = desk.stage()
    assert (row["paused"], row["changed_at"]) == (False, NOW + 1)
    cleared = ("paused_by", "reason", "held_until", "opened_at", "error_class", "probe_until")
    assert [row[name] for name in cleared] == [None] * 6
    assert desk.do(stage_said(i.Resume)) is False
    assert desk.do(stage_said(i.Resume, stage="unknown")) is False


def test_a_hold_is_never_shortened(desk):
    desk.do(stage_said(i.Hold, until=NOW + 30))
    desk.do(stage_said(i.Hold, until=NOW + 10))
    assert desk.stage()["held_until"] == NOW + 30
    desk.do(stage_said(i.Hold, until=NOW + 90))
    row = desk.stage()
    assert (row["held_until"], row["opened_at"], row["error_class"]) == (NOW + 90, None, "RATE_LIMITED")


def test_a_hold_that_opens_the_breaker_keeps_the_time_of_the_first(desk):
    desk.do(stage_said(i.Hold, opens=True))
    desk.do(stage_said(i.Hold, opens=True, until=NOW + 90, now=NOW + 50))
    row = desk.stage()
    assert (row["opened_at"], row["held_until"]) == (NOW, NOW + 90)


def test_a_hold_that_does_not_open_leaves_the_breaker_open(desk):
    desk.do(stage_said(i.Hold, opens=True))
    desk.do(stage_said(i.Hold, until=NOW + 90))
    assert desk.stage()["opened_at"] == NOW


def test_closing_the_breaker_lets_the_stage_go_on(desk):
    desk.do(stage_said(i.Hold, opens=True))
    desk.do(stage_said(i.Probe, now=NOW + 30))
    assert desk.do(stage_said(i.Close, now=NOW + 31)) is True
    row = desk.stage()
    assert [row[name] for name in ("held_until", "opened_at", "error_class", "probe_until")] == [None] * 4
    assert desk.do(stage_said(i.Close)) is False


def test_closing_the_breaker_leaves_a_pause(desk):
    desk.do(stage_said(i.Hold, opens=True))
    desk.do(stage_said(i.Pause))
    desk.do(stage_said(i.Close))
    row = desk.stage()
    assert (row["paused"], row["paused_by"], row["reason"]) == (True, "ann", "upgrade")


def test_a_probe_is_granted_to_one_and_only_once_the_hold_is_over(desk):
    desk.do(stage_said(i.Hold, opens=True))
    assert desk.do(stage_said(i.Probe, now=NOW + 29)) is False
    assert desk.do(stage_said(i.Probe, now=NOW + 30, until=NOW + 60)) is True
    assert desk.do(stage_said(i.Probe, now=NOW + 40, until=NOW + 70)) is False
    assert desk.do(stage_said(i.Probe, now=NOW + 60, until=NOW + 90)) is True, "the holder has died"


def test_a_probe_that_failed_makes_room_for_the_next_after_the_new_hold(desk):
    desk.do(stage_said(i.Hold, opens=True))
    desk.do(stage_said(i.Probe, now=NOW + 30, until=NOW + 300))
    desk.do(stage_said(i.Hold, opens=True, until=NOW + 60, now=NOW + 31))
    assert desk.do(stage_said(i.Probe, now=NOW + 59, until=NOW + 300)) is False
    assert desk.do(stage_said(i.Probe, now=NOW + 60, until=NOW + 300)) is True


@pytest.mark.parametrize("kind", [None, i.Pause])
def test_no_probe_is_granted_where_no_breaker_is_open_or_the_stage_is_paused(desk, kind):
    desk.register()
    if kind is not None:
        desk.do(stage_said(i.Hold, opens=True))
        desk.do(stage_said(kind))
    else:
        desk.do(stage_said(i.Hold))
    assert desk.do(stage_said(i.Probe, now=NOW + 100)) is False
    assert desk.do(stage_said(i.Probe, stage="unknown", now=NOW + 100)) is False


@pytest.mark.parametrize(
    ("asked", "answers", "paused", "is_open"),
    [
        ((i.Pause, i.Resume), [True, True], False, False),
        ((i.Resume, i.Pause), [False, True], True, False),
        ((i.Pause, i.Resume, i.Pause), [True, True, True], True, False),
        ((i.Hold, i.Close), [True, True], False, False),
        ((i.Close, i.Hold), [False, True], False, True),
        ((i.Hold, i.Probe, i.Resume, i.Probe), [True, True, True, False], False, False),
        ((i.Probe, i.Resume, i.Hold), [False, False, True], False, True),
    ],
)
def test_in_one_batch_what_is_said_about_a_stage_holds_in_the_order_of_saying(desk, asked, answers, paused, is_open):
    desk.register()
    said = [stage_said(kind, **({"opens": True, "until": NOW} if kind is i.Hold else {})) for kind in asked]
    elsewhere = [stage_said(i.Pause, stage=stage) for stage in ("notify", "a stage that sorts first")]
    assert desk.batch(elsewhere[0], *said, elsewhere[1]) == [True, *answers, True]
    row = desk.stage()
    assert (row["paused"], row["opened_at"] is not None) == (paused, is_open)


def test_the_store_tells_its_stages(desk):
    desk.register("llm", "fetch")
    desk.do(stage_said(i.Hold, opens=True))
    desk.do(stage_said(i.Probe, now=NOW + 30))
    empty = dict.fromkeys(
        ("paused_by", "reason", "held_until", "opened_at", "error_class", "probe_until", "changed_at")
    )
    fetch = {
        "reason": "it said 429", "held_until": NOW + 30, "opened_at": NOW, "error_class": "RATE_LIMITED",
        "probe_until": NOW + 60, "changed_at": NOW + 30,
    }  # fmt: skip
    assert sorted(desk.run(desk.store.stages()), key=lambda view: view.stage) == [
        StageView(pipeline="review", stage="fetch", paused=False, **(empty | fetch)),
        StageView(pipeline="review", stage="llm", paused=False, **empty),
    ]


# --- workers ---------------------------------------------------------------------------------------------------------------


def test_a_worker_that_registers_gets_an_id_of_its_own_and_its_stages_are_known(desk):
    first = desk.register("fetch", "llm")
    desk.do(stage_said(i.Pause, stage="llm"))
    second = desk.register("llm", "notify")
    assert first != second
    assert {row["stage"]: row["paused"] for row in desk.rows("stages")} == {
        "fetch": False,
        "llm": True,
        "notify": False,
    }
    row = desk.row("workers", id=first)
    assert (row["name"], row["host"], row["pid"], row["started_at"], row["expires_at"]) == ("w", "h", 7, NOW, NOW + 60)


def test_an_id_is_not_given_out_again_when_its_worker_has_left(desk):
    first = desk.register()
    assert desk.do(i.Leave(worker_id=first)) is True
    assert desk.do(i.Leave(worker_id=first)) is False
    assert desk.register() > first


def test_renewing_pushes_the_end_further_away(desk):
    worker = desk.register()
    renewal = i.Renew(worker_id=worker, now=NOW + 5, expires_at=NOW + 65, stopping=True)
    assert desk.do(renewal) == i.Renewed(alive=True)
    row = desk.row("workers", id=worker)
    assert (row["expires_at"], row["stopping"]) == (NOW + 65, True)


def test_a_worker_whose_row_is_gone_or_whose_death_was_reported_is_not_alive(desk):
    assert desk.do(i.Renew(worker_id=404, now=NOW, expires_at=NOW + 60)) == i.Renewed(alive=False)
    worker = desk.register()
    desk.do(i.Lost(worker_id=worker, cause=Cause.CRASH, now=NOW))
    assert desk.do(i.Renew(worker_id=worker, now=NOW, expires_at=NOW + 60)) == i.Renewed(alive=False)
    assert desk.row("workers", id=worker)["expires_at"] == NOW + 60


def test_workers_are_lost_when_their_lease_runs_out_or_their_death_is_reported(desk):
    asking = desk.register(expires_at=NOW - 100)
    silent = desk.register(expires_at=NOW + 10)
    killed = desk.register(expires_at=NOW + 1000)
    desk.register(expires_at=NOW + 1000)
    desk.do(i.Renew(worker_id=silent, now=NOW, expires_at=NOW + 20, stopping=True))
    assert desk.do(i.Lost(worker_id=killed, cause=Cause.OUT_OF_MEMORY, now=NOW)) is True
    assert desk.do(i.Lost(worker_id=killed, cause=Cause.CRASH, now=NOW)) is True, "it is lost; the first report stands"
    assert desk.do(i.Lost(worker_id=404, cause=Cause.CRASH, now=NOW)) is False
    place = {"name": "w", "host": "h", "pid": 7}
    reported = i.LostWorker(worker_id=killed, stopping=False, cause=Cause.OUT_OF_MEMORY, **place)
    ran_out = i.LostWorker(worker_id=silent, stopping=True, cause=None, **place)

    def lost(now):
        # A server that was started after these moments says so; the tests of its restarts look at that.
        return [replace(each, unheard=False) for each in desk.run(desk.store.lost_workers(now, besides=asking))]

    assert lost(NOW + 19) == [reported]
    assert lost(NOW + 20) == [ran_out, reported]


def test_a_worker_that_nobody_saw_die_is_lost_only_while_its_lease_has_run_out(desk):
    worker = desk.register(expires_at=NOW + 60)
    silent = i.Lost(worker_id=worker, cause=Cause.CRASH, now=NOW + 70, seen=False)
    desk.do(i.Renew(worker_id=worker, now=NOW + 59, expires_at=NOW + 119))
    assert desk.do(silent) is False, "it has renewed since somebody looked"
    assert desk.row("workers", id=worker)["lost_cause"] is None
    assert desk.do(i.Renew(worker_id=worker, now=NOW + 71, expires_at=NOW + 131)).alive
    assert desk.do(replace(silent, now=NOW + 131)) is True
    assert desk.row("workers", id=worker)["lost_cause"] == Cause.CRASH
    assert desk.do(replace(silent, worker_id=404)) is False


def test_a_worker_that_is_lost_already_stays_so_whoever_judges_it(desk):
    worker = desk.register(expires_at=NOW + 60)
    desk.do(i.Lost(worker_id=worker, cause=Cause.OUT_OF_MEMORY, now=NOW))
    assert desk.do(i.Lost(worker_id=worker, cause=Cause.CRASH, now=NOW, seen=False)) is True
    assert desk.row("workers", id=worker)["lost_cause"] == Cause.OUT_OF_MEMORY


def test_all_others_are_lost_at_the_end_of_time(desk):
    first, second = desk.register(), desk.register()
    found = desk.run(desk.store.lost_workers(NOW + 10_000_000_000, besides=second))
    assert [worker.worker_id for worker in found] == [first]


def test_what_a_lost_worker_held_can_be_taken_over(desk, say):
    lease, other = desk.lease("ours", worker_id=7, payload=b"[1, 2]", subject="s", version=1), desk.lease("theirs", 8)
    desk.do(say.checkpoint(lease.job_id, 1))
    (found,) = desk.run(desk.store.leases_of(7))
    assert (found.job_id, found.fence, found.stage, found.subject) == (lease.job_id, 1, "llm", "s")
    assert (found.payload, found.results) == (None, ())
    assert (found.leased_at, found.opened_at) == (NOW, NOW + 1)
    desk.do(say.release(found.job_id, found.fence, counters=i.Counters(crash=1)))
    assert desk.run(desk.store.leases_of(7)) == []
    assert [each.job_id for each in desk.run(desk.store.leases_of(8))] == [other.job_id]


def test_leases_tell_the_counters_and_whether_the_job_ran_alone(desk):
    desk.bring(QueueState.SUSPECT)
    desk.claim(7, suspects=True)
    (found,) = desk.run(desk.store.leases_of(7))
    assert (found.counters, found.alone) == (i.Counters(crash=1), True)


# --- waiting ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(desk, say):
    """Jobs that wait, by what they wait on."""
    places = {"deploy:A": "fetch", "deploy:B": "fetch", "deploy:C": "llm", "Deploy:D": "fetch", "dep%y:E": "fetch"}
    found = {}
    for waits_on, stage in places.items():
        job_id = desk.submit(waits_on, stage=stage)
        desk.claim(1, stage)
        desk.do(say.wait(job_id, 1, waits_on=waits_on))
        found[waits_on] = job_id
    return found


def woken(desk, waiting):
    return {waits_on for waits_on, job_id in waiting.items() if desk.state(job_id) is QueueState.READY}


def test_all_that_wait_on_a_prefix_are_woken(desk, waiting):
    assert desk.do(i.Wake(prefix="deploy:", now=NOW)) == 3
    assert woken(desk, waiting) == {"deploy:A", "deploy:B", "deploy:C"}
    assert desk.queued(waiting["deploy:A"])["waits_on"] is None
    assert desk.do(i.Wake(prefix="deploy:", now=NOW)) == 0


def test_a_prefix_is_no_pattern(desk, waiting):
    assert desk.do(i.Wake(prefix="dep%", now=NOW)) == 1
    assert woken(desk, waiting) == {"dep%y:E"}


def test_what_waits_on_exactly_the_exception_is_left(desk, waiting):
    assert desk.do(i.Wake(prefix="deploy:", unless="deploy:B", now=NOW)) == 2
    assert woken(desk, waiting) == {"deploy:A", "deploy:C"}


def test_only_the_stages_that_are_named_are_woken(desk, waiting):
    assert desk.do(i.Wake(prefix="deploy:", stages=(("review", "llm"), ("other", "fetch")), now=NOW)) == 1
    assert woken(desk, waiting) == {"deploy:C"}


def test_a_woken_job_goes_on_where_it_stood(desk, say):
    lease = desk.lease()
    desk.do(say.checkpoint(lease.job_id, 1))
    desk.do(say.release(lease.job_id, 1, counters=i.Counters(handler=2)))
    desk.claim(1, "llm")
    desk.do(say.wait(lease.job_id, 2, waits_on="review:7"))
    assert desk.status(lease.job_id) == "needs_review"
    desk.do(i.Wake(prefix="review", now=NOW))
    (again,) = desk.claim(1, "llm")
    assert (again.fence, again.counters, len(again.results)) == (3, i.Counters(handler=2), 1)


def test_a_job_that_a_worker_died_on_is_woken_as_a_suspect(desk, say):
    job_id = desk.bring(QueueState.SUSPECT)
    desk.claim(1, suspects=True)
    desk.do(say.wait(job_id, 2))
    assert not desk.queued(job_id)["alone"]
    assert desk.do(i.Wake(prefix="deploy:", now=NOW)) == 1
    assert desk.state(job_id) is QueueState.SUSPECT
