"""Workers that come, live, go, or are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.policy import Cause


@value
class Register:
    """A worker comes: it gets an id of its own, and its stages are known from now on."""

    name: str
    host: str
    pid: int
    stages: tuple[tuple[str, str], ...]
    now: float
    expires_at: float


@value
class Renew:
    """A worker lives; refused once its row is gone."""

    worker_id: int
    now: float
    expires_at: float
    stopping: bool = False


@value
class Renewed:
    """Whether the worker is still known, and which of its jobs are to be cancelled."""

    alive: bool
    cancel: tuple[int, ...] = ()


@value
class Leave:
    """A worker goes; it holds no leases any more."""

    worker_id: int


@value
class Lost:
    """A worker is known to be dead, or its lease to have run out: how it ended. It claims nothing from now on.

    Answered by whether it is lost now; the first report of how stands. False: it lives, or is unknown.
    """

    worker_id: int
    cause: Cause
    now: float
    seen: bool = True
    """False: judged by its lease alone: applies only while that has run out."""


@value
class LostWorker:
    """A worker that no longer renews, and whose jobs have to be taken over."""

    worker_id: int
    name: str
    host: str
    pid: int
    stopping: bool
    cause: Cause | None
    """None where nobody saw it die."""
    unheard: bool = False
    """The store came up only after its lease had run out: until then it could tell nobody that it lived, or was told to go."""
