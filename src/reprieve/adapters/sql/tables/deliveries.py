"""Deliveries, one row for a recipient of a version, and the log of all that was tried for each."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from reprieve.adapters.sql.tables.columns import Id, Moment, metadata, partial_index

_UNSETTLED = text("status IN ('sending', 'uncertain', 'reconciling')")
_UNPROVEN = text("status = 'sent' AND notification_id IS NULL AND evidence IS NULL")

deliveries = Table(
    "deliveries", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", BigInteger, nullable=False),
    Column("changelist_id", Text, nullable=False),
    Column("recipient", Text, nullable=False),
    Column("review_version", Integer, nullable=False),
    Column("sender", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("required", Boolean, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'pending'")),
    Column("notification_id", Text),
    Column("notified_at", Moment),
    Column("evidence", Text),
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("lookups", Integer, nullable=False, server_default=text("0")),
    Column("first_sent_at", Moment),
    Column("last_sent_at", Moment),
    Column("leased_until", Moment),
    Column("not_before", Moment),
    Column("reason", Text),
    Column("resent", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", Moment, nullable=False),
    Column("changed_at", Moment, nullable=False),
    Column("codec", SmallInteger, nullable=False, server_default=text("1")),
    Column("body", LargeBinary),
    UniqueConstraint("changelist_id", "recipient", "review_version"),
    CheckConstraint("status IN ('pending', 'sending', 'sent', 'failed', 'uncertain', 'reconciling', 'held')", name="status_is_known"),
    CheckConstraint("review_version >= 1", name="versions_count_from_one"),
    CheckConstraint("status <> 'pending' OR (notified_at IS NULL AND notification_id IS NULL)", name="pending_is_unmarked"),
    CheckConstraint("status <> 'sent' OR notified_at IS NOT NULL", name="sent_has_a_time"),
    CheckConstraint("(attempts = 0) = (first_sent_at IS NULL)", name="attempts_have_a_time"),
    Index("ix_deliveries_job_id", "job_id", "id"),
    partial_index("ix_deliveries_unsettled", "not_before", "id", where=_UNSETTLED),
    partial_index("ix_deliveries_unproven", "id", where=_UNPROVEN),
    partial_index("ix_deliveries_open", "status", "id", where=text("status <> 'sent'")),
    sqlite_autoincrement=True,
)  # fmt: skip

delivery_attempts = Table(
    "delivery_attempts", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("delivery_id", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment, nullable=False),
    Column("phase", Text),
    Column("answer", Text, nullable=False),
    Column("error_class", Text),
    Column("message", Text, nullable=False),
    Column("notification_id", Text),
    Column("actor", Text, nullable=False),
    Index("ix_delivery_attempts_delivery_id", "delivery_id", "id"),
    sqlite_autoincrement=True,
)  # fmt: skip
