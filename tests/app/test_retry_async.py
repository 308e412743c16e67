"""`@retry` on async functions: true timeouts, cancellation left alone, hooks that are awaited."""

import asyncio
import contextlib
import functools
import inspect
import time

import aiohttp
import pytest

from reprieve.app.retry import Moment, retry
from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.policy import Policy
from reprieve.testing import FakeClock, no_sleep, retry_testing

THREE = Policy(
    name="three", max_attempts=3, backoff=Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.none())
)


class Flaky:
    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, value: int = 7) -> int:
        self.calls += 1
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        return value


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_an_async_function_stays_one_and_is_retried(clock):
    work = Flaky(TimeoutError(), ConnectionResetError())

    @retry(THREE, clock=clock)
    async def call(value: int) -> int:
        """What it does."""
        return await work(value)

    assert inspect.iscoroutinefunction(call)
    assert call.__doc__ == "What it does."
    assert asyncio.run(call(5)) == 5
    assert (work.calls, clock.slept) == (3, [1.0, 2.0])


def test_partials_and_callable_objects_are_recognised_as_async(clock):
    work = Flaky(TimeoutError())
    assert asyncio.run(retry(THREE, clock=clock)(work)(5)) == 5
    work = Flaky(TimeoutError())
    assert asyncio.run(retry(THREE, clock=clock)(functools.partial(work.__call__, 6))()) == 6
    assert work.calls == 2


def test_an_async_static_method_is_retried(clock):
    class Service:
        @retry(THREE, clock=clock)
        @staticmethod
        async def call(value: int) -> int:
            return value

    assert asyncio.run(Service().call(3)) == 3


def test_cancellation_is_neither_retried_nor_told():
    calls, events = [], []

    @retry(THREE, hooks=events.append)
    async def work() -> None:
        calls.append(1)
        await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert not hasattr(caught.value, "__notes__")

    asyncio.run(main())
    assert (calls, events) == ([1], [])


def test_cancellation_during_the_wait_ends_the_call():
    work = Flaky(*(TimeoutError() for _ in range(9)))
    slow = Policy(backoff=Backoff(initial=600.0, maximum=600.0, jitter=Jitter.none()))

    async def main() -> None:
        task = asyncio.create_task(retry(slow)(work)())
        while not work.calls:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert work.calls == 1


def test_a_timeout_with_a_cancellation_in_its_chain_is_a_failure(clock):
    """As aiohttp raises its total timeout."""
    calls, events = [], []

    @retry(THREE, clock=clock, hooks=events.append)
    async def work() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise TimeoutError from asyncio.CancelledError()
        return 7

    assert asyncio.run(work()) == 7
    assert events[0].failure.error_class == "NETWORK_TIMEOUT"


def test_the_total_timeout_of_aiohttp_is_tried_again(clock):
    events, calls = [], []

    async def silent_at_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(calls) > 1:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        else:
            await reader.read()
        writer.close()

    async def main() -> str:
        server = await asyncio.start_server(silent_at_first, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

        @retry(THREE, clock=clock, hooks=events.append)
        async def fetch() -> str:
            calls.append(1)
            total = aiohttp.ClientTimeout(total=0.05 if len(calls) == 1 else 60.0)
            async with aiohttp.ClientSession(timeout=total) as session, session.get(url) as response:
                return await response.text()

        async with server:
            return await fetch()

    assert asyncio.run(main()) == "ok"
    assert events[0].failure.error_class == "NETWORK_TIMEOUT"


def test_a_timeout_truly_cancels_the_attempt_and_is_a_network_timeout(clock):
    cancelled, events = [], []

    @retry(THREE, timeout=0.01, clock=clock, hooks=events.append)
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(work())
    assert len(cancelled) == 3
    assert [event.failure.error_class for event in events] == ["NETWORK_TIMEOUT"] * 3
    assert caught.value.__notes__ == ["reprieve: gave up after 3 attempts: budget_spent (NETWORK_TIMEOUT)"]


def test_a_timed_attempt_that_is_quick_enough_returns():
    work = Flaky(TimeoutError())

    async def main() -> int:
        with no_sleep():
            return await retry(THREE, timeout=60.0)(work)(8)

    assert asyncio.run(main()) == 8
    assert work.calls == 2


def test_cancelling_from_outside_is_not_mistaken_for_the_timeout():
    calls = []

    @retry(THREE, timeout=60.0)
    async def work() -> None:
        calls.append(1)
        await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert calls == [1]


def test_a_timeout_is_cut_to_what_is_left_of_the_deadline():
    limits = []

    @retry(THREE, timeout=50.0, deadline=30.0)
    async def work() -> None:
        limits.append(_limit_of_this_task())

    def _limit_of_this_task() -> float:
        loop = asyncio.get_running_loop()
        return min(handle.when() for handle in loop._scheduled) - loop.time()

    asyncio.run(work())
    assert len(limits) == 1
    assert 0.0 < limits[0] <= 30.0


def test_later_attempts_get_only_the_rest_of_the_deadline(clock):
    limits = []

    @retry(THREE, timeout=20.0, deadline=30.0, clock=clock)
    async def work() -> None:
        loop = asyncio.get_running_loop()
        limits.append(min(handle.when() for handle in loop._scheduled if not handle.cancelled()) - loop.time())
        clock.advance(13.0)
        raise TimeoutError

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(work())
    assert len(limits) == 3
    assert all(limit <= most for limit, most in zip(limits, [20.0, 16.0, 1.0], strict=True))
    assert "after 3 attempts" in caught.value.__notes__[0]


def test_async_hooks_are_awaited_and_plain_ones_called(clock):
    events = []

    async def awaited(event) -> None:
        await asyncio.sleep(0)
        events.append(("async", event.moment))

    def called(event) -> None:
        events.append(("plain", event.moment))

    assert asyncio.run(retry(THREE, clock=clock, hooks=[awaited, called])(Flaky(TimeoutError()))()) == 7
    assert events == [
        ("async", Moment.RETRYING),
        ("plain", Moment.RETRYING),
        ("async", Moment.RECOVERED),
        ("plain", Moment.RECOVERED),
    ]


def test_an_async_hook_that_fails_changes_nothing(clock, caplog):
    async def broken(event) -> None:
        raise RuntimeError("of its own")

    assert asyncio.run(retry(THREE, clock=clock, hooks=broken)(Flaky(TimeoutError()))()) == 7
    assert caplog.text.count("RuntimeError") == 2


def test_a_deadline_that_passes_inside_an_async_hook_ends_the_call(clock):
    events = []

    async def slow(event) -> None:
        events.append(event.reason)
        await clock.sleep_async(100.0)

    with pytest.raises(TimeoutError):
        asyncio.run(retry(THREE, deadline=10.0, clock=clock, hooks=slow)(Flaky(TimeoutError()))())
    assert events == ["backoff", "deadline"]


def test_the_test_mode_of_one_task_does_not_reach_another(clock):
    async def in_test_mode(work: Flaky) -> None:
        with retry_testing(attempts=1):
            await asyncio.sleep(0)
            with contextlib.suppress(TimeoutError):
                await retry(THREE, clock=clock)(work)()

    async def outside(work: Flaky) -> None:
        await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            await retry(THREE, clock=clock)(work)()

    inside, beside = (Flaky(*(TimeoutError() for _ in range(9))) for _ in range(2))

    async def main() -> None:
        await asyncio.gather(in_test_mode(inside), outside(beside))

    asyncio.run(main())
    assert (inside.calls, beside.calls) == (1, 3)


def test_the_system_clock_really_waits():
    policy = Policy(max_attempts=2, backoff=Backoff(initial=0.05, multiplier=1.0, maximum=1.0, jitter=Jitter.none()))
    began = time.monotonic()
    assert asyncio.run(retry(policy)(Flaky(TimeoutError()))()) == 7
    assert time.monotonic() - began >= 0.05


def test_one_decorated_function_serves_many_tasks_at_once(clock):
    seen: dict[int, int] = {}

    @retry(THREE, clock=clock)
    async def work(key: int) -> int:
        seen[key] = seen.get(key, 0) + 1
        await asyncio.sleep(0)
        if seen[key] < 3:
            raise TimeoutError
        return key

    async def main() -> list[int]:
        return await asyncio.gather(*(work(key) for key in range(50)))

    assert asyncio.run(main()) == list(range(50))
    assert set(seen.values()) == {3}
