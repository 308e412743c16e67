"""An upstream that is down, slow or asks to be left alone: it costs time, not jobs."""

import asyncio
import os
import time

import pytest
from engine_pipelines import Work

import reprieve
from reprieve.testing import FlakyHTTP, Reply, Stall

LONG_OUTAGE = bool(os.environ.get("REPRIEVE_LONG_OUTAGE"))
"""Two minutes and 5,000 jobs in place of a few seconds and a few hundred."""


def through(upstream, count, stage="llm"):
    return [Work(acts={stage: ["get"] * 99}, url=upstream.url("/model")) for _ in range(count)]


def operate(lab, main):
    """Do something as an operator does it, beside the workers."""

    async def opened():
        async with reprieve.connect(lab.url) as app:
            return await main(app.operations)

    return asyncio.run(opened())


def is_open(lab, stage="llm"):
    return [row for row in lab.rows("stages", stage=stage) if row["opened_at"] is not None]


def test_a_probe_whose_worker_is_killed_does_not_hold_its_stage_for_ever(lab):
    """It is the only job that is left: as a suspect it has to be the next probe all the same."""
    with FlakyHTTP() as upstream:
        upstream.always(503)
        job, *others = lab.submit(*through(upstream, 3), pipeline="outage")
        worker = lab.start(pipelines=["outage"])
        lab.until(lambda: is_open(lab), "the breaker opens")

        async def cancel(operations):
            for other in others:
                await operations.jobs.cancel(other, actor="ann", reason="not needed")

        operate(lab, cancel)
        upstream.always(Stall())
        lab.until(lambda: lab.rows("queue", job_id=job, state=1), "the last job is the probe")
        worker.kill()
        upstream.always(200)
        lab.start(pipelines=["outage"])
        lab.finish()
    assert lab.outcomes() == {job: "succeeded"} | dict.fromkeys(others, "cancelled")
    assert lab.count("attempts", cause="crash", job_id=job) == 1
