"""What a sink is: told of alerts, and of their ends; what can be looked up about alerts; and their upkeep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.core.alerts import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a sink is told; sanitized, and the same on every try."""

    kind: str
    """raise or resolve."""
    dedup_key: str
    """The same for an alert and its end, and for no other alert."""
    level: Level
    title: str
    text: str
    data: dict[str, object]
    """For receivers that are programs."""
    at: float
    """When it came to be told."""


class Sink(Protocol):
    """Tells somebody; blocks nobody: whoever calls it waits no longer than `timeout`."""

    @property
    def name(self) -> str:
        """By which rows know it, also after a restart: stable, and without a secret in it."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds after which it is given up, to be tried again later."""
        ...

    async def tell(self, notice: Notice) -> None:
        """Hand it over; raises what went wrong. May be told the same twice after a crash: `dedup_key` says that it is one."""
        ...

    async def close(self) -> None:
        """Let go of connections; may be called twice, and be used again after."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """An alert as it stands."""

    alert_id: int
    rule: str
    key: str
    level: str
    summary: str
    source: str
    stage: str
    error_class: str
    over_when: str
    quiet: float
    count: int
    first_at: float
    last_at: float
    acked_by: str | None
    acked_at: float | None
    resolved_at: float | None
    resolved_by: str | None
    why: str | None

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.resolved_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """What one sink has been told of an alert, or has not."""

    sink: str
    kind: str
    attempts: int
    not_before: float
    created_at: float
    told_at: float | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    """Which alerts; None: all."""

    is_open: bool | None = True
    rule: str | None = None
    level: str | None = None
    source: str | None = None
    after: int | None = None
    """Older than this id: the cursor, as the newest come first."""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """An open alert whose condition has ended."""

    alert_id: int
    last_at: float
    why: str


class AlertReader(Protocol):
    """Everything that is looked up about alerts; blocking, for threads."""

    def close(self) -> None:
        """Let go of the database."""
        ...

    def alerts(self, wanted: AlertFilter) -> Sequence[AlertView]:
        """The newest first; page on with `after`."""
        ...

    def alert(self, alert_id: int) -> AlertView | None:
        """One, or None."""
        ...

    def notices(self, alert_id: int) -> Sequence[NoticeView]:
        """What its sinks have been told, in order."""
        ...

    def over(self, now: float) -> Sequence[Over]:
        """Open alerts whose condition has ended by itself."""
        ...

    def has_to_tell(self, now: float, sinks: Sequence[str]) -> bool:
        """Whether one of these sinks has something to be told now, or is not known yet."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsPruned:
    """What a pruning removed, or would."""

    alerts: int
    kept_for_sinks: int
    """Over for as long, but a sink that heard of it is still to be told so."""
    more: bool = False
    after: int = 0
    """Where to go on: the id of the last one that was looked at."""


class AlertKeeper(Protocol):
    """Upkeep of alerts; blocking, in small transactions."""

    def prune_sightings(self, *, oldest: float, limit: int, after: int = 0) -> int | None:
        """Of the next `limit`, remove those that are older, or whose alert has ended since: neither counts any more.

        Where to go on; None where there are no more.
        """
        ...

    def prune_alerts(self, *, before: float, now: float, limit: int, dry: bool, after: int = 0) -> AlertsPruned:
        """Of the next `limit`, remove those that were resolved before, with their notices; never one that is being told of."""
        ...
