"""Deliveries at a desk: what can be said about them, with values that do not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, update

from reprieve.adapters.sql import tables
from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 1_700_000_000.0


def draft(recipient: str = "mailto:ada@example.org", **values: Any) -> i.Draft:
    defaults = {"sender": "mail", "token": f"token-of-{recipient}", "body": b'{"text":"hello"}', "required": True}
    return i.Draft(recipient=recipient, **(defaults | values))


def prepare(job_id: int, fence: int = 1, *drafts: i.Draft, **values: Any) -> i.Prepare:
    defaults = {"changelist_id": "cl-1", "review_version": 1, "now": NOW}
    return i.Prepare(job_id=job_id, fence=fence, drafts=drafts or (draft(),), **(defaults | values))


def begin(delivery_id: int = 1, fence: int = 0, **values: Any) -> i.Begin:
    defaults = {"event": DeliveryEvent.BEGIN, "now": NOW, "until": NOW + 30, "not_before": NOW + 40}
    return i.Begin(delivery_id=delivery_id, fence=fence, **(defaults | values))


def look(delivery_id: int = 1, fence: int = 0, **values: Any) -> i.Begin:
    return begin(delivery_id, fence, **({"event": DeliveryEvent.LOOK} | values))


def tried(**values: Any) -> i.DeliveryAttempt:
    defaults = {
        "kind": "send", "number": 1, "started_at": NOW, "ended_at": NOW + 2, "phase": None, "answer": "accepted",
        "message": "250 ok",
    }  # fmt: skip
    return i.DeliveryAttempt(**(defaults | values))


def end(delivery_id: int = 1, fence: int = 1, event: DeliveryEvent = DeliveryEvent.ACCEPT, **values: Any) -> i.End:
    return i.End(delivery_id=delivery_id, fence=fence, event=event, **({"attempt": tried()} | values))


def accepted(delivery_id: int = 1, fence: int = 1, **values: Any) -> i.End:
    return end(delivery_id, fence, **({"notification_id": "<1@mail>", "notified_at": NOW + 2} | values))


def correct(
    delivery_id: int = 1, fence: int = 0, event: DeliveryEvent = DeliveryEvent.RESEND, **values: Any
) -> i.Correct:
    defaults = {"attempt": tried(kind=event.value, answer="done", actor="ann"), "reason": "asked her"}
    return i.Correct(delivery_id=delivery_id, fence=fence, event=event, **(defaults | values))


MARKED = frozenset({DeliveryStatus.SENT, DeliveryStatus.HELD})
"""Where the marks of a send may stand without contradiction."""


class Outbox:
    """A desk with a table of deliveries, which tests fill as they like."""

    def __init__(self, desk: Any) -> None:
        self.desk = desk

    def put(self, status: DeliveryStatus = DeliveryStatus.PENDING, **values: Any) -> int:
        """A row; its id."""
        number = len(self.rows()) + 1
        defaults = {
            "job_id": 1, "changelist_id": "cl-1", "recipient": f"mailto:{number}@example.org", "review_version": 1,
            "sender": "mail", "token": f"token-{number}", "required": True, "status": status.value, "body": b"{}",
            "created_at": NOW, "changed_at": NOW,
            "notified_at": NOW if status is DeliveryStatus.SENT else None,
        }  # fmt: skip
        table = tables.deliveries
        with self.desk._engine.begin() as connection:
            return int(connection.scalar(insert(table).values(**(defaults | values)).returning(table.c.id)))

    def change(self, delivery_id: int, **values: Any) -> None:
        with self.desk._engine.begin() as connection:
            connection.execute(update(tables.deliveries).where(tables.deliveries.c.id == delivery_id).values(**values))

    def prepared(self, *recipients: str) -> Sequence[i.DeliveryRecord]:
        """Rows of a leased job."""
        lease = self.desk.lease()
        return self.desk.do(prepare(lease.job_id, lease.fence, *[draft(each) for each in recipients])).rows

    def rows(self) -> list[dict[str, Any]]:
        return self.desk.rows("deliveries")

    def row(self, delivery_id: int = 1) -> dict[str, Any]:
        return self.desk.row("deliveries", id=delivery_id)

    def log(self, delivery_id: int = 1) -> list[dict[str, Any]]:
        return self.desk.rows("delivery_attempts", delivery_id=delivery_id)

    def status(self, delivery_id: int = 1) -> DeliveryStatus:
        return DeliveryStatus(self.row(delivery_id)["status"])
