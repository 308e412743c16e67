"""Alerts in the database, said once for both dialects."""
