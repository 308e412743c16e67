"""Alerts, one open per rule and key; what each sink has to be told of them, and since when it is known; what was sighted that stands nowhere else."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from reprieve.adapters.sql.tables.columns import Id, Moment, metadata, partial_index

_OPEN = text("resolved_at IS NULL")
_OVER = text("resolved_at IS NOT NULL")
_UNTOLD = text("told_at IS NULL")

alerts = Table(
    "alerts", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("rule", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("error_class", Text, nullable=False),
    Column("over_when", Text, nullable=False),
    Column("quiet", Float, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_at", Moment, nullable=False),
    Column("last_at", Moment, nullable=False),
    Column("acked_by", Text),
    Column("acked_at", Moment),
    Column("resolved_at", Moment),
    Column("resolved_by", Text),
    Column("why", Text),
    CheckConstraint("level IN ('page', 'warning')", name="level_is_known"),
    CheckConstraint("over_when IN ('quiet', 'resumed', 'settled', 'released', 'hand')", name="end_is_known"),
    CheckConstraint("count >= 1", name="something_happened"),
    CheckConstraint("first_at <= last_at", name="first_is_not_after_last"),
    CheckConstraint("(acked_at IS NULL) = (acked_by IS NULL)", name="acked_by_somebody"),
    CheckConstraint("(resolved_at IS NULL) = (resolved_by IS NULL)", name="resolved_by_somebody"),
    partial_index("uq_alerts_open", "rule", "key", unique=True, where=_OPEN),
    Index("ix_alerts_rule", "rule", "key", "id"),
    partial_index("ix_alerts_resolved_at", "resolved_at", where=_OVER),
    sqlite_autoincrement=True,
)  # fmt: skip

alert_notices = Table(
    "alert_notices", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("alert_id", BigInteger, nullable=False),
    Column("sink", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("not_before", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("told_at", Moment),
    Column("error", Text),
    UniqueConstraint("alert_id", "sink", "kind"),
    CheckConstraint("kind IN ('raise', 'resolve')", name="kind_is_known"),
    CheckConstraint("told_at IS NULL OR attempts > 0", name="told_by_an_attempt"),
    partial_index("ix_alert_notices_due", "not_before", "id", where=_UNTOLD),
    sqlite_autoincrement=True,
)  # fmt: skip

alert_sinks = Table(
    "alert_sinks", metadata,
    Column("sink", Text, primary_key=True),
    Column("since", Moment, nullable=False),
)  # fmt: skip

alert_sightings = Table(
    "alert_sightings", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("rule", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("at", Moment, nullable=False),
    Index("ix_alert_sightings_at", "rule", "key", "at"),
    sqlite_autoincrement=True,
)  # fmt: skip
