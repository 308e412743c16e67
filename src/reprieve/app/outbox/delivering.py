"""What a stage calls to tell people: rows first, then each recipient in the order send, then mark; and what it means for the job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable
from urllib.parse import quote

from reprieve.app.outbox.courier import Courier, Went, standing
from reprieve.app.outbox.freezing import freeze, token_of
from reprieve.app.pipeline.memos import Elsewhere
from reprieve.app.redaction import redact
from reprieve.app.submitting import check_version
from reprieve.core.failure import ErrorClass
from reprieve.core.lifecycle import DeliveryStatus
from reprieve.errors import Permanent, Retryable, UnknownNameError, UsageError, Wait
from reprieve.ports.intents import Draft, Prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from reprieve.app.journal import Journal
    from reprieve.app.pipeline.job import Job
    from reprieve.core.policy import Profile
    from reprieve.ports.intents import DeliveryRecord, Lease
    from reprieve.ports.sending import Message, Sender

_LOG: Final = logging.getLogger("reprieve.outbox")
_AT_ONCE: Final = 10
"""Recipients of one job that are served side by side."""
_NAMED: Final = 3
_LONGEST_RECIPIENT: Final = 500
_LONGEST_REASON: Final = 1000
WAITS_ON: Final = "delivery:"


@runtime_checkable
class Desk(Protocol):
    """Where a job that runs in a worker finds what it needs to deliver."""

    journal: Journal
    lease: Lease
    now: Callable[[], float]
    senders: Mapping[str, Sender]
    profile: Profile
    stage: str
    """Where the job stands now."""
    supersedable: Container[str]
    """Stages at which a newer version of its subject cancels a job."""
    loop: asyncio.AbstractEventLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Who was told; for the result of a stage."""

    sent: tuple[str, ...]
    """Recipients that have been told, now or before."""
    failed: tuple[str, ...] = ()
    """Those that were not required, and could not be served."""


async def deliver(
    job: Job[Any],
    messages: Iterable[Message],
    *,
    via: str | Sender | Mapping[str, str | Sender],
    subject: str | None = None,
    version: int | None = None,
) -> Delivered:
    """Tell every recipient once, under (subject, recipient, version) of the job unless others are given.

    `via` is a sender, or its name; or which one is for which channel: {"mailto": "smtp", "slack": "slack"}.

    Returns when every required recipient has been told. What failed for now is raised, so that the stage is tried again by
    its policy; what is in doubt makes the job wait, costing nothing; who can never be told ends it as a dead letter once
    everybody else has been served, and its replay serves only who is missing.
    """
    desk = _desk_of(job)
    if desk.stage in desk.supersedable:  # the lease knows only where it was claimed
        raise UsageError(
            "a pipeline whose versions supersede each other tells people in stages with delivers=True only"
        )
    senders = _Senders.of(desk, via)
    changelist_id = job.subject if subject is None else subject
    review_version = job.version if version is None else version
    check_version(changelist_id, review_version)
    drafts = _drafts(messages, senders, changelist_id, review_version)
    if not drafts.rows:
        return Delivered(sent=())
    prepared = await desk.journal.ask(
        Prepare(
            job_id=desk.lease.job_id, fence=desk.lease.fence, changelist_id=changelist_id, review_version=review_version,
            drafts=drafts.rows, now=desk.now(),
        )
    )  # fmt: skip
    if not prepared.rows:
        raise Retryable("the job was taken over by another worker before its recipients were written down")
    for row in prepared.rows:
        if row.sender not in desk.senders and not _is_settled(row):
            raise UsageError(
                f"delivery {row.delivery_id} is to be sent by {row.sender!r}, which this pipeline does not have any more: "
                "declare it again with senders=[...], then replay the job"
            )
    return _judge(await _serve(desk, prepared.rows, drafts.nobodies), desk.now())


def deliver_blocking(
    job: Job[Any],
    messages: Iterable[Message],
    *,
    via: str | Sender | Mapping[str, str | Sender],
    **options: Any,  # noqa: ANN401 - those of `deliver`
) -> Delivered:
    """`deliver` for plain functions, which run in a thread."""
    desk = _desk_of(job)
    if asyncio._get_running_loop() is desk.loop:  # noqa: SLF001 - the public one raises where there is none
        raise UsageError("an async stage awaits reprieve.deliver: deliver_blocking would wait for itself")
    return asyncio.run_coroutine_threadsafe(deliver(job, messages, via=via, **options), desk.loop).result()


def _desk_of(job: Job[Any]) -> Desk:
    desk: object = job.memory
    if isinstance(desk, Elsewhere):
        raise UsageError(
            "a stage that is isolated in a process cannot deliver: return the messages, and deliver in the next"
        )
    if not isinstance(desk, Desk):
        raise UsageError("only a job that a worker runs can deliver; in a test, run the pipeline inline")
    return desk


def _sender(desk: Desk, via: str | Sender) -> Sender:
    name = via if isinstance(via, str) else via.name
    known = desk.senders.get(name)
    if known is None:
        raise UnknownNameError("sender of this pipeline", name, tuple(desk.senders))
    if not isinstance(via, str) and known is not via:
        raise UsageError(f"the pipeline knows another sender as {name!r}: declare this one with senders=[...]")
    return known


@dataclass(frozen=True, slots=True)
class _Senders:
    """Who sends what: one for all, or one for each channel."""

    channels: Mapping[str, Sender]
    everything: Sender | None

    @classmethod
    def of(cls, desk: Desk, via: str | Sender | Mapping[str, str | Sender]) -> _Senders:
        if not isinstance(via, Mapping):
            return cls({}, _sender(desk, via))
        if not via:
            raise UsageError('via= names no sender: write {"mailto": ...}, a channel of recipients for each')
        return cls({channel: _sender(desk, each) for channel, each in via.items()}, None)

    def address(self, recipient: str) -> tuple[str, Sender]:
        """A recipient in its one normal form, and its sender."""
        channel, colon, _ = recipient.partition(":")
        sender = self.everything or self.channels.get(channel.lower() if colon else "")
        if sender is None:
            raise UsageError(f"no sender is for this channel; there are: {', '.join(sorted(self.channels))}")
        return sender.address(recipient), sender

    @property
    def any(self) -> Sender:
        """In whose name that is refused which nobody sends."""
        return self.everything or next(iter(self.channels.values()))


@dataclass(frozen=True, slots=True)
class _Drafts:
    """A row to be for each recipient, in its one normal form; and why some of them are nobody."""

    rows: tuple[Draft, ...]
    nobodies: Mapping[str, str]


def _drafts(messages: Iterable[Message], senders: _Senders, changelist_id: str, review_version: int) -> _Drafts:
    drafts: dict[str, Draft] = {}
    first: dict[str, Message] = {}
    nobodies: dict[str, str] = {}
    for message in messages:
        body = freeze(message)
        try:
            recipient, sender = senders.address(message.recipient)
        except UsageError as error:
            # One address that is none stops nobody else: its row fails, and its job is a dead letter at the end.
            sender = senders.any
            recipient = f"invalid:{quote(message.recipient[:_LONGEST_RECIPIENT], safe='@', errors='replace')}"
            nobodies[recipient] = redact(f"{ErrorClass.RECIPIENT_INVALID}: {error}")[:_LONGEST_REASON]
        plain = replace(message, recipient="")
        if first.setdefault(recipient, plain) != plain:
            raise UsageError("two messages of one delivery are for the same recipient, and differ")
        drafts[recipient] = Draft(
            recipient=recipient, sender=sender.name, token=token_of(changelist_id, recipient, review_version), body=body,
            required=message.required,
        )  # fmt: skip
    return _Drafts(tuple(drafts.values()), nobodies)


async def _serve(desk: Desk, rows: Sequence[DeliveryRecord], nobodies: Mapping[str, str]) -> list[Went]:
    """Each recipient as far as it goes now; the failure of one stops no other."""
    courier = Courier(desk.journal, desk.now, profile=desk.profile)
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(row: DeliveryRecord) -> Went:
        async with turn:
            try:
                if row.recipient in nobodies and row.status is DeliveryStatus.PENDING:
                    return await courier.refuse(row, nobodies[row.recipient])
                return Went(row) if _is_settled(row) else await courier.advance(row, desk.senders[row.sender])
            except Exception as error:  # noqa: BLE001 - raised when the others have been served
                return Went(row, error)

    # A group waits for all of them also when it is cancelled: what was begun is ended on disk.
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(row)) for row in rows]
    return [task.result() for task in tasks]


def _is_settled(row: DeliveryRecord) -> bool:
    """Whether nothing is to be done about it, by whichever sender."""
    return row.status in {DeliveryStatus.FAILED, DeliveryStatus.HELD} or (
        row.status is DeliveryStatus.SENT and standing(row).evidence
    )


def _judge(went: Sequence[Went], now: float) -> Delivered:
    """What the state of all recipients means for the job."""
    unmet = [each for each in went if each.row.required and each.row.notified_at is None]
    for each in went:
        if each.error is not None and each not in unmet:
            _LOG.warning("delivery %d, which is not required, failed: %s", each.row.delivery_id, each.row.reason)
    for each in unmet:
        if each.error is not None and each.row.status is not DeliveryStatus.FAILED:
            raise each.error
    postponed = [each.row for each in unmet if each.row.status is DeliveryStatus.PENDING]
    if postponed:
        until = max(now if row.not_before is None else row.not_before for row in postponed)
        raise Retryable(
            f"{len(postponed)} recipients are still to be told", retry_after=until - now if until > now else None
        )
    for each in unmet:
        if each.row.status is not DeliveryStatus.FAILED:
            raise Wait(f"{WAITS_ON}{each.row.job_id}")  # another's, where that one was first to tell this recipient
    if unmet:
        raise _refusal(unmet, len(went))
    sent = tuple(each.row.recipient for each in went if each.row.notified_at is not None)
    return Delivered(sent=sent, failed=tuple(each.row.recipient for each in went if each.row.notified_at is None))


def _refusal(unmet: Sequence[Went], of: int) -> Permanent:
    """All others have been served: these are for a person."""
    reasons = [each.row.reason or "" for each in unmet]
    error_class, _, _ = reasons[0].partition(":")
    named = "; ".join(f"delivery {each.row.delivery_id}: {each.row.reason}" for each in unmet[:_NAMED])
    more = f"; and {len(unmet) - _NAMED} more" if len(unmet) > _NAMED else ""
    return Permanent(
        f"{len(unmet)} of {of} recipients cannot be told: {named}{more}", error_class=error_class or "RECIPIENT_INVALID"
    )
