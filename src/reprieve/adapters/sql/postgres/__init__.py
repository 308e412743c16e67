"""The store on PostgreSQL: any number of workers on any number of machines."""

from __future__ import annotations

from reprieve.adapters.sql.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
