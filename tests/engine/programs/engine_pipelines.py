"""Pipelines whose stages write down what they do, in a file that no database knows of, and fail by script."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx

import reprieve
from reprieve import Backoff, Breaker, Cause, Policy, Profile

QUICK = Profile(
    name="quick",
    policy=Policy(max_attempts=5, backoff=Backoff(initial=0.01, maximum=0.04)),
    # A campaign kills more often than any budget allows for; what the budgets do is tested apart.
    budgets=dict.fromkeys((Cause.CRASH, Cause.OUT_OF_MEMORY, Cause.LOST_LEASE, Cause.DEPLOY), 32_767),
)
USUAL = Profile(name="usual", policy=Policy(max_attempts=5, backoff=Backoff(initial=0.01, maximum=0.04)))
STRICT = Profile(name="strict", policy=USUAL.policy, budgets={Cause.CRASH: 1})

_numbers = itertools.count(1)
_file: list[int] = []
_path: list[str] = []


class Line(NamedTuple):
    """One thing that a stage did."""

    what: str
    job: int
    stage: str
    attempt: int
    pid: int
    run: str
    given: str
    moment: float


def write_to(path: str) -> None:
    """Where the stages of this process write; every line is one write at the end of the file."""
    _file[:] = [os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)]
    _path[:] = [path]


def read(path: Path) -> list[Line]:
    """All lines, in the order in which they were written, whichever process wrote them."""
    return [Line(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def note(what: str, job: reprieve.Job[Work], run: str, given: str = "") -> None:
    """Write a line."""
    line = Line(what, job.id, job.stage, job.attempt, os.getpid(), run, given, time.time())
    os.write(_file[0], json.dumps(line).encode() + b"\n")


@dataclass
class Work:
    """What the stages of a job do: by stage, one act an attempt; after the last act they succeed."""

    acts: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0
    url: str = ""
    remembers: bool = False


def act_of(job: reprieve.Job[Work]) -> str:
    acts = job.payload.acts.get(job.stage, [])
    act = acts[job.attempt - 1] if job.attempt <= len(acts) else "succeed"
    if act == "unless_mended":  # a file says that the cause is gone
        return "succeed" if Path(f"{_path[0]}.mended").exists() else "refuse"
    return act


def fail(act: str) -> None:
    """The acts that are the same in every kind of stage."""
    match act:
        case "fail":
            raise reprieve.Retryable("as the script says")
        case "refuse":
            raise reprieve.Permanent("as the script says")
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "leave":
            raise SystemExit(4)
        case "kill":  # as the system does when it runs out of memory
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            raise MemoryError
        case "block":
            time.sleep(job_blocks)
        case _:
            pass


job_blocks = 2.0
"""Seconds for which a stage stops its event loop: longer than the leases of these tests."""


async def perform(job: reprieve.Job[Work], given: str = "") -> str:
    """A stage: says that it begins, does what the script says, and returns the name of this very run."""
    run = f"{os.getpid()}.{next(_numbers)}"
    note("begin", job, run, given)
    act = act_of(job)
    try:
        if act == "stubborn":
            await _stubborn(job.payload.seconds)
        elif act == "block_once":
            time.sleep(job.payload.seconds if _is_first(job) else 0.0)  # noqa: ASYNC251 - to stop the event loop is what it is for
        elif act == "once":  # slow, but only the first time
            await asyncio.sleep(job.payload.seconds if _is_first(job) else 0.0)
        elif act == "hang":
            await asyncio.sleep(3600)
        else:
            await asyncio.sleep(job.payload.seconds)
        if act == "get":
            await _get(job.payload.url)
        if job.payload.remembers:
            await job.remember("part", lambda: note("make", job, run))
            note("keep", job, run)
    except asyncio.CancelledError:
        note("cancel", job, run)
        raise
    except Exception:
        note("fail", job, run)
        raise
    if act in {"fail", "refuse", "memory", "leave"}:
        note("fail", job, run)
    fail(act)
    note("end", job, run)
    return run


def _is_first(job: reprieve.Job[Work]) -> bool:
    seen = [line for line in read(Path(_path[0])) if line.job == job.id and line.what == "begin"]
    return len(seen) == 1


async def _stubborn(seconds: float) -> None:
    """Take no notice of being cancelled."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


_clients: list[httpx.AsyncClient] = []


async def _get(url: str) -> None:
    if not _clients:
        _clients.append(httpx.AsyncClient(timeout=5.0, trust_env=False))
    answer = await _clients[0].get(url)
    answer.raise_for_status()


def three_stages(name: str, profile: Profile, breaker: Breaker | None) -> reprieve.Pipeline:
    pipeline = reprieve.Pipeline(name, profile=profile, breaker=breaker)

    @pipeline.stage
    async def fetch(job: reprieve.Job[Work]) -> str:
        return await perform(job)

    @pipeline.stage
    async def llm(job: reprieve.Job[Work], fetch: str) -> str:
        return await perform(job, fetch)

    @pipeline.stage
    async def notify(job: reprieve.Job[Work], llm: str) -> str:
        return await perform(job, llm)

    return pipeline


campaign = three_stages("campaign", QUICK, None)
usual = three_stages("usual", USUAL, None)
strict = three_stages("strict", STRICT, None)
outage = three_stages("outage", USUAL, Breaker(first_hold=0.5, longest_hold=2.0))
long_outage = three_stages("long_outage", USUAL, Breaker())

plain = reprieve.Pipeline("plain", profile=USUAL, breaker=None)


@plain.stage
def block(job: reprieve.Job[Work]) -> str:
    """A plain function that nobody can interrupt; looks now and then whether it is wanted still."""
    run = f"{os.getpid()}.{next(_numbers)}"
    note("begin", job, run)
    end = time.monotonic() + job.payload.seconds
    deaf = act_of(job) == "deaf"
    while time.monotonic() < end and (deaf or not job.cancelled):
        time.sleep(0.01)
    note("cancel" if job.cancelled else "end", job, run)
    return run


PIPELINES = {each.name: each for each in (campaign, usual, strict, outage, long_outage, plain)}
