"""What can be looked up about deliveries; recipients are shown, bodies only to those who ask for this very thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.core.lifecycle import DeliveryStatus
    from reprieve.ports.intents import DeliveryAttempt, DeliveryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries; None or empty: all."""

    statuses: frozenset[DeliveryStatus] = frozenset()
    job_id: int | None = None
    changelist_id: str | None = None
    recipient: str | None = None
    sender: str | None = None
    senders: frozenset[str] | None = None
    """Any of these; empty: none."""
    after: int | None = None
    """Older than this id: the cursor, as the newest come first."""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryDetail:
    """A delivery with everything that was tried."""

    row: DeliveryRecord
    """Without its body."""
    attempts: Sequence[DeliveryAttempt]


class DeliveryReader(Protocol):
    """Everything that is looked up about deliveries; blocking, for threads."""

    def close(self) -> None:
        """Let go of the database."""
        ...

    def deliveries(self, wanted: DeliveryFilter) -> Sequence[DeliveryRecord]:
        """The newest first, without bodies; page on with `after`."""
        ...

    def delivery(self, delivery_id: int) -> DeliveryDetail | None:
        """One, with its attempts."""
        ...

    def body(self, delivery_id: int) -> bytes | None:
        """What was frozen: to send it, or for those who ask for this very thing."""
        ...

    def due(self, *, now: float, senders: frozenset[str], limit: int) -> Sequence[DeliveryRecord]:
        """What a sweep has to look at now, with bodies, the longest due first; no row that is not settled escapes it.

        Those in sending, uncertain or reconciling whose lease and `not_before` are over; those that claim to be sent
        without evidence; those that are pending though their job has succeeded, or waits for others of its own, unless a
        replay has put them back: those are sent by their job, or by nobody. Those that a person has put back, however
        their job has ended.
        """
        ...

    def orphaned(self, *, before: float, senders: frozenset[str], limit: int) -> Sequence[DeliveryRecord]:
        """What would be due, of any sender but these, and has been left alone since before then; without bodies."""
        ...

    def abandoned(self, *, limit: int) -> Sequence[DeliveryRecord]:
        """Pending ones whose job was cancelled, skipped or pruned, its dead letter closed, or its replay has done without.

        None that a person has put back since, unless its body is gone.
        """
        ...

    def unserved(self, job_id: int) -> Mapping[DeliveryStatus, int]:
        """How many required recipients of a job have not been told, by status; none that a corrected payload left out."""
        ...
