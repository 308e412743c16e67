"""The test double decides as a consumer does, without Redis and without a wait."""

import pytest
from pydantic import BaseModel

import reprieve
from reprieve.testing import FakeClock, run_consumer_inline


class Task(BaseModel):
    n: int


async def test_it_shows_retries_decisions_and_dead_letters():
    runs = []

    @reprieve.consumer("q", group="g", model=Task, body="data", service="langgraph")
    async def handle(task: Task, message: reprieve.StreamMessage) -> None:
        runs.append((task.n, message.attempt, message.key))
        if task.n == 1 and message.attempt < 3:
            raise ConnectionError("glitch")
        if task.n == 2:
            raise reprieve.Retryable("busy", error_class=reprieve.ErrorClass.OVERLOADED)

    clock = FakeClock()
    run = await run_consumer_inline(handle, [Task(n=1), {"n": 2}, b"nope", {"data": '{"n": 3}'}], clock=clock)
    assert run.handled == 2
    assert [round(each, 1) for each in clock.slept] == [1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 60.0]
    assert [letter.attempts for letter in run.dead_letters] == [6, 1]
    assert run.dead_letters[1].original == [b"data", b"nope"]
    assert run.dead_letters[0].service == "langgraph"
    assert len({key for n, _, key in runs if n == 1}) == 1
    assert isinstance(run.decisions[-1], reprieve.DeadLetter)
    assert len(run.exceptions) == len(run.decisions) == 9


@pytest.mark.spec("ORC-2.1", "ORC-2.2")
async def test_the_orchestrators_delays_are_those_of_its_text():
    @reprieve.consumer("q", group="g")
    def handle(task):
        raise (
            ConnectionError("down")
            if task["kind"] == "transient"
            else reprieve.Retryable("limit", error_class=reprieve.ErrorClass.RATE_LIMITED)
        )

    transient = await run_consumer_inline(handle, [{"kind": "transient"}])
    assert transient.clock.slept == [1.0, 2.0, 4.0]
    upstream = await run_consumer_inline(handle, [{"kind": "upstream"}])
    assert upstream.clock.slept == [5.0, 10.0, 20.0, 60.0, 60.0]
    assert upstream.decisions[-1].pages
