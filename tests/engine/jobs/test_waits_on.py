"""What a stage says it waits on: kept sanitized and short, found again by the same name."""

import random

import pytest

from reprieve import Job, JobStatus, Pipeline
from reprieve.app.outbox.delivering import WAITS_ON
from reprieve.app.worker.waiting import waited_on
from reprieve.errors import Wait
from reprieve.ports.intents import Wake

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
WHOM = "ada.lovelace@example.org"


def waiting_for(profile, on):
    pipeline = Pipeline("waiting", profile=profile)

    @pipeline.stage
    async def run(job: Job[str]) -> str:
        raise Wait(on)

    return pipeline


def waits(bench, profile, on):
    """The row of a job that waits on this."""
    job_id = bench.process(waiting_for(profile, on), "x")
    assert bench.job(job_id).status in (JobStatus.IN_PROGRESS, JobStatus.NEEDS_REVIEW)
    (row,) = bench.rows("queue", job_id=job_id)
    return row


@pytest.mark.parametrize("on", [f"approval by {WHOM}", f"billing token={KEY}", f"review of {WHOM}"])
def test_what_is_private_in_it_is_stored_nowhere(bench, quick, on):
    waits(bench, quick, on)
    stored = str([bench.rows(name) for name in ("queue", "reviews", "review_history")])
    assert KEY not in stored
    assert WHOM not in stored


@pytest.mark.parametrize(
    ("on", "kept"),
    [
        ("approval:7", "approval:7"),
        ("two\nlines\tof  it", "two lines of it"),
        ("a\0b\x1b[2J\udce9", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}"),
        ("", "something"),
        (7, "7"),
    ],
)
def test_it_is_one_line_that_every_database_and_terminal_takes(bench, quick, on, kept):
    assert waits(bench, quick, on)["waits_on"] == kept


def test_a_long_one_is_cut_and_the_worker_goes_on(bench, quick):
    """More than an index of PostgreSQL takes, and nothing in it that could be compressed."""
    long = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz ,.", k=20_000))
    assert len(waits(bench, quick, long)["waits_on"]) <= 200
    other = Pipeline("other", profile=quick)

    @other.stage
    async def run(job: Job[str]) -> str:
        return job.payload

    assert bench.result(bench.process(other, "done")) == "done"


@pytest.mark.parametrize("on", [f"review by {WHOM}", "review.queue@example.org has to look"])
def test_what_begins_as_a_review_does_still_waits_for_a_person(bench, quick, on):
    assert waits(bench, quick, on)["waits_on"].startswith("review")
    (review,) = bench.rows("reviews")
    assert review["state"] == "open"


def test_a_job_of_a_delivery_is_never_taken_for_a_card_or_a_telephone(bench, quick):
    number = "4111111111111111"  # of a card, as far as anybody can tell by looking
    assert waits(bench, quick, f"{WAITS_ON}{number}")["waits_on"] == f"{WAITS_ON}{number}"


@pytest.mark.parametrize("on", ["approval:7", f"approval by {WHOM}", f"many\nlines for {KEY}"])
def test_the_same_name_wakes_it(bench, quick, on):
    waits(bench, quick, on)

    async def wake(name):
        return await bench.app.journal.ask(Wake(prefix=waited_on(name), now=await bench.app.journal.store.now()))

    assert bench.run(lambda: wake("approval by somebody else")) == 0
    assert bench.run(lambda: wake(on)) == 1
