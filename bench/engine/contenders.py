"""Who is measured: us, and the peers that are installed."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from engine.driving import Contender

OURS: Final = Contender(name="Reprieve", module="with_reprieve", finished="SELECT {jobs} - count(*) FROM queue")
STORE: Final = Contender(name="our store alone", module="with_store", finished="SELECT {jobs} - count(*) FROM queue")


def pgqueuer() -> Contender | None:
    """Its queue holds what is not done."""
    return _peer("pgqueuer", "PgQueuer", "SELECT {jobs} - count(*) FROM pgqueuer")


def procrastinate() -> Contender | None:
    """Its jobs stay, with their status."""
    return _peer(
        "procrastinate",
        "procrastinate",
        "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded' AND {jobs} > 0",
    )


def dbos(schema: str) -> Contender | None:
    """Its workflows stay, with their status; on PostgreSQL in a schema of their own."""
    return _peer(
        "dbos", "DBOS", f"SELECT count(*) FROM {schema}workflow_status WHERE status = 'SUCCESS' AND {{jobs}} > 0"
    )


def _peer(package: str, name: str, finished: str) -> Contender | None:
    if find_spec(package) is None:
        return None
    return Contender(name=f"{name} {version(package)}", module=f"with_{package}", finished=finished)
