"""A connection to a SQLite file, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from reprieve.errors import StoreError, StoreRefusedError, StoreUnavailableError

if TYPE_CHECKING:
    from reprieve.adapters.sql.address import SqliteAddress

BUSY_SECONDS: Final = 5.0
STATEMENTS: Final = 256
"""How many prepared statements a connection keeps: all that there are."""

_TRANSIENT: Final = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_CANTOPEN,
})  # fmt: skip
_REFUSED: Final = frozenset({
    sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE,
})  # fmt: skip
_UNWRITABLE: Final = "cannot be written; its folder has to be writable too"
_REMEDIES: Final = {
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup, or try `.recover` of the sqlite3 shell",
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_PERM: _UNWRITABLE,
}
_PRIMARY: Final = 0xFF
"""An extended result code holds the primary one in its lowest byte."""


def connect(address: SqliteAddress, *, create: bool = True) -> sqlite3.Connection:
    """Open the file for whole transactions of our own; raises what sqlite3 raises."""
    if address.path is None:
        return sqlite3.connect(":memory:", isolation_level=None, cached_statements=STATEMENTS)
    path = quote(os.path.abspath(address.path))  # noqa: PTH100 - resolve() would follow links, which SQLite does itself
    return sqlite3.connect(
        f"file:{path}?mode={'rwc' if create else 'rw'}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        cached_statements=STATEMENTS,
    )


def make_durable(connection: sqlite3.Connection) -> None:
    """Write ahead, with an fsync for every commit."""
    connection.execute("PRAGMA synchronous = FULL")
    # Keys come in no order: more pages in memory, and fewer rounds of copying the log, keep a large file as fast as a small one.
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    deadline = time.monotonic() + BUSY_SECONDS
    # Only one connection can switch a new file over, and SQLite does not wait for that one by itself.
    while connection.execute("PRAGMA journal_mode").fetchone()[0] not in {"wal", "memory"}:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if code_of(error) not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED} or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def code_of(error: BaseException) -> int | None:
    """SQLite's primary result code, where there is one."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def told(error: Exception, address: SqliteAddress) -> StoreError:
    """What an error of the driver means to a caller."""
    code = code_of(error)
    remedy = _REMEDIES.get(code) if code is not None else None
    if code == sqlite3.SQLITE_CANTOPEN:
        remedy = _path_problem(address)
    if remedy is not None:
        return StoreError(f"{address.shown} {remedy}")
    if code in _TRANSIENT:
        return StoreUnavailableError(f"{address.shown} cannot be used now: {error}")
    if code in _REFUSED or not isinstance(error, sqlite3.OperationalError):
        return StoreRefusedError(f"{address.shown} refused a value: {error}")
    return StoreError(f"{address.shown}: {error}")


def _path_problem(address: SqliteAddress) -> str | None:
    if address.path is None:
        return None
    path = Path(address.path)
    folder = path.parent
    if not folder.is_dir():
        return f"cannot be opened: there is no folder {str(folder)!r}"
    if path.is_dir():
        return "is a folder"
    if not _may(folder, os.W_OK | os.X_OK) or (path.exists() and not _may(path, os.R_OK | os.W_OK)):
        return _UNWRITABLE
    return None


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
