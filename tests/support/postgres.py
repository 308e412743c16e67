"""A PostgreSQL server of a test's own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from engine.postgres import Postgres  # of `bench`


def start_postgres() -> Postgres:
    """Start a server with a folder of its own. `remove` ends both.

    The folder is not one of pytest's: these are closed to the user that the server runs as.
    """
    return Postgres(Path(tempfile.mkdtemp(prefix="reprieve-pg-")), durable=False)
