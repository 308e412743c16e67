"""Leasing jobs to a worker, and making ready what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value
from reprieve.ports.intents.states import CODEC_JSON, Counters

if TYPE_CHECKING:
    from collections.abc import Mapping


@value
class Claim:
    """Lease up to `capacity` jobs: higher priority first, then the lower id; none to a worker that was given up."""

    worker_id: int
    capacity: int
    stages: Mapping[tuple[str, str], int]
    """The (pipeline, stage) pairs that the worker knows, with the most jobs that it can take of each."""
    now: float
    suspects: bool = False
    """Take one suspect, to run it alone, in place of ready ones."""
    probe: bool = False
    """Take it although the stage's breaker is open: the caller holds the probe."""
    holding: frozenset[int] | None = None
    """After a claim whose outcome is unknown: the jobs that the worker knows it has; others leased to it are returned first."""


@value
class StoredResult:
    """What a stage left behind."""

    stage: str
    data: bytes
    type: str
    codec: int = CODEC_JSON


@value
class Lease:
    """A claimed job: all that is needed to run its stage."""

    job_id: int
    fence: int
    pipeline: str
    stage: str
    idempotency_key: str
    payload: bytes | None
    """None once erased."""
    payload_type: str
    created_at: float
    priority: int = 0
    subject: str | None = None
    version: int | None = None
    counters: Counters = Counters()
    opened_at: float | None = None
    """When the first attempt of this stage began; None if this is the first."""
    leased_at: float | None = None
    """When it was claimed; told of what others hold."""
    alone: bool = False
    results: tuple[StoredResult, ...] = ()
    """Of the stages before, in the order they were written."""


@value
class Claimed:
    """What a claim got."""

    leases: tuple[Lease, ...]
    suspects: bool = False
    """There are suspects that this worker could run alone."""


@value
class Promote:
    """Make scheduled jobs ready whose time has come; suspects where a worker died on them."""

    now: float
    limit: int = 1000


@value
class Promoted:
    """How many became ready, and when the next one is due."""

    count: int
    next_due: float | None
