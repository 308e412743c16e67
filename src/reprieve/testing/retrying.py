"""Retries inside tests: without waiting, and with fewer attempts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from reprieve.app.retry.trial import REHEARSAL, Rehearsal
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


@contextmanager
def retry_testing(*, attempts: int | None = None) -> Iterator[None]:
    """Let no retry wait, and replace every budget by `attempts`; holds in this task or thread, and those it begets.

    A thread begun without a copy of the context (`threading.Thread`) does not inherit it; `asyncio.to_thread` does.
    """
    if attempts is not None and attempts < 1:
        raise UsageError(f"attempts counts the first one too: at least 1, not {attempts}")
    token = REHEARSAL.set(Rehearsal(attempts))
    try:
        yield
    finally:
        REHEARSAL.reset(token)


def no_sleep() -> AbstractContextManager[None]:
    """Let no retry wait; budgets and deadlines hold as they are."""
    return retry_testing()
