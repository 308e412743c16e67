"""Checked by mypy, never run: the types that `retry` and `attempts` promise."""

from collections.abc import Callable, Coroutine
from typing import Any, assert_type, overload

from reprieve.app.clock import SystemClock
from reprieve.app.retry import AsyncAttempt, Attempt, Attempts, RetryEvent, attempts, retry
from reprieve.core.failure import Failure
from reprieve.core.policy import Policy
from reprieve.ports import Clock
from reprieve.testing.clock import FakeClock


@retry
def bare(first: int, *, second: str = "") -> bytes:
    return b""


@retry("transient", deadline=5.0, on=(OSError, ValueError), idempotent=True, stage="fetch")
def named(first: int, *, second: str = "") -> bytes:
    return b""


@retry(Policy(max_attempts=3), timeout=1.0)
async def asynchronous(first: int) -> bytes:
    return b""


assert_type(bare(1, second="x"), bytes)
assert_type(named(1), bytes)
bare("x")  # type: ignore[arg-type]  # the signature survives
named(1, third=2)  # type: ignore[call-arg]  # the same


pending: Callable[[int], Coroutine[Any, Any, bytes]] = asynchronous


async def awaited() -> None:
    assert_type(await asynchronous(1), bytes)
    await asynchronous()  # type: ignore[call-arg]  # the same
    assert_type(await Service.of_class(1), str)


class Service:
    @retry
    def bound(self, value: int) -> str:
        return ""

    @staticmethod
    @retry("transient")
    def static(value: int) -> str:
        return ""

    @classmethod
    @retry("transient")
    async def of_class(cls, value: int) -> str:
        return ""


assert_type(Service().bound(1), str)
assert_type(Service.static(1), str)
Service().bound("x")  # type: ignore[arg-type]  # the signature survives binding


@overload
def either(value: int) -> int: ...
@overload
def either(value: str) -> str: ...
@retry("transient")
def either(value: int | str) -> int | str:
    return value


assert_type(retry(either)(1), int)
assert_type(retry("transient")(either)("x"), str)


def log(event: RetryEvent) -> None:
    assert_type(event.failure, Failure)
    assert_type(event.attempt, int)


async def log_later(event: RetryEvent) -> None: ...


retry("transient", hooks=log)
retry("transient", hooks=[log, log_later])
retry("transient", on=lambda error: isinstance(error, OSError))
retry("transient", dedline=5)  # type: ignore[call-overload]  # a misspelt setting
retry(5)  # type: ignore[call-overload]  # neither a policy nor a function

assert_type(attempts("transient"), Attempts)
for attempt in attempts("transient"):
    with attempt as entered:
        assert_type(entered, Attempt)
    assert_type(attempt.number, int)
    assert_type(attempt.failure, Failure | None)


async def block() -> None:
    async for attempt in attempts("transient", timeout=1.0):
        async with attempt as entered:
            assert_type(entered, AsyncAttempt)


def returns_from_a_block() -> int:
    for attempt in attempts("transient"):
        with attempt:
            return 1
    raise AssertionError  # reached by mypy: a block may swallow


clocks: tuple[Clock, ...] = (SystemClock(), FakeClock())
draw: Callable[[], float] = lambda: 0.5  # noqa: E731 - a typed value
retry("transient", clock=clocks[0], draw=draw)
