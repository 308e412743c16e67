"""The store: a journal of intents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.ports import intents as i
    from reprieve.ports.intents import AnalysisRow, Answer, Intent, Lease, LostWorker, StoredResult
    from reprieve.ports.reader import StageView


class Store(Protocol):
    """What keeps jobs; one conformance suite holds every adapter to this contract.

    Failures are told as `StoreUnavailableError` (try again; `outcome_unknown` where a COMMIT may have taken effect) or
    `StoreRefusedError` (this batch can never be applied; nothing of it was).
    """

    exclusive: bool
    """Whether only one process at a time may work here: then every other worker that is written down is dead."""

    async def open(self) -> None:
        """Connect, and check the schema; `SchemaError` says what to do where it does not fit."""
        ...

    async def close(self) -> None:
        """Let go of everything; may be called twice."""
        ...

    async def lock_for_work(self) -> bool:
        """Take the right to work here; False where only one process may and another does."""
        ...

    async def apply(self, intents: Sequence[Intent], *, again: bool = False) -> Sequence[Answer]:
        """Apply all in one transaction, durable when this returns; the answers are in the order of the intents.

        The caller sends at most one intent about a job in a batch. `again` says that the outcome of an earlier try of
        these very intents is unknown: what is found done under the same fence (of a submission: with the same key and
        time) is answered as if it had been done now.
        """
        ...

    async def submit_through(
        self, connection: object, intents: Sequence[i.Submit]
    ) -> Sequence[i.Submitted | i.KeyTaken | i.VersionTooLow]:
        """Submit as part of the transaction that is open on a caller's own connection to this very database.

        The jobs are there if and only if that transaction commits; it is neither committed nor rolled back here, and what
        the driver raises is raised as it is. A connection that commits every statement by itself gets a transaction for
        this alone. `UsageError` where the connection is of an unknown kind or to another database; nothing was written
        then. May be awaited without an event loop where the connection is a blocking one, after `digest_key`.
        """
        ...

    async def digest_key(self) -> bytes:
        """The secret of this database by which digests are keyed."""
        ...

    async def now(self) -> float:
        """The store's clock, in seconds since the epoch: the same for all workers."""
        ...

    async def lost_workers(self, now: float, *, besides: int) -> Sequence[LostWorker]:
        """Workers whose lease has run out or whose death was reported, but for the one that asks."""
        ...

    async def leases_of(self, worker_id: int) -> Sequence[Lease]:
        """What a worker holds, payloads and results left out; for taking over from a dead one."""
        ...

    async def stages(self) -> Sequence[StageView]:
        """Every stage that was registered, as the whole fleet sees it; without counts."""
        ...

    async def memos(self, job_id: int, stage: str) -> Sequence[StoredResult]:
        """What a stage remembered; the key stands in `stage`."""
        ...

    async def analyses(self, signatures: Sequence[str]) -> Sequence[AnalysisRow]:
        """What is known of these signatures, in any order; those that nobody has asked about are left out."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called in the event loop when there may be new work or a stage or job was changed; returns the way out.

        A hint that may be lost: polling has to carry on without it.
        """
        ...
