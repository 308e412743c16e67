"""The store on one SQLite file: the driver is the standard library's, and all of it runs in one thread.

store.py       the port;  connection.py  how a file is opened, and what errors mean;  batch.py  one transaction
submitting.py  claiming.py  finishing.py: what is hot;  jobs.py  failures and cancellations;  operating.py  stages, workers
"""

from __future__ import annotations

from reprieve.adapters.sql.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
