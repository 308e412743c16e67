"""What a guarded call costs above the bare SDK's, and Instructor beside it, on the same answers over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from harness import Effort, Figure, medians, overheads, per_await, take_turns
from reprieve import guarded
from reprieve.models import OpenAI, Prompt, Reply
from sample import median_costs, sized

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from reprieve.models import Model
    from sample import SampleOptions

    Ask = Callable[[], Awaitable[object]]

OURS, BARE, INSTRUCTOR = "guarded", "the bare SDK", "instructor"
FITS, REPAIRED = "an answer that fits", "an answer that is mended"
CALLS_OF_A_SLICE = 20
KEY = "key-of-the-bench"
QUESTION = "What do you make of this change?"


class Finding(BaseModel):
    """One remark on a change."""

    path: str
    line: int
    severity: Literal["low", "medium", "high"]
    comment: str


class Review(BaseModel):
    """What a model is asked for."""

    verdict: Literal["good", "bad"]
    findings: list[Finding]


def answer(*, fits: bool) -> str:
    """A review with ten remarks; or one whose last remark has no line."""
    findings = [
        {"path": f"src/module_{number}.py", "line": number, "severity": "low", "comment": "Say why. " * 5}
        for number in range(1, 11)
    ]
    if not fits:
        del findings[-1]["line"]
    return json.dumps({"verdict": "good", "findings": findings})


def serve() -> None:
    """Answer in a process of its own, whose work is nobody's cost: under /twice the first answer does not fit."""
    from reprieve.testing import Answering, FlakyHTTP, replies  # noqa: PLC0415 - for this process alone

    good, misfit = (replies.openai.completion(answer(fits=fits)) for fits in (True, False))

    def mended(request: Any) -> Any:  # noqa: ANN401 - of the upstream
        return good if any(each["role"] == "assistant" for each in request.json()["messages"]) else misfit

    with FlakyHTTP() as upstream:
        upstream.always(good, path="/once/chat/completions")
        upstream.always(Answering(mended), path="/twice/chat/completions")
        print(upstream.url("/"), flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def upstream() -> Iterator[str]:
    """The address of that process."""
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def with_instructor(sdk: Any) -> Ask | None:  # noqa: ANN401 - the SDK's client
    """Instructor over the SDK, reading JSON from the answer as the guard does; None where it is not installed."""
    try:
        instructor: Any = importlib.import_module("instructor")
    except ModuleNotFoundError:
        return None
    client = instructor.from_openai(sdk, mode=instructor.Mode.JSON)

    async def ask() -> object:
        messages = [{"role": "user", "content": QUESTION}]
        return await client.chat.completions.create(model="m", messages=messages, response_model=Review, max_retries=2)

    return ask


def sdk_at(address: str) -> Any:  # noqa: ANN401 - the SDK's client
    """A client of the SDK without retries of its own."""
    openai: Any = importlib.import_module("openai")
    return openai.AsyncOpenAI(api_key=KEY, base_url=address, max_retries=0)


def with_nothing(client: Any, times: int) -> Ask:  # noqa: ANN401 - the SDK's client
    """The SDK alone: nothing is read from the answer."""

    async def ask() -> object:
        for _ in range(times):
            found = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": QUESTION}])
        return found

    return ask


def with_ours(model: Model) -> Ask:
    """The guard."""
    prompt = Prompt.of(QUESTION)

    async def ask() -> object:
        return (await guarded(model, prompt, schema=Review)).value

    return ask


class AtHand:
    """A model without a wire: what is left is the guard itself."""

    name = "at hand"

    def __init__(self, *, fits: bool) -> None:
        self._first, self._second = answer(fits=fits), answer(fits=True)

    async def ask(self, prompt: Prompt, *, schema: object = None, timeout: float = 0.0) -> Reply:  # noqa: ASYNC109 - the port's
        """Answer at once."""
        _ = schema, timeout
        return Reply(text=self._first if len(prompt.turns) == 1 else self._second)

    async def close(self) -> None:
        """Nothing is open."""


def alone(calls: int, rounds: int) -> list[Figure]:
    """The guard without a client below it."""
    asks = {FITS: with_ours(AtHand(fits=True)), REPAIRED: with_ours(AtHand(fits=False))}
    turns = {what: lambda ask=ask: asyncio.run(per_await(ask, calls)) for what, ask in asks.items()}
    take_turns(turns, 1)
    middle = medians(take_turns(turns, rounds))
    return [Figure(name=f"{what}, the guard alone", value=value, unit="ns") for what, value in middle.items()]


async def measured(address: str, times: int, calls: int, rounds: int) -> dict[str, list[float]]:
    """Nanoseconds of the processor for each call, round by round; `times` is how often the SDK is asked for one answer."""
    async with sdk_at(address) as bare, sdk_at(address) as below:
        model = OpenAI("m", base_url=address, api_key=KEY)
        candidates = {BARE: with_nothing(bare, times), OURS: with_ours(model)}
        if (peer := with_instructor(below)) is not None:
            candidates[INSTRUCTOR] = peer
        samples: dict[str, list[float]] = {name: [] for name in candidates}
        for turn in range(rounds + 1):
            for name, ask in candidates.items():
                taken = await per_await(ask, calls)
                if turn:  # the first is to warm up: connections are made, types are compiled
                    samples[name].append(taken)
        await model.close()
    return samples


def figures_of(what: str, samples: dict[str, list[float]]) -> list[Figure]:
    """Ours beside the SDK as a whole; what is added to it, beside what Instructor adds."""
    middle, added = medians(samples), overheads(samples, BARE)
    found = [
        Figure(name=f"{what}, guarded", value=middle[OURS], unit="ns", peer=BARE, peer_value=middle[BARE]),
        Figure(name=f"{what}, added by the guard", value=added[OURS], unit="ns"),
    ]
    if INSTRUCTOR in added:
        value, peers = added[OURS], added[INSTRUCTOR]
        name = f"{what}, added, beside Instructor"
        found.append(Figure(name=name, value=value, unit="ns", peer=INSTRUCTOR, peer_value=peers, at_most=1.0))
    return found


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the nanoseconds of a guarded call without a wire, and over the SDK."""
    asks = {FITS: with_ours(AtHand(fits=True)), REPAIRED: with_ours(AtHand(fits=False))}
    alone = {f"{what}, the guard alone": sized(partial(_per_await, ask)) for what, ask in asks.items()}
    costs = median_costs(alone, asked.seconds / 2)
    with upstream() as address:
        over_the_sdk = asyncio.run(_over_the_sdk(address, asked.seconds / 2))
    return costs | medians(over_the_sdk)


def _per_await(ask: Ask, calls: int) -> float:
    return asyncio.run(per_await(ask, calls))


async def _over_the_sdk(address: str, seconds: float) -> dict[str, list[float]]:
    """Measure slices of calls in turns, on connections that stay open."""
    models = {
        f"{what}, guarded": OpenAI("m", base_url=f"{address}{path}", api_key=KEY)
        for what, path in ((FITS, "once"), (REPAIRED, "twice"))
    }
    asks = {name: with_ours(model) for name, model in models.items()}
    for ask in asks.values():
        await per_await(ask, CALLS_OF_A_SLICE)  # warm up: connections are made, types are compiled
    samples: dict[str, list[float]] = {name: [] for name in asks}
    until = time.monotonic() + seconds
    while not all(samples.values()) or time.monotonic() < until:
        for name, ask in asks.items():
            samples[name].append(await per_await(ask, CALLS_OF_A_SLICE))
    for model in models.values():
        await model.close()
    return samples


def run(effort: Effort) -> list[Figure]:
    """Measure answers that fit, and answers that have to be mended once, where the SDK alone is asked twice."""
    calls, figures = max(5, effort.calls // 200), alone(max(20, effort.calls // 20), effort.rounds)
    with upstream() as address:
        for what, path, times in ((FITS, "once", 1), (REPAIRED, "twice", 2)):
            samples = asyncio.run(measured(f"{address}{path}", times, calls, effort.rounds))
            figures += figures_of(what, samples)
    return figures


if __name__ == "__main__":
    serve()
