"""Alerts: raised, weighed, acknowledged, resolved; and the notices by which sinks are told, an outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.alerts import Alarm, Level


@value
class Raise:
    """Open an alert, or count where one of this rule and key is open."""

    alarm: Alarm


@value
class Weigh:
    """The same, once more than so many have come within so many seconds; counted anew after the last one was resolved.

    Counted are failed attempts of the alarm's source, where `classes` are given at all, and what was sighted. Say it after
    what is to be counted is written, not with it: of two that are written at once, the later one sees both.
    """

    alarm: Alarm
    more_than: int
    within: float
    attempts: bool
    """Whether attempts of the pipeline that is the alarm's source are counted."""
    stage: str | None = None
    """Only those at this stage."""
    classes: tuple[str, ...] = ()
    """Only those of these error classes; empty: all."""
    sighted: bool = False
    """Whether this is one that stands in no table: it is written down, and counted."""


@value
class Raised:
    """The alert that is open now; None where it was not too many."""

    alert_id: int | None
    opened: bool
    """Whether it was not open before."""


@value
class Resolve:
    """End alerts that are open; answered by those that were."""

    actor: str
    why: str
    now: float
    alerts: tuple[tuple[int, float | None], ...] = ()
    """Each by its id, and when it last happened as the caller has seen it: what happened since keeps it open. None: whenever."""
    rule: str | None = None
    key: str | None = None
    """In place of ids."""


@value
class Resolved:
    """Which alerts have ended."""

    alerts: tuple[int, ...]


@value
class Acknowledge:
    """Somebody looks after an open alert; answered by whether it is open and nobody did before."""

    alert_id: int
    actor: str
    now: float


@value
class TakeNotices:
    """Make out what these sinks have yet to hear, and take what is due, until then.

    That is every alert that is open, and what has come and gone within a day, since the sink is known. A resolve is due only once its sink has heard of the alert. Whoever takes one that somebody took before and never ended
    has another fence.
    """

    sinks: tuple[str, ...]
    now: float
    until: float
    limit: int = 100
    makes_out: bool = True
    """Not where it was done a moment ago: it looks at all alerts that are open, and at those of a day that are not."""


@value
class NoticeRecord:
    """What one sink has to be told."""

    notice_id: int
    fence: int
    sink: str
    kind: str
    """raise or resolve."""
    attempts: int
    """This one included."""
    alert_id: int
    rule: str
    key: str
    level: Level
    summary: str
    source: str
    stage: str
    error_class: str
    count: int
    first_at: float
    last_at: float
    resolved_at: float | None
    resolved_by: str | None
    why: str | None


@value
class NoticesTaken:
    """What is to be told now."""

    notices: tuple[NoticeRecord, ...]


@value
class Told:
    """What came of telling it; guarded by the fence."""

    notice_id: int
    fence: int
    now: float
    error: str | None = None
    """Sanitized; None: the sink has heard it."""
    not_before: float | None = None
    """With an error: when to try again."""
