"""Checked by mypy, never run: the types that `Pipeline` and `Job` promise."""

import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import reprieve
from reprieve.app.pipeline import Stage
from reprieve.app.pipeline.finding import load_pipelines
from reprieve.app.pipeline.job import Memory
from reprieve.app.pipeline.values import TypeCodec


@dataclasses.dataclass
class Change:
    number: int


@dataclasses.dataclass
class Diff:
    text: str


review = reprieve.Pipeline("review", profile="criticizer", breaker=reprieve.Breaker(after=3))


@review.stage
async def fetch(job: reprieve.Job[Change]) -> Diff:
    assert_type(job.payload, Change)
    assert_type(job.payload.number, int)
    assert_type(job.token, str)
    assert_type(job.subject, str)
    assert_type(job.version, int)
    return Diff("")


@review.stage(timeout=60, idempotent=True, was=("ask",), profile=reprieve.Policy(max_attempts=3))
async def llm(job: reprieve.Job[Change], diff: Diff, *, words: int = 5) -> str:
    assert_type(await job.remember("a", lambda: fetch(job), type=Diff), Diff)
    assert_type(await job.remember("b", lambda: Diff("x"), type=Diff), Diff)
    assert_type(await job.remember("c", lambda: [1], type=list[int]), list[int])
    assert_type(await job.remember("d", lambda: 1), Any)
    assert_type(await job.remember("e", lambda: 1, type=int | None), Any)
    return ""


@review.stage(isolate="process", timeout=5, concurrency=2)
def notify(job: reprieve.Job[Change], fetch: Diff, llm: str) -> None:
    assert_type(job.remember_blocking("a", lambda: 1, type=int), int)
    assert_type(job.remember_blocking("a", lambda: 1), Any)
    assert_type(job.cancelled, bool)


asynchronous: Callable[[reprieve.Job[Change]], Coroutine[Any, Any, Diff]] = fetch
notify(reprieve.Job(Change(1)), Diff(""), "")
notify(reprieve.Job(Change(1)), Diff(""), 5)  # type: ignore[arg-type]  # the signature survives
notify(reprieve.Job(Diff("")), Diff(""), "")  # type: ignore[arg-type]  # of another payload


async def awaited() -> None:
    assert_type(await fetch(reprieve.Job(Change(1))), Diff)
    assert_type(await llm(reprieve.Job(Change(1)), Diff(""), words=3), str)
    await llm(reprieve.Job(Change(1)), Diff(""), words="x")  # type: ignore[arg-type]  # the same


@review.stage  # type: ignore[type-var]  # the first parameter is the job
def without_a_job(diff: Diff) -> None: ...


review.stage(timout=5)  # type: ignore[call-overload]  # a misspelt option
review.stage(isolate="thread")  # type: ignore[call-overload]  # no such thing


@review.upgrade("fetch")
def upgraded(old: Any) -> Diff:
    return Diff(old["text"])


assert_type(upgraded(None), Diff)
assert_type(review.stages, tuple[Stage, ...])
assert_type(review.find("fetch"), Stage | None)
assert_type(review.keys(), list[tuple[str, str]])
assert_type(review.payload, TypeCodec[Any])
assert_type(load_pipelines("reviews:review"), dict[str, reprieve.Pipeline])

base: reprieve.Job[object] = reprieve.Job(Change(1))  # a job of a Change is a job of an object


class Shelf:
    def __init__(self, memory: Memory) -> None:
        self.loop = memory.loop

    async def load(self) -> dict[str, bytes]:
        return {}

    async def keep(self, key: str, value: bytes) -> None: ...


def kept(memory: Memory) -> reprieve.Job[None]:
    return reprieve.Job(None, memory=Shelf(memory), fresh=True)
