"""Between what callers say about deliveries and the rows of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprieve.core.lifecycle import DeliveryStatus
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Sequence

    Values = tuple[Any, ...]


def of_begin(said: i.Begin) -> Values:
    """In the order of `BEGIN_COLUMNS`."""
    return (said.delivery_id, said.fence, said.event.value, said.now, said.until, said.not_before)


def of_end(said: i.End) -> Values:
    """In the order of `END_COLUMNS`."""
    return (
        said.delivery_id, said.fence, said.event.value, said.notification_id, said.notified_at, said.evidence,
        said.not_before, said.reason, *_of_attempt(said.attempt),
    )  # fmt: skip


def of_correction(said: i.Correct) -> Values:
    """In the order of `CORRECT_COLUMNS`."""
    return (said.delivery_id, said.fence, said.event.value, said.reason, *_of_attempt(said.attempt))


def of_drafts(said: i.Prepare) -> list[Values]:
    """Each in the order of `PREPARE_COLUMNS`."""
    return [
        (said.job_id, said.fence, said.changelist_id, each.recipient, said.review_version, each.sender, each.token,
         each.required, each.body, said.now)
        for each in said.drafts
    ]  # fmt: skip


def _of_attempt(attempt: i.DeliveryAttempt) -> Values:
    return (
        attempt.kind, attempt.number, attempt.started_at, attempt.ended_at, attempt.phase, attempt.answer,
        attempt.error_class, attempt.message, attempt.notification_id, attempt.actor,
    )  # fmt: skip


def record(row: Sequence[Any]) -> i.DeliveryRecord:
    """A row of the columns that `RECORD` names."""
    (delivery_id, job_id, changelist_id, recipient, review_version, sender, token, body, required, status, notification_id,
     notified_at, evidence, fence, attempts, lookups, first_sent_at, last_sent_at, leased_until, not_before, reason,
     created_at) = row  # fmt: skip
    return i.DeliveryRecord(
        delivery_id=delivery_id, job_id=job_id, changelist_id=changelist_id, recipient=recipient, review_version=review_version,
        sender=sender, token=token, body=body, required=bool(required), status=DeliveryStatus(status),
        notification_id=notification_id, notified_at=notified_at, evidence=evidence, fence=fence, attempts=attempts,
        lookups=lookups, first_sent_at=first_sent_at, last_sent_at=last_sent_at, leased_until=leased_until,
        not_before=not_before, reason=reason, created_at=created_at,
    )  # fmt: skip
