"""The steps of the schema, run by Alembic; schema.py calls it."""
