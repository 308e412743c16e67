"""How Alembic runs the steps: on the connection, and in the transaction, that schema.py hands over."""

from __future__ import annotations

from alembic import context

from reprieve.adapters.sql.schema import REVISION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=REVISION_TABLE)
context.run_migrations()
