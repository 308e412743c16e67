"""The block form: `for attempt in attempts(...): with attempt: ...`, and the same with `async`."""

import asyncio
import contextlib

import pytest

from reprieve.app.retry import Attempts, attempts
from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.policy import Policy
from reprieve.errors import UsageError
from reprieve.testing import FakeClock

THREE = Policy(
    name="three", max_attempts=3, backoff=Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.none())
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def run_block(block: Attempts, failures: int) -> list[tuple[int, str | None]]:
    """The number of each attempt and the failure it knew of; the first `failures` attempts fail."""
    seen = []
    for attempt in block:
        with attempt:
            seen.append((attempt.number, attempt.failure and attempt.failure.error_class))
            if attempt.number <= failures:
                raise TimeoutError(f"number {attempt.number}")
    return seen


async def run_block_async(block: Attempts, failures: int) -> list[tuple[int, str | None]]:
    seen = []
    async for attempt in block:
        async with attempt:
            await asyncio.sleep(0)
            seen.append((attempt.number, attempt.failure and attempt.failure.error_class))
            if attempt.number <= failures:
                raise TimeoutError(f"number {attempt.number}")
    return seen


def run_either(kind: str, block: Attempts, failures: int) -> list[tuple[int, str | None]]:
    return run_block(block, failures) if kind == "plain" else asyncio.run(run_block_async(block, failures))


either = pytest.mark.parametrize("kind", ["plain", "async"])


@either
def test_a_block_that_succeeds_runs_once(kind, clock):
    events = []
    assert run_either(kind, attempts(THREE, clock=clock, hooks=events.append), 0) == [(1, None)]
    assert events == []


@either
def test_a_block_is_tried_again_and_knows_how_it_failed(kind, clock):
    events = []
    assert run_either(kind, attempts(THREE, clock=clock, hooks=events.append), 2) == [
        (1, None),
        (2, "NETWORK_TIMEOUT"),
        (3, "NETWORK_TIMEOUT"),
    ]
    assert clock.slept == [1.0, 2.0]
    assert [event.moment for event in events] == ["retrying", "retrying", "recovered"]
    assert events[0].function.rpartition(".")[2] == ("run_block" if kind == "plain" else "run_block_async")


@either
def test_the_last_exception_leaves_the_block_as_it_was(kind, clock):
    with pytest.raises(TimeoutError, match="number 3") as caught:
        run_either(kind, attempts(THREE, clock=clock), 9)
    assert caught.value.__notes__ == ["reprieve: gave up after 3 attempts: budget_spent (NETWORK_TIMEOUT)"]


@either
def test_a_kept_block_starts_afresh_each_time(kind, clock):
    block = attempts(THREE, clock=clock)
    for _ in range(2):
        assert len(run_either(kind, block, 2)) == 3


@either
def test_a_stage_names_the_block(kind, clock):
    events = []
    run_either(kind, attempts(THREE, clock=clock, hooks=events.append, stage="fetch"), 1)
    assert {event.function for event in events} == {"fetch"}


def test_a_block_whose_last_exception_is_caught_inside_its_loop_ends(clock):
    async def asynchronous() -> int:
        turns = 0
        async for attempt in attempts(THREE, clock=clock):
            with contextlib.suppress(TimeoutError):
                async with attempt:
                    turns += 1
                    raise TimeoutError
            assert turns < 9
        return turns

    turns = 0
    for attempt in attempts(THREE, clock=clock):
        with contextlib.suppress(TimeoutError), attempt:
            turns += 1
            raise TimeoutError
        assert turns < 9
    assert turns == 3
    assert asyncio.run(asynchronous()) == 3


def test_returning_from_a_block_ends_it(clock):
    def work() -> int:
        for attempt in attempts(THREE, clock=clock):
            with attempt:
                if attempt.number == 2:
                    return attempt.number
                raise TimeoutError
        raise AssertionError

    assert work() == 2


def test_what_ends_a_program_leaves_a_block_at_once(clock):
    turns, events = [], []

    def block() -> None:
        for attempt in attempts(THREE, clock=clock, hooks=events.append):
            with attempt:
                turns.append(1)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        block()
    assert (turns, events) == ([1], [])


def test_a_body_outside_its_attempt_is_refused_instead_of_looping_for_ever(clock):
    turns = iter(attempts(THREE, clock=clock))
    next(turns)
    with pytest.raises(UsageError, match="with attempt"):
        next(turns)

    async def main() -> None:
        turns = aiter(attempts(THREE, clock=clock))
        await anext(turns)
        with pytest.raises(UsageError, match="with attempt"):
            await anext(turns)

    asyncio.run(main())


def test_a_plain_block_may_not_declare_a_timeout():
    with pytest.raises(UsageError, match="timeout="):
        iter(attempts(THREE, timeout=1.0))


def test_an_async_block_is_cancelled_by_its_timeout_and_tried_again(clock):
    turns, events = [], []

    async def main() -> None:
        async for attempt in attempts(THREE, timeout=0.01, clock=clock, hooks=events.append):
            async with attempt:
                turns.append(attempt.number)
                if attempt.number < 3:
                    await asyncio.sleep(60)

    asyncio.run(main())
    assert turns == [1, 2, 3]
    assert [event.failure.error_class for event in events] == ["NETWORK_TIMEOUT"] * 3


def test_an_async_block_whose_timeout_is_its_last_raises_it(clock):
    async def main() -> None:
        async for attempt in attempts(THREE, timeout=0.01, clock=clock):
            async with attempt:
                await asyncio.sleep(60)

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(main())
    assert caught.value.__notes__ == ["reprieve: gave up after 3 attempts: budget_spent (NETWORK_TIMEOUT)"]


def test_cancelling_an_async_block_ends_it():
    turns, events = [], []

    async def block() -> None:
        async for attempt in attempts(THREE, timeout=60.0, hooks=events.append):
            async with attempt:
                turns.append(attempt.number)
                await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(block())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert (turns, events) == ([1], [])


def test_async_hooks_of_a_block_are_awaited(clock):
    events = []

    async def hook(event) -> None:
        await asyncio.sleep(0)
        events.append(event.moment)

    asyncio.run(run_block_async(attempts(THREE, clock=clock, hooks=hook), 1))
    assert events == ["retrying", "recovered"]
    with pytest.raises(UsageError, match="async hook"):
        iter(attempts(THREE, hooks=hook))
