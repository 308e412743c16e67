"""Several stores at once on the same dead letters: one wins each, nobody is locked out, and the counts stay exact."""

import asyncio

import psycopg
import pytest

from reprieve.core.canary import CampaignState
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

NOW = 1_700_000_000.0


def at_once(lab, *batches):
    """Hand each batch to a store of its own, all at the same time; their answers."""
    stores = [lab.desk.another() for _ in batches]

    async def everybody():
        return await asyncio.gather(*[store.apply(batch) for store, batch in zip(stores, batches, strict=True)])

    return lab.desk.run(everybody())


def deaths(lab, submits, count):
    """That many jobs, leased and about to be given up."""
    lab.desk.batch(*[submits(f"key-{number}") for number in range(count)])
    return lab.desk.claim(1, capacity=count, stages={("review", "fetch"): count})


def letters(lab, submits, count, groups=3):
    leases = deaths(lab, submits, count)
    lab.desk.batch(*[lab.bury(lease, fingerprint=f"v1:{lease.job_id % groups}") for lease in leases])
    return tuple(row["id"] for row in lab.desk.rows("dead_letters"))


@pytest.mark.parametrize("turn", range(3))
def test_of_two_who_replay_the_same_letters_one_wins_each(lab, submits, turn):
    ids = letters(lab, submits, 40)
    first, second = at_once(
        lab,
        [lab.replaying(tuple(each), actor="ann") for each in (ids[:20], ids[20:])],
        [lab.replaying(tuple(each), actor="bob") for each in (reversed(ids[10:]), ids[:10])],
    )
    won = [letter_id for answer in (*first, *second) for letter_id in answer.applied]
    assert sorted(won) == sorted(ids)
    assert {row["replays"] for row in lab.desk.rows("dead_letters")} == {1}
    assert len(lab.desk.rows("queue")) == 40
    for answer in (*first, *second):
        assert {each.state for each in answer.refused} <= {LetterState.REPLAYING}


@pytest.mark.parametrize("turn", range(3))
def test_burials_of_the_same_new_groups_by_several_stores_end_in_one_row_each(lab, submits, turn):
    leases = deaths(lab, submits, 60)
    batches = [
        [lab.bury(lease, fingerprint=f"v1:{lease.job_id % 7}") for lease in leases[start::3]] for start in range(3)
    ]
    batches[1].reverse()
    for answers in at_once(lab, *batches):
        assert set(answers) == {Written.APPLIED}
    assert len(lab.desk.rows("dead_letter_groups")) == 7
    assert sum(row["letters"] for row in lab.desk.rows("dead_letter_counts")) == 60


@pytest.mark.parametrize("turn", range(3))
def test_burials_remedies_replays_and_settling_at_once_lock_nobody_out(lab, submits, turn):
    ids = letters(lab, submits, 30)
    lab.replay(ids[20:])
    again = lab.desk.claim(now=NOW + 40)
    lab.desk.batch(*[submits(f"more-{number}") for number in range(10)])
    more = lab.desk.claim(1, capacity=10, stages={("review", "fetch"): 10})
    finished, dying = again[:5], again[5:]
    answers = at_once(
        lab,
        [lab.bury(lease, fingerprint=f"v1:{lease.job_id % 5}") for lease in (*more, *reversed(dying))],
        [lab.say.finish(lease.job_id, lease.fence) for lease in finished] + [i.Settle(now=NOW + 50)],
        [lab.remedying(tuple(reversed(ids)), LetterEvent.NOTE), lab.replaying(ids[:10])],
        [lab.replaying(tuple(reversed(ids[5:20]))), lab.remedying(ids, LetterEvent.NOTE), i.Settle(now=NOW + 51)],
    )
    assert set(answers[0]) == {Written.APPLIED}
    assert sorted((*answers[2][1].applied, *answers[3][0].applied)) == sorted(ids[:20])
    lab.settle()
    lab.desk.audit()


@pytest.mark.parametrize("turn", range(3))
def test_of_several_who_launch_one_wave_at_once_one_does(lab, submits, turn):
    ids = letters(lab, submits, 20, groups=1)
    campaign_id = lab.campaign(ids)
    launch = [lab.launching(campaign_id, 0, 0, 5)]
    answers = [answer for (answer,) in at_once(lab, launch, launch, launch)]
    assert sorted(answers, key=str) == [i.Launched(replayed=5, left_out=0), None, None]
    assert [state for _, state, _ in lab.members(campaign_id)].count("replaying") == 5


def test_of_several_who_widen_a_campaign_at_once_one_does(lab, submits):
    campaign_id = lab.campaign(letters(lab, submits, 10, groups=1))
    lab.desk.do(lab.launching(campaign_id, 0, 0, 1))
    running = CampaignState.RUNNING
    widen = [[lab.steering(campaign_id, running, running, wave=1, actor=actor)] for actor in ("ann", "bob", "eve")]
    assert sorted(answer for (answer,) in at_once(lab, *widen)) == [False, False, True]


# --- step by step, on PostgreSQL --------------------------------------------------------------------------------------


async def until_somebody_waits(connection):
    async with asyncio.timeout(10):
        while True:
            found = await connection.execute(
                "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"
            )
            if await found.fetchone() is not None:
                return
            await asyncio.sleep(0.01)


def meanwhile(lab, intent, *statements):
    """The answer to an intent that is sent while these statements have been run and not committed."""

    async def race():
        async with await psycopg.AsyncConnection.connect(lab.desk.url) as other:
            for statement in statements:
                await other.execute(statement)
            asked = asyncio.create_task(lab.desk.store.apply([intent]))
            await until_somebody_waits(other)
            await other.commit()
            (answer,) = await asked
            return answer

    return lab.desk.run(race())


def test_a_replay_that_meets_an_erasure_being_committed_is_refused(postgres_lab):
    lab = postgres_lab
    letter_id = lab.dead()
    lab.desk.write("SELECT 1")  # the erasure below is not the store's
    answer = meanwhile(
        lab, lab.replaying(letter_id), "SELECT id FROM jobs FOR UPDATE", "UPDATE jobs SET payload = NULL"
    )
    assert [each.why for each in answer.refused] == ["the payload of its job 1 was erased"]
    assert lab.desk.rows("queue") == []


def test_settling_does_not_wait_for_who_is_at_a_letter(postgres_lab):
    lab = postgres_lab
    ids = tuple(lab.dead(key) for key in "ab")
    lab.replay(ids)
    for lease in lab.desk.claim():
        lab.desk.do(lab.say.finish(lease.job_id, lease.fence))
    with psycopg.connect(lab.desk.url) as other:
        other.execute("SELECT 1 FROM dead_letters WHERE id = %s FOR UPDATE", (ids[0],))
        assert lab.settle() == 1
        other.rollback()
    assert lab.settle() == 1


def test_a_burial_waits_for_who_holds_the_counts_and_adds_to_them(postgres_lab):
    lab = postgres_lab
    lab.dead("a")
    lease = lab.desk.lease("b")
    waited = meanwhile(lab, lab.bury(lease), "UPDATE dead_letter_counts SET letters = letters")
    assert (waited, lab.counts()) == (Written.APPLIED, {"open": 2})


def test_a_burial_whose_new_group_is_being_made_by_somebody_else_uses_that(postgres_lab):
    lab = postgres_lab
    lease = lab.desk.lease()
    made = """
    INSERT INTO dead_letter_groups (fingerprint, pipeline, stage, error_class, category, signature, first_seen, last_seen)
    VALUES ('v1:1', 'review', 'fetch', 'NETWORK_TIMEOUT', 'network', 'theirs', to_timestamp(1700000001), to_timestamp(1700000001))
    """
    assert meanwhile(lab, lab.bury(lease), made) is Written.APPLIED
    (group,) = lab.desk.rows("dead_letter_groups")
    assert (group["signature"], lab.row(lab.of(lease.job_id))["group_id"]) == ("theirs", group["id"])


@pytest.mark.parametrize("kind", ["remedy", "replay", "launch"])
def test_a_letter_that_comes_to_be_while_others_are_waited_for_is_not_changed_by_who_does_not_hold_it(
    postgres_lab, kind
):
    lab = postgres_lab
    letter_id = lab.dead()
    newcomer = letter_id + 1
    said = {
        "remedy": lambda: lab.remedying((letter_id, newcomer), LetterEvent.TRIAGE),
        "replay": lambda: lab.replaying((letter_id, newcomer)),
        "launch": lambda: lab.launching(lab.campaign((letter_id, newcomer)), 0, 0, 2),
    }[kind]()
    lab.desk.write("SELECT 1")  # nobody counts the newcomer
    columns = (
        "fence, group_id, signature, attempts, budget, pages, escalated, first_failure_at, last_failure_at, opened_at"
    )
    answer = meanwhile(
        lab,
        said,
        "SELECT 1 FROM dead_letters FOR UPDATE",
        f"INSERT INTO dead_letters (job_id, {columns}) SELECT 999, {columns} FROM dead_letters",
    )
    if kind == "launch":
        assert answer == i.Launched(replayed=1, left_out=1)
    else:
        assert (answer.applied, answer.refused[0].why) == ((letter_id,), f"there is no dead letter {newcomer}")
    assert lab.state(newcomer) is LetterState.OPEN
