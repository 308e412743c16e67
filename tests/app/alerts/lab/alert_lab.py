"""A sink that remembers, fails and hangs as told; and an application that has it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import reprieve
from reprieve.ports.alerting import AlertFilter

EVERYTHING = AlertFilter(is_open=None)


class Ear:
    """Hears what it is told, unless it is to fail."""

    def __init__(self, name="ear", *, timeout=30.0):
        self.name, self.timeout = name, timeout
        self.heard, self.errors = [], []
        self.hangs = False
        self.closed = 0

    async def tell(self, notice):
        if self.hangs:
            await asyncio.Event().wait()
        if self.errors:
            raise self.errors.pop(0)
        self.heard.append(notice)

    async def close(self):
        self.closed += 1

    def said(self):
        return [(each.kind, each.data["rule"], each.data["key"]) for each in self.heard]


def failing(error, *, profile="criticizer"):
    """A pipeline whose only stage raises this."""
    pipeline = reprieve.Pipeline("review", profile=profile, breaker=None)

    @pipeline.stage
    async def llm(job: reprieve.Job[int]) -> int:
        raise error

    return pipeline


@asynccontextmanager
async def opened(url, *sinks, **options):
    async with reprieve.connect(url, alerts=list(sinks), **options) as app:
        yield app


async def alerts_of(app, wanted=EVERYTHING):
    """All alerts, the oldest first."""
    return list(reversed(await app.operations.alerts.list(wanted)))


async def eventually(true, *, within=60.0):
    """Wait for something that another task does; its value."""
    async with asyncio.timeout(within):
        while not (value := true()):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        return value
