"""Deliveries: rows first, then each send and look-up begun before the network is touched, and ended in one guarded write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.lifecycle import DeliveryEvent, DeliveryStatus


@value
class Draft:
    """A delivery to be; the recipient and the body are stored as given."""

    recipient: str
    sender: str
    token: str
    body: bytes
    """The message, frozen, as JSON."""
    required: bool


@value
class Prepare:
    """Write a row for every recipient that has none under (changelist_id, recipient, review_version), before anything is sent.

    Answered by the rows as they are, in the order of the drafts; what was frozen first stays. Refused as STALE (an empty
    answer) where the job is not leased under this fence any more.
    """

    job_id: int
    fence: int
    changelist_id: str
    review_version: int
    drafts: tuple[Draft, ...]
    now: float


@value
class DeliveryRecord:
    """A delivery's row."""

    delivery_id: int
    job_id: int
    changelist_id: str
    recipient: str
    review_version: int
    sender: str
    token: str
    body: bytes | None
    """None once erased."""
    required: bool
    status: DeliveryStatus
    notification_id: str | None
    notified_at: float | None
    evidence: str | None
    fence: int
    attempts: int
    lookups: int
    first_sent_at: float | None
    last_sent_at: float | None
    leased_until: float | None
    not_before: float | None
    reason: str | None
    created_at: float


@value
class Prepared:
    """The rows there are now."""

    rows: tuple[DeliveryRecord, ...]


@value
class Begin:
    """Take a delivery for one send (BEGIN) or one look-up (LOOK), until then: durable before the network is touched.

    Applies while the row's fence is the one that was seen, its lease is over and its status allows the event; the fence
    moves on by one. A send counts an attempt, and sets when the first and the latest were begun; its look-ups start anew.
    """

    delivery_id: int
    fence: int
    event: DeliveryEvent
    now: float
    until: float
    """The lease."""
    not_before: float | None = None
    """Written to the row: when a sweep may look at it, should whoever began it end here."""


@value
class DeliveryAttempt:
    """What is kept of one send, look-up or act of a person; sanitized."""

    kind: str
    """send, look_up, or a person's confirm, resend, give_up; sweep, for what the sweep corrects."""
    number: int
    started_at: float
    ended_at: float
    phase: str | None
    answer: str
    """What came of it: accepted, put_off, refused, doubt, found, absent, unknown, duplicate, held ..."""
    error_class: str | None = None
    message: str = ""
    notification_id: str | None = None
    actor: str = "reprieve"


@value
class End:
    """What came of it, in one write: guarded by the fence of the Begin; the lease ends."""

    delivery_id: int
    fence: int
    event: DeliveryEvent
    attempt: DeliveryAttempt
    notification_id: str | None = None
    """With ACCEPT and FIND."""
    notified_at: float | None = None
    """With ACCEPT and FIND: both, and the status, are written together or not at all. MISS clears both."""
    evidence: str | None = None
    not_before: float | None = None
    reason: str | None = None


@value
class Correct:
    """What a person, or the sweep, says about a delivery that nobody is at: CONFIRM, RESEND, GIVE_UP, HOLD or LOOK.

    Applies while its fence is the one that was seen, its lease is over and its status allows the event; the fence moves on
    by one. CONFIRM marks it as notified, with the reason as evidence; RESEND clears what is marked, and `not_before`,
    and has it sent also where its job is over.
    """

    delivery_id: int
    fence: int
    event: DeliveryEvent
    attempt: DeliveryAttempt
    reason: str


@value
class WakeDelivered:
    """Make jobs ready that wait on deliveries of which none is in doubt any more; answered by how many."""

    now: float
