"""The store on one SQLite file: one thread applies whole batches."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from reprieve.adapters.sql import guest, schema
from reprieve.adapters.sql.address import SqliteAddress, parse
from reprieve.adapters.sql.analysis import caching
from reprieve.adapters.sql.news import is_news
from reprieve.adapters.sql.sqlite import batch, claiming, operating, submitting
from reprieve.adapters.sql.sqlite.connection import connect, make_durable, told
from reprieve.adapters.sql.sqlite.lock import let_go, take
from reprieve.adapters.sql.words import SQLITE, rows_as_json
from reprieve.errors import StoreError
from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.ports.clock import Clock
    from reprieve.ports.reader import StageView

T = TypeVar("T")

_DIGEST_KEY: Final = "SELECT value FROM meta WHERE key = 'digest_key'"
_MEMOS: Final = "SELECT key, value, codec FROM memos WHERE job_id = ? AND stage = ? AND value IS NOT NULL ORDER BY key"


class SqliteStore:
    """The `Store` port on a file that one process works on; others may submit and look."""

    exclusive = True

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        address = parse(url)
        if not isinstance(address, SqliteAddress):
            raise StoreError("this is not the URL of a SQLite database: write sqlite:///file.db")
        self._address = address
        self._now = time.time if clock is None else clock.now
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None
        self._key: bytes | None = None
        self._wakes: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []

    async def open(self) -> None:
        """Open the file, made where there is none, and bring its tables up to date."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reprieve-sqlite")
        try:
            await self._in_thread(self._open)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the file, after what is being written, and let go of the right to work."""
        thread, self._thread = self._thread, None
        if thread is not None:
            closing = asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown(wait=False)
            await asyncio.shield(closing)

    async def lock_for_work(self) -> bool:
        """Lock the file beside the database; the lock goes with this process, however it ends."""
        return await self._in_thread(self._take_lock)

    async def apply(self, intents: Sequence[i.Intent], *, again: bool = False) -> Sequence[i.Answer]:
        """Hand the batch to the thread; it is applied even where the caller does not wait for it."""
        return await self._in_thread(self._apply, intents, again)

    async def submit_through(
        self, connection: object, intents: Sequence[i.Submit]
    ) -> Sequence[i.Submitted | i.KeyTaken | i.VersionTooLow]:
        """Submit on somebody's own connection; workers find it by polling, once its transaction commits."""
        key = await self.digest_key()
        return await guest.on_sqlite(
            connection, lambda plain: submitting.submit(plain, list(intents), again=False), key=key
        )

    async def digest_key(self) -> bytes:
        """Made with the tables."""
        if self._key is None:
            row = await self._in_thread(lambda: self._opened.execute(_DIGEST_KEY).fetchone())
            self._key = b"" if row is None else bytes.fromhex(row[0])
        return self._key

    async def now(self) -> float:
        """This machine's clock, which is everybody's: the file is local."""
        return self._now()

    async def lost_workers(self, now: float, *, besides: int) -> Sequence[i.LostWorker]:
        """Those that do not renew any more."""
        return await self._in_thread(lambda: operating.lost_workers(self._opened, now, besides))

    async def leases_of(self, worker_id: int) -> Sequence[i.Lease]:
        """What it holds, without payloads."""
        return await self._in_thread(lambda: claiming.leases_of(self._opened, worker_id))

    async def stages(self) -> Sequence[StageView]:
        """All that were registered."""
        return await self._in_thread(lambda: operating.stages(self._opened))

    async def memos(self, job_id: int, stage: str) -> Sequence[i.StoredResult]:
        """What a stage of a job remembered."""
        rows = await self._in_thread(lambda: self._opened.execute(_MEMOS, (job_id, stage)).fetchall())
        return [i.StoredResult(stage=key, data=value, type="", codec=codec) for key, value, codec in rows]

    async def analyses(self, signatures: Sequence[str]) -> Sequence[i.AnalysisRow]:
        """What is known of these signatures, in one statement."""
        values = {"signatures": rows_as_json(signatures)}
        rows = await self._in_thread(lambda: self._opened.execute(caching.read(SQLITE), values).fetchall())
        return [caching.row_of(row) for row in rows]

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called in this event loop after batches of this store; what other processes write is found by polling."""
        subscription = (asyncio.get_running_loop(), wake)
        self._wakes.append(subscription)

        def leave() -> None:
            with suppress(ValueError):
                self._wakes.remove(subscription)

        return leave

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        if self._thread is None:
            raise StoreError(f"{self._address.shown} is not open")
        done = asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        try:
            # A caller that is cancelled neither stops the work nor takes it out of the thread's queue.
            return await asyncio.shield(done)
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise told(error, self._address) from None

    # --- in the thread ------------------------------------------------------------------------------------------------

    @property
    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"{self._address.shown} is not open")
        return self._connection

    def _open(self) -> None:
        if self._connection is None:
            self._connection = connect(self._address)
            make_durable(self._connection)
            schema.upgrade_sqlite(self._connection, self._address)

    def _apply(self, intents: Sequence[i.Intent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - handed to a thread by position
        answers = batch.apply(self._opened, intents, again)
        if self._wakes and (any(isinstance(each, i.Submit) for each in intents) or is_news(intents, answers)):
            for loop, wake in tuple(self._wakes):
                with suppress(RuntimeError):  # its event loop has been closed
                    loop.call_soon_threadsafe(wake)
        return answers

    def _take_lock(self) -> bool:
        if self._lock is not None or self._address.path is None:
            return True
        self._lock = take(self._address)
        return self._lock is not None

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            let_go(lock)
