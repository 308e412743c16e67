"""The store on PostgreSQL: one connection writes, another listens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, get_args
from weakref import WeakSet

from reprieve.adapters.sql import guest, schema
from reprieve.adapters.sql.address import PostgresAddress, parse
from reprieve.adapters.sql.alerts import applying as alerts
from reprieve.adapters.sql.analysis import applying as analysis
from reprieve.adapters.sql.analysis import caching
from reprieve.adapters.sql.dead_letters.applying import apply_on_postgres
from reprieve.adapters.sql.deliveries import postgres as deliveries
from reprieve.adapters.sql.news import is_news
from reprieve.adapters.sql.postgres import claiming, jobs, operating, submitting
from reprieve.adapters.sql.postgres import statements as sql
from reprieve.adapters.sql.postgres.link import Link
from reprieve.adapters.sql.postgres.listening import Listener
from reprieve.adapters.sql.words import POSTGRES, rows_as_json
from reprieve.core.policy import Cause
from reprieve.errors import StoreUnavailableError, UsageError
from reprieve.ports import intents as i
from reprieve.ports.reader import StageView

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from reprieve.adapters.sql.postgres.link import Cursor
    from reprieve.ports.clock import Clock

    Handler = Callable[[Cursor, list[Any], bool], Awaitable[Sequence[i.Answer]]]

_HANDLERS: dict[Any, Handler] = {
    # In the order in which a batch is applied: what frees comes before what takes.
    i.Finish: jobs.finish,
    i.Checkpoint: jobs.checkpoint,
    i.Retry: jobs.retry,
    i.SetAside: jobs.set_aside,
    i.Await: jobs.wait,
    i.Release: jobs.release,
    i.Remember: jobs.remember,
    i.Complete: jobs.complete,
    i.Stop: jobs.stop,
    i.Cancel: jobs.cancel,
    i.Submit: submitting.submit,
    i.End: deliveries.end,
    i.Correct: deliveries.correct,
    i.Prepare: deliveries.prepare,
    i.Begin: deliveries.begin,
    i.AnalysisIntent: analysis.apply_on_postgres,
    i.StageIntent: operating.change_stage,
    i.Wake: operating.wake,
    i.WakeDelivered: deliveries.wake,
    i.Register: operating.register,
    i.Renew: operating.renew,
    i.Leave: operating.leave,
    i.Lost: operating.lose,
    # Last of what waits for rows of others: it ends with the counts of groups, which many want.
    i.LetterIntent: apply_on_postgres,
    i.AlertIntent: alerts.apply_on_postgres,
    i.Promote: claiming.promote,
    i.Claim: claiming.claim,
}
_TOGETHER = {
    kind: several
    for several in (i.StageIntent, i.LetterIntent, i.AnalysisIntent, i.AlertIntent)
    for kind in get_args(several)
}
"""What is said about stages holds in the order of saying, whatever its kind; so does what is said about dead letters, about signatures and reviews, and about alerts."""
_LONGEST_READ = 15.0
"""Seconds after which a server that neither answers nor breaks is given up."""
_ONE_STATEMENT = (i.Finish, i.Checkpoint, i.Submit, i.Claim, i.Prepare, i.Begin, i.End)


class PostgresStore:
    """The `Store` port on a server that any number of processes share."""

    exclusive = False

    def __init__(self, url: str, *, clock: Clock | None = None, longest_read: float = _LONGEST_READ) -> None:
        self._url, self._longest_read = url, longest_read
        self._clock = clock
        address = parse(url)
        if not isinstance(address, PostgresAddress):
            raise UsageError(f"{address.shown} is not on PostgreSQL")
        self._link = Link(address)
        self._listener = Listener(address)
        self._turn = asyncio.Lock()
        self._key: bytes | None = None
        self._guests: WeakSet[object] = WeakSet()

    async def open(self) -> None:
        """Connect, and refuse a schema that does not fit."""
        await asyncio.to_thread(schema.require, self._url)
        async with self._turn, self._link.told():
            await self._link.cursor()

    async def close(self) -> None:
        """Let go of both connections."""
        await self._listener.close()
        await self._link.drop()

    async def lock_for_work(self) -> bool:
        """Anybody may work here, side by side."""
        return True

    async def digest_key(self) -> bytes:
        """Made with the tables."""
        if self._key is None:
            rows = await self._read("SELECT value FROM meta WHERE key = 'digest_key'", {})
            self._key = bytes.fromhex(rows[0][0]) if rows else b""
        return self._key

    async def now(self) -> float:
        """The server's clock, unless a test brought its own."""
        if self._clock is not None:
            return self._clock.now()
        rows = await self._read("SELECT extract(epoch FROM clock_timestamp())::float8", {})
        return float(rows[0][0])

    async def apply(self, intents: Sequence[i.Intent], *, again: bool = False) -> Sequence[i.Answer]:
        """Group the batch by kind, one statement each where it can be, and commit it."""
        groups: dict[Any, list[int]] = {}
        if len(kinds := set(map(type, intents))) == 1:
            groups = {_TOGETHER.get(kind, kind): list(range(len(intents))) for kind in kinds}
        else:
            for place, intent in enumerate(intents):
                groups.setdefault(_TOGETHER.get(type(intent), type(intent)), []).append(place)
        answers: list[i.Answer | None] = [None] * len(intents)
        async with self._turn, self._link.told():
            cursor = await self._link.cursor()
            if len(groups) == 1 and not again and self._is_one_statement(intents):
                await self._group(cursor, intents, next(iter(groups.items())), answers, again=False)
            else:
                await self._transaction(cursor, intents, groups, answers, again=again)
        return answers

    async def submit_through(
        self, connection: object, intents: Sequence[i.Submit]
    ) -> Sequence[i.Submitted | i.KeyTaken | i.VersionTooLow]:
        """Submit on somebody's own connection; workers are told when its transaction commits."""
        async with guest.on_postgres(connection, key=await self.digest_key(), known=self._guests) as cursor:
            return await submitting.submit(cursor, list(intents), again=False)

    @staticmethod
    def _is_one_statement(intents: Sequence[i.Intent]) -> bool:
        first = intents[0]
        if isinstance(first, i.Submit):
            return all(isinstance(each, i.Submit) and each.subject is None for each in intents)
        return isinstance(first, _ONE_STATEMENT) and (len(intents) == 1 or not isinstance(first, i.Claim))

    async def _transaction(
        self,
        cursor: Cursor,
        intents: Sequence[i.Intent],
        groups: dict[Any, list[int]],
        answers: list[i.Answer | None],
        *,
        again: bool,
    ) -> None:
        await cursor.execute("BEGIN")
        try:
            for kind in _HANDLERS:
                if kind in groups:
                    await self._group(cursor, intents, (kind, groups[kind]), answers, again=again)
            if alerts.may_be_loud(groups):
                await alerts.raise_on_postgres(cursor, intents, answers, again=again)
            if is_news(intents, answers):
                await cursor.execute(sql.NOTIFY)
            await cursor.execute("COMMIT")
        except BaseException:
            await self._roll_back(cursor)
            raise

    async def _roll_back(self, cursor: Cursor) -> None:
        """Leave no transaction open; a cancelled caller may have left the connection in the middle of an answer."""
        connection = cursor.connection
        if (
            connection.closed
            or connection.broken
            or connection.info.transaction_status.name not in {"INTRANS", "INERROR"}
        ):
            await self._link.drop()
        else:
            await cursor.execute("ROLLBACK")

    @staticmethod
    async def _group(
        cursor: Cursor,
        intents: Sequence[i.Intent],
        group: tuple[Any, list[int]],
        answers: list[i.Answer | None],
        *,
        again: bool,
    ) -> None:
        kind, places = group
        found = await _HANDLERS[kind](cursor, [intents[place] for place in places], again)
        for place, answer in zip(places, found, strict=True):
            answers[place] = answer

    async def lost_workers(self, now: float, *, besides: int) -> Sequence[i.LostWorker]:
        """Those that do not renew any more."""
        rows = await self._read(sql.LOST_WORKERS, {"now": now, "besides": besides})
        return [
            i.LostWorker(worker_id=row[0], name=row[1], host=row[2], pid=row[3], stopping=row[4],
                         cause=None if row[5] is None else Cause(row[5]), unheard=row[6])
            for row in rows
        ]  # fmt: skip

    async def leases_of(self, worker_id: int) -> Sequence[i.Lease]:
        """What it holds, without payloads."""
        rows = await self._read(claiming.HELD_BY, {"worker": worker_id, "known": []})
        return [claiming.held(row) for row in rows]

    async def stages(self) -> Sequence[StageView]:
        """Every stage there is; a handful of rows."""
        rows = await self._read(sql.STAGES, {})
        names = ("pipeline", "stage", "paused", "paused_by", "reason", "held_until", "opened_at", "error_class", "probe_until", "changed_at")  # fmt: skip
        return [StageView(**dict(zip(names, row, strict=True))) for row in rows]

    async def memos(self, job_id: int, stage: str) -> Sequence[i.StoredResult]:
        """What a stage of a job remembered."""
        rows = await self._read(
            "SELECT key, value, codec FROM memos WHERE job_id = %(job_id)s AND stage = %(stage)s AND value IS NOT NULL",
            {"job_id": job_id, "stage": stage},
        )
        return [i.StoredResult(stage=row[0], data=bytes(row[1]), type="", codec=row[2]) for row in rows]

    async def analyses(self, signatures: Sequence[str]) -> Sequence[i.AnalysisRow]:
        """What is known of these signatures, in one round trip and without a transaction of its own."""
        rows = await self._read(caching.read(POSTGRES), {"signatures": rows_as_json(signatures)})
        return [caching.row_of(row) for row in rows]

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Listen on a connection of its own."""
        return self._listener.subscribe(wake)

    async def _read(self, statement: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
        async with self._turn, self._link.told():
            try:
                async with asyncio.timeout(self._longest_read) as limit:
                    cursor = await self._link.cursor()
                    await cursor.execute(statement, values)
                    return await cursor.fetchall()
            except TimeoutError:
                if not limit.expired():
                    raise
                raise StoreUnavailableError(f"PostgreSQL has not answered for {self._longest_read:g} s") from None
