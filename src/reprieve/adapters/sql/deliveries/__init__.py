"""Deliveries: statements.py says what is written, sqlite.py and postgres.py write it, reading.py looks it up."""
