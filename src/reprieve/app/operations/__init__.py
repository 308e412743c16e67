"""What an operator can see and do: one service a noun, every change with its actor; all faces use these and nothing else.

jobs.py           look, cancel, prune, erase
dead_letters.py   look, triage, remediate, approve, replay, verify, resolve, escalate, discard, reopen, note, prune
alerts.py         look, acknowledge, resolve, tell now, try every sink, prune
deliveries.py     look, ask the provider, resend, confirm, give up
reviews.py        look, claim, verify, reject, undo; ask skipped signatures again; prune, erase
campaigns.py      replay whole groups: start, look, watch, pause, resume, cancel
stages.py         look, pause, resume
database.py       whether the tables fit and nothing is orphaned; upgrading
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.app.operations.alerts import AlertOperations
from reprieve.app.operations.asking import everybody
from reprieve.app.operations.campaigns import CampaignOperations
from reprieve.app.operations.database import DatabaseOperations
from reprieve.app.operations.dead_letters import DeadLetterOperations
from reprieve.app.operations.deliveries import DeliveryOperations
from reprieve.app.operations.jobs import JobOperations
from reprieve.app.operations.reviews import ReviewOperations
from reprieve.app.operations.settling import Settler
from reprieve.app.operations.stages import StageOperations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.app.operations.asking import MayOverride, OpenJournal, Upkeep
    from reprieve.ports.alerting import AlertReader, Sink
    from reprieve.ports.clock import Clock
    from reprieve.ports.dead_letters import DeadLetterReader
    from reprieve.ports.deliveries import DeliveryReader
    from reprieve.ports.reader import Reader
    from reprieve.ports.reviews import ReviewReader

__all__ = [
    "AlertOperations",
    "CampaignOperations",
    "DatabaseOperations",
    "DeadLetterOperations",
    "DeliveryOperations",
    "JobOperations",
    "Operations",
    "ReviewOperations",
    "StageOperations",
]


@dataclass(frozen=True, slots=True)
class Operations:
    """All services, by noun."""

    jobs: JobOperations
    dead_letters: DeadLetterOperations
    campaigns: CampaignOperations
    deliveries: DeliveryOperations
    alerts: AlertOperations
    reviews: ReviewOperations
    stages: StageOperations
    database: DatabaseOperations

    @classmethod
    def over(  # noqa: PLR0913 - a table of parts
        cls,
        reader: Reader,
        letters: DeadLetterReader,
        deliveries: DeliveryReader,
        reviews: ReviewReader,
        keeper: Upkeep,
        journal: OpenJournal,
        *,
        alerts: Callable[[], AlertReader],
        sinks: Callable[[], Sequence[Sink]],
        clock: Clock,
        may_override: MayOverride | None = None,
    ) -> Operations:
        """Build them; `journal` is asked for only when something is to be changed. Everybody may override unless that is said."""
        settle = Settler(letters, journal)
        may = everybody if may_override is None else may_override
        return cls(
            jobs=JobOperations(reader, keeper, journal, settle=settle, clock=clock),
            dead_letters=DeadLetterOperations(
                reader, letters, keeper, journal, settle=settle, clock=clock, may_override=may
            ),
            campaigns=CampaignOperations(letters, journal, settle=settle, clock=clock, may_override=may),
            deliveries=DeliveryOperations(deliveries, journal, clock=clock),
            alerts=AlertOperations(alerts, keeper, journal, sinks=sinks, clock=clock),
            reviews=ReviewOperations(reviews, keeper, journal, clock=clock),
            stages=StageOperations(reader, journal),
            database=DatabaseOperations(reader, keeper),
        )
