"""The right to work on a file, which one process has at a time: a lock on a file beside it, gone with its process."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from reprieve.errors import StoreError

if TYPE_CHECKING:
    from reprieve.adapters.sql.address import SqliteAddress


def take(address: SqliteAddress) -> int | None:
    """Take it; None where another process has it."""
    try:
        lock = os.open(f"{address.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"the lock beside {address.shown} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError as error:
        os.close(lock)
        raise StoreError(f"{address.shown} cannot be locked for work: {error.strerror}") from None
    return lock


def let_go(lock: int) -> None:
    """Give it back."""
    os.close(lock)
