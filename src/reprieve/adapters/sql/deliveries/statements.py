"""What is written about deliveries, once for both dialects; which event leads where stands in `DELIVERY_TRANSITIONS` alone.

PostgreSQL is handed a whole batch as a table `g` of arrays, SQLite one row after another by the names of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from reprieve.core.lifecycle import DELIVERY_TRANSITIONS, DeliveryEvent, DeliveryStatus
from reprieve.ports.intents import DeliveryAttempt, DeliveryRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ROW: Final = {"id": "bigint", "fence": "bigint", "event": "text"}
_ATTEMPT: Final = {
    "attempt_kind": "text", "attempt_number": "int", "started_at": "moment", "ended_at": "moment", "attempt_phase": "text?",
    "attempt_answer": "text", "attempt_error_class": "text?", "attempt_message": "text", "attempt_notification_id": "text?",
    "attempt_actor": "text",
}  # fmt: skip
BEGIN_COLUMNS: Final = {**_ROW, "now": "moment", "until": "moment", "not_before": "moment?"}
END_COLUMNS: Final = {
    **_ROW, "notification_id": "text?", "notified_at": "moment?", "evidence": "text?", "not_before": "moment?",
    "reason": "text?", **_ATTEMPT,
}  # fmt: skip
CORRECT_COLUMNS: Final = {**_ROW, "reason": "text", **_ATTEMPT}
PREPARE_COLUMNS: Final = {
    "job_id": "bigint", "fence": "bigint", "changelist_id": "text", "recipient": "text", "review_version": "int",
    "sender": "text", "token": "text", "required": "flag", "body": "bytes", "now": "moment",
}  # fmt: skip
"""What a statement is told of each row, and of which kind it is."""

_LOGGED: Final = ", ".join(field.name for field in fields(DeliveryAttempt))
RECORD: Final = tuple("id" if field.name == "delivery_id" else field.name for field in fields(DeliveryRecord))
"""The columns of which a `DeliveryRecord` is made, in its order."""

_BEGINS: Final = (DeliveryEvent.BEGIN, DeliveryEvent.LOOK)
_ENDS: Final = (
    DeliveryEvent.ACCEPT, DeliveryEvent.PUT_OFF, DeliveryEvent.REFUSE, DeliveryEvent.DOUBT, DeliveryEvent.FIND,
    DeliveryEvent.MISS, DeliveryEvent.HOLD,
)  # fmt: skip
_CORRECTIONS: Final = (
    DeliveryEvent.CONFIRM, DeliveryEvent.RESEND, DeliveryEvent.GIVE_UP, DeliveryEvent.HOLD, DeliveryEvent.LOOK,
)  # fmt: skip
_IN_DOUBT: Final = "('sending', 'uncertain', 'reconciling', 'held')"
"""What a job waits for."""


@dataclass(frozen=True, slots=True)
class Given:
    """The rows that a statement is said of."""

    columns: Mapping[str, str]
    table: str | None = None
    """What `g` is; None: one row, its values by their names."""

    def __getitem__(self, name: str) -> str:
        """A value of a row."""
        if self.table is None:
            return f":{name}"
        return f"to_timestamp(g.{name})" if self.columns[name].startswith("moment") else f"g.{name}"

    @property
    def source(self) -> str:
        """Where an UPDATE takes them from."""
        return "" if self.table is None else f"FROM {self.table}"

    @property
    def beside(self) -> str:
        """Where a SELECT takes them from, beside another table."""
        return "" if self.table is None else f", {self.table}"

    def among(self, column: str) -> str:
        """The same once more, said of all rows at once: with empty tables in mind a planner would read all of one to join it."""
        return "" if self.table is None else f"AND {column} = ANY(%b::bigint[])"

    @property
    def place(self) -> str:
        """Which of them it was."""
        return "1" if self.table is None else "g.place"


def _after(g: Given, events: Iterable[DeliveryEvent]) -> str:
    """What a delivery is after the event; NULL where that may not happen to it."""
    ways: dict[tuple[DeliveryEvent, DeliveryStatus], list[str]] = {}
    for (before, event), after in DELIVERY_TRANSITIONS.items():
        if event in events:
            ways.setdefault((event, after), []).append(f"'{before}'")
    arms = [
        f"WHEN {g['event']} = '{event}' AND d.status IN ({', '.join(befores)}) THEN '{after}'"
        for (event, after), befores in ways.items()
    ]
    return f"CASE {' '.join(arms)} END"


def _clears(g: Given, events: Iterable[DeliveryEvent]) -> str:
    """Whether the delivery is to be sent again, so that nothing may say that it was."""
    cleared = {event for (_, event), after in DELIVERY_TRANSITIONS.items() if after is DeliveryStatus.PENDING}
    named = ", ".join(f"'{event}'" for event in events if event in cleared)
    return f"{g['event']} IN ({named})"


def begin(g: Given) -> str:
    """Take deliveries for a send or a look-up."""
    after = _after(g, _BEGINS)
    sends = f"{g['event']} = '{DeliveryEvent.BEGIN}'"
    return f"""
    UPDATE deliveries AS d
    SET status = {after}, fence = d.fence + 1, leased_until = {g["until"]}, not_before = {g["not_before"]}, changed_at = {g["now"]},
      attempts = d.attempts + CASE WHEN {sends} THEN 1 ELSE 0 END,
      first_sent_at = CASE WHEN {sends} THEN COALESCE(d.first_sent_at, {g["now"]}) ELSE d.first_sent_at END,
      last_sent_at = CASE WHEN {sends} THEN {g["now"]} ELSE d.last_sent_at END,
      lookups = CASE WHEN {sends} THEN 0 ELSE d.lookups END
    {g.source}
    WHERE d.id = {g["id"]} AND d.fence = {g["fence"]} AND (d.leased_until IS NULL OR d.leased_until <= {g["now"]})
      AND {after} IS NOT NULL {g.among("d.id")}
    """  # noqa: S608 - assembled from constants


def begun(g: Given) -> str:
    """Which have been taken by these very words before."""
    leads = {event: after for (_, event), after in DELIVERY_TRANSITIONS.items() if event in _BEGINS}
    stands = " ".join(f"WHEN '{event}' THEN '{after}'" for event, after in leads.items())
    return f"""
    SELECT {g.place} FROM deliveries AS d{g.beside}
    WHERE d.id = {g["id"]} AND d.fence = {g["fence"]} + 1 AND d.leased_until = {g["until"]}
      AND d.status = CASE {g["event"]} {stands} END {g.among("d.id")}
    """  # noqa: S608 - assembled from constants


def end(g: Given) -> str:
    """What came of a send or a look-up: all of it in one write, by whoever holds it."""
    after, clears = _after(g, _ENDS), _clears(g, _ENDS)
    return f"""
    UPDATE deliveries AS d
    SET status = {after}, leased_until = NULL, not_before = {g["not_before"]}, reason = {g["reason"]}, changed_at = {g["ended_at"]},
      notification_id = CASE WHEN NOT {clears} THEN COALESCE({g["notification_id"]}, d.notification_id) END,
      notified_at = CASE WHEN {g["event"]} IN ('accept', 'find') THEN COALESCE({g["notified_at"]}, {g["ended_at"]})
        WHEN NOT {clears} THEN d.notified_at END,
      evidence = CASE WHEN NOT {clears} THEN COALESCE({g["evidence"]}, d.evidence) END,
      lookups = d.lookups + CASE WHEN d.status = 'reconciling' AND {g["event"]} = 'doubt' THEN 1 ELSE 0 END
    {g.source}
    WHERE d.id = {g["id"]} AND d.fence = {g["fence"]} AND d.leased_until IS NOT NULL AND {after} IS NOT NULL
      {g.among("d.id")}
    """  # noqa: S608 - assembled from constants


def correct(g: Given) -> str:
    """What somebody says about deliveries that nobody is at."""
    after, clears = _after(g, _CORRECTIONS), _clears(g, _CORRECTIONS)
    confirms = f"{g['event']} = '{DeliveryEvent.CONFIRM}'"
    return f"""
    UPDATE deliveries AS d
    SET status = {after}, fence = d.fence + 1, leased_until = NULL, not_before = NULL, reason = {g["reason"]},
      changed_at = {g["ended_at"]}, resent = ({g["event"]} = '{DeliveryEvent.RESEND}'),
      notification_id = CASE WHEN NOT {clears} THEN d.notification_id END,
      notified_at = CASE WHEN {confirms} THEN {g["ended_at"]} WHEN NOT {clears} THEN d.notified_at END,
      evidence = CASE WHEN {confirms} THEN {g["reason"]} WHEN NOT {clears} THEN d.evidence END
    {g.source}
    WHERE d.id = {g["id"]} AND d.fence = {g["fence"]} AND (d.leased_until IS NULL OR d.leased_until <= {g["ended_at"]})
      AND {after} IS NOT NULL {g.among("d.id")}
    """  # noqa: S608 - assembled from constants


def log(g: Given, source: str = "", *, moved: int = 0) -> str:
    """Keep what was tried, under the fence of the delivery after it: it has moved on by so much."""
    values = ", ".join(g[name] for name in _ATTEMPT)
    return f"""
    INSERT INTO delivery_attempts (delivery_id, fence, {_LOGGED}) SELECT {g["id"]}, {g["fence"]} + {moved}, {values} {source}
    """


def logged(g: Given, *, moved: int = 0) -> str:
    """Which have been kept before: by the same one, at the same time."""
    return f"""
    SELECT {g.place} FROM delivery_attempts AS d{g.beside}
    WHERE d.delivery_id = {g["id"]} AND d.fence = {g["fence"]} + {moved} AND d.kind = {g["attempt_kind"]}
      AND d.actor = {g["attempt_actor"]} AND d.started_at = {g["started_at"]} AND d.ended_at = {g["ended_at"]}
      {g.among("d.delivery_id")}
    """  # noqa: S608 - assembled from constants


def settled(waited_for: str) -> str:
    """Jobs that wait on the deliveries of a job, their own or another's, of which none is in doubt any more."""
    # The OFFSET keeps PostgreSQL from making a join of it, for which it might read all deliveries.
    return f"""
    SELECT q.job_id FROM queue AS q
    WHERE q.state = 3 AND q.waits_on IS NOT NULL AND substr(q.waits_on, 1, 9) = 'delivery:' AND NOT EXISTS (
      SELECT 1 FROM deliveries AS d WHERE d.job_id = {waited_for} AND d.status IN {_IN_DOUBT} LIMIT 1 OFFSET 0)
    """  # noqa: S608 - assembled from constants


WAKEN: Final = "state = CASE WHEN crash + out_of_memory > 0 THEN 4 ELSE 0 END, waits_on = NULL"
