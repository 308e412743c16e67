"""What a retry wrapper adds to a call that succeeds, beside its peers."""

from __future__ import annotations

import asyncio
import importlib
import time
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from harness import Effort, Figure, medians, overheads, per_await, per_call, take_turns
from reprieve import attempts, retry, timeout_for
from sample import run_turns, sized

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sample import SampleOptions

OURS = "retry"
OURS_BARE = "bare @retry"
OURS_TIMED = "retry(timeout=...)"
OURS_BLOCK = "attempts, kept"
OURS_NEW_BLOCK = "attempts, made anew"
OURS_LIMITED = "timeout_for"
PLAIN, BY_HAND = "plain call", "hand-written loop"
BARE_LIMIT = "asyncio.timeout"
FAILING = "a call that fails once, judged and retried"
ATTEMPTS, DEADLINE = 4, 30.0
TENTH, HALF = 0.1, 0.5


def work() -> int:
    """Succeed."""
    return 1


async def work_async() -> int:
    """Succeed."""
    return 1


def hook(*_: object) -> None:
    """Stand for somebody's logging."""


def by_hand() -> int:
    """Retry as one writes it where no library is at hand."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except OSError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.1 * 2**attempt)
    raise AssertionError


async def by_hand_async() -> int:
    """Do the same, awaiting."""
    for attempt in range(ATTEMPTS):
        try:
            return await work_async()
        except OSError:
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.1 * 2**attempt)
    raise AssertionError


def peers(function: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """Wrap the function with each installed peer, told as much as it can be: attempts, deadline, hook."""
    wrapped: dict[str, Callable[[], Any]] = {}
    if (backoff := _module("backoff")) is not None:
        limits = {"max_tries": ATTEMPTS, "max_time": DEADLINE, "on_backoff": hook}
        wrapped["backoff"] = backoff.on_exception(backoff.expo, OSError, **limits)(function)
    if (tenacity := _module("tenacity")) is not None:
        wrapped["tenacity"] = tenacity.retry(
            stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_after_delay(DEADLINE),
            wait=tenacity.wait_exponential_jitter(),
            retry=tenacity.retry_if_exception_type(OSError),
            before_sleep=hook,
        )(function)
    if (stamina := _module("stamina")) is not None:
        wrapped["stamina"] = stamina.retry(on=OSError, attempts=ATTEMPTS, timeout=DEADLINE)(function)
    return wrapped


def _module(name: str) -> Any:  # noqa: ANN401 - peers are not installed where types are checked
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


class FailsOnce:
    """Fails at every other call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> int:
        """Fail or succeed."""
        self.calls += 1
        if self.calls % 2:
            raise ConnectionResetError(104, "Connection reset by peer")
        return 1


def own_failing() -> Callable[[], object]:
    """One failure and one success, with waits of nothing: what the work of retrying itself costs."""
    return retry(hooks=hook, draw=lambda: 0.0)(FailsOnce())


def failing_candidates() -> dict[str, Callable[[], object]]:
    """The same beside the peers."""
    candidates: dict[str, Callable[[], object]] = {OURS: own_failing()}
    if (backoff := _module("backoff")) is not None:
        candidates["backoff"] = backoff.on_exception(
            backoff.constant, OSError, interval=0, jitter=None, max_tries=ATTEMPTS, on_backoff=hook, logger=None
        )(FailsOnce().__call__)
    if (tenacity := _module("tenacity")) is not None:
        candidates["tenacity"] = tenacity.retry(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_none(),
            retry=tenacity.retry_if_exception_type(OSError),
            before_sleep=hook,
        )(FailsOnce().__call__)
    if (stamina := _module("stamina")) is not None:
        stamina.instrumentation.set_on_retry_hooks([hook])  # one hook like the others, in place of its own logging
        candidates["stamina"] = stamina.retry(
            on=OSError, attempts=ATTEMPTS, wait_initial=0.0, wait_max=0.0, wait_jitter=0.0
        )(FailsOnce().__call__)
    return candidates


def own_sync() -> dict[str, Callable[[], object]]:
    """The plain call and ours, in plain code."""
    kept = attempts("transient", deadline=DEADLINE, hooks=hook)

    def block() -> int:
        for attempt in kept:
            with attempt:
                return work()
        raise AssertionError

    def new_block() -> int:
        for attempt in attempts("transient", deadline=DEADLINE, hooks=hook):
            with attempt:
                return work()
        raise AssertionError

    return {
        PLAIN: work,
        OURS: retry("transient", deadline=DEADLINE, hooks=hook)(work),
        OURS_BARE: retry(work),
        OURS_BLOCK: block,
        OURS_NEW_BLOCK: new_block,
    }


def sync_candidates() -> dict[str, Callable[[], object]]:
    """Everything that is measured in plain code."""
    candidates: dict[str, Callable[[], object]] = {**own_sync(), BY_HAND: by_hand, **peers(work)}
    if (stamina := _module("stamina")) is not None:

        def stamina_block() -> int:
            for attempt in stamina.retry_context(on=OSError, attempts=ATTEMPTS, timeout=DEADLINE):
                with attempt:
                    return work()
            raise AssertionError

        candidates["stamina block"] = stamina_block
    return candidates


def own_async() -> dict[str, Callable[[], Awaitable[object]]]:
    """The plain call and ours, in async code."""
    kept = attempts("transient", deadline=DEADLINE, hooks=hook)

    async def block() -> int:
        async for attempt in kept:
            async with attempt:
                return await work_async()
        raise AssertionError

    async def limited() -> int:
        async with timeout_for("redis_command"):
            return await work_async()

    return {
        PLAIN: work_async,
        OURS: retry("transient", deadline=DEADLINE, hooks=hook)(work_async),
        OURS_BARE: retry(work_async),
        OURS_TIMED: retry("transient", timeout=5.0, deadline=DEADLINE, hooks=hook)(work_async),
        OURS_BLOCK: block,
        OURS_LIMITED: limited,
    }


async def bare_limit() -> int:
    """Limit a block without a name."""
    async with asyncio.timeout(5.0):
        return await work_async()


def async_candidates() -> dict[str, Callable[[], Awaitable[object]]]:
    """Everything that is measured in async code."""
    return {**own_async(), BY_HAND: by_hand_async, BARE_LIMIT: bare_limit, **peers(work_async)}


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the nanoseconds that ours adds to a call, and those of a call that fails once."""
    plain = {("sync", name): sized(partial(per_call, function)) for name, function in own_sync().items()}
    awaited = {("async", name): sized(partial(_per_await, call)) for name, call in own_async().items()}
    failing = {("failing", FAILING): sized(partial(per_call, own_failing()))}
    samples = run_turns({**plain, **awaited, **failing}, asked.seconds)
    costs = medians({name: taken for (kind, name), taken in samples.items() if kind == "failing"})
    for kind in ("sync", "async"):
        added = overheads({name: taken for (of, name), taken in samples.items() if of == kind}, PLAIN)
        costs |= {f"{name}, {kind}, added to a call": cost for name, cost in added.items()}
    return costs


def _per_await(function: Callable[[], Awaitable[object]], calls: int) -> float:
    return asyncio.run(per_await(function, calls))


def run(effort: Effort) -> list[Figure]:
    """Measure both kinds."""
    plain = {
        name: lambda function=function: per_call(function, effort.calls) for name, function in sync_candidates().items()
    }
    awaited = {
        name: lambda function=function: asyncio.run(per_await(function, effort.calls))
        for name, function in async_candidates().items()
    }
    failing = {
        name: lambda function=function: per_call(function, effort.calls // 20)
        for name, function in failing_candidates().items()
    }
    take_turns(plain, 1)  # warm up
    take_turns(awaited, 1)
    take_turns(failing, 1)
    return [
        *_figures("sync", overheads(take_turns(plain, effort.rounds), PLAIN)),
        *_figures("async", overheads(take_turns(awaited, effort.rounds), PLAIN)),
        *_failing_figures(medians(take_turns(failing, effort.rounds))),
    ]


def _failing_figures(taken: dict[str, float]) -> list[Figure]:
    name = FAILING
    alone = [Figure(name=name, value=taken[OURS], unit="ns")] if len(taken) == 1 else []
    return alone + [
        Figure(name=name, value=taken[OURS], unit="ns", peer=f"{peer} {version(peer)}", peer_value=taken[peer])
        for peer in taken
        if peer != OURS
    ]


def _figures(kind: str, added: dict[str, float]) -> list[Figure]:
    figures = [
        Figure(
            name=f"{OURS}, {kind}, added to a call",
            value=added[OURS],
            unit="ns",
            peer=f"{peer} {version(peer)}" if peer != BY_HAND else peer,
            peer_value=added[peer],
            at_most=target,
        )
        for peer, target in (("stamina", TENTH), ("backoff", HALF), ("tenacity", None), (BY_HAND, None))
        if peer in added
    ]
    if OURS_LIMITED in added:
        limit = Figure(
            name=f"{OURS_LIMITED}, {kind}, added to a call",
            value=added[OURS_LIMITED],
            unit="ns",
            peer=BARE_LIMIT,
            peer_value=added[BARE_LIMIT],
        )
        figures.append(limit)
    block_peer = added.get("stamina block")
    figures += [
        Figure(
            name=f"{name}, {kind}, added to a call",
            value=value,
            unit="ns",
            peer="stamina block" if block_peer and "attempts" in name else None,
            peer_value=block_peer if "attempts" in name else None,
        )
        for name, value in added.items()
        if name in {OURS_BARE, OURS_TIMED, OURS_BLOCK, OURS_NEW_BLOCK}
    ]
    figures += [
        Figure(name=f"{name}, {kind}, added to a call", value=value, unit="ns")
        for name, value in added.items()
        if name in {"stamina", "backoff", "tenacity", "stamina block", BY_HAND}
    ]
    return figures
