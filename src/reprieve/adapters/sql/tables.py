"""The schema, once for both dialects.

Jobs never change once they are written; what moves is the narrow `queue`, whose rows come and go, and `outcomes`, to which
one row is added when a job ends. A job has exactly one of the two. So a million finished jobs do not slow a claim, and
finishing a job rewrites nothing wide. There are no foreign keys between them: PostgreSQL would check each row of each
batch; `reprieve db check` looks for orphans instead.

AS_GIVEN lists the columns that hold users' data as it was given; every other text is sanitized before it gets here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine


class Moment(TypeDecorator[float]):
    """Seconds since the epoch in Python; a timestamp with time zone on PostgreSQL, a number on SQLite."""

    impl = Float
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose by dialect."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(Float(53))

    def process_bind_param(self, value: float | None, dialect: Dialect) -> object:
        """Seconds to what the column takes."""
        if value is None or dialect.name != "postgresql":
            return value
        return datetime.fromtimestamp(value, tz=UTC)

    def process_result_value(self, value: object, dialect: Dialect) -> float | None:
        """What the column gives to seconds."""
        _ = dialect
        if isinstance(value, datetime):
            return value.timestamp()
        return value if value is None else float(value)  # type: ignore[arg-type]  # a REAL of SQLite


metadata = MetaData(
    naming_convention={"ix": "ix_%(column_0_N_label)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s",
                       "ck": "ck_%(table_name)s_%(constraint_name)s"}
)  # fmt: skip

Id = BigInteger().with_variant(Integer(), "sqlite")
"""An id that SQLite gives out by itself only where it is called INTEGER."""

meta = Table(
    "meta", metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)  # fmt: skip

jobs = Table(
    "jobs", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("idempotency_key", Text, nullable=False),
    Column("pipeline", Text, nullable=False),
    Column("first_stage", Text, nullable=False),
    Column("subject", Text),
    Column("version", Integer),
    Column("rerun_of", BigInteger),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("created_at", Moment, nullable=False),
    Column("payload_type", Text, nullable=False),
    Column("codec", SmallInteger, nullable=False, server_default=text("1")),
    Column("payload", LargeBinary),
    UniqueConstraint("idempotency_key"),
    CheckConstraint("(subject IS NULL) = (version IS NULL)", name="subject_has_a_version"),
    CheckConstraint("version IS NULL OR version >= 1", name="versions_count_from_one"),
    Index("uq_jobs_pipeline_subject_version", "pipeline", "subject", "version", unique=True,
          postgresql_where=text("subject IS NOT NULL"), sqlite_where=text("subject IS NOT NULL")),
    sqlite_autoincrement=True,
)  # fmt: skip

queue = Table(
    "queue", metadata,
    Column("job_id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("pipeline", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    Column("worker_id", BigInteger),
    Column("leased_at", Moment),
    Column("run_at", Moment),
    Column("opened_at", Moment),
    Column("waits_on", Text),
    Column("alone", Boolean, nullable=False, server_default=text("false")),
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    Column("cancelled_by", Text),
    Column("cancel_reason", Text),
    Column("handler", SmallInteger, nullable=False, server_default=text("0")),
    Column("crash", SmallInteger, nullable=False, server_default=text("0")),
    Column("out_of_memory", SmallInteger, nullable=False, server_default=text("0")),
    Column("lost_lease", SmallInteger, nullable=False, server_default=text("0")),
    Column("deploy", SmallInteger, nullable=False, server_default=text("0")),
    CheckConstraint("state IN (0, 1, 2, 3, 4)", name="state_is_known"),
    CheckConstraint("(state = 1) = (worker_id IS NOT NULL)", name="leased_by_somebody"),
    CheckConstraint("(state = 1) = (leased_at IS NOT NULL)", name="leased_at_some_time"),
    CheckConstraint("state <> 2 OR run_at IS NOT NULL", name="scheduled_for_some_time"),
    CheckConstraint("(state = 3) = (waits_on IS NOT NULL)", name="waiting_on_something"),
    CheckConstraint("handler >= 0 AND crash >= 0 AND out_of_memory >= 0 AND lost_lease >= 0 AND deploy >= 0",
                    name="attempts_are_counted"),
    Index("ix_queue_ready", "pipeline", "stage", text("priority DESC"), "job_id",
          postgresql_where=text("state = 0"), sqlite_where=text("state = 0")),
    Index("ix_queue_scheduled", "run_at", postgresql_where=text("state = 2"), sqlite_where=text("state = 2")),
    Index("ix_queue_suspect", "job_id", postgresql_where=text("state = 4"), sqlite_where=text("state = 4")),
    Index("ix_queue_waiting", "waits_on", postgresql_where=text("state = 3"), sqlite_where=text("state = 3")),
    Index("ix_queue_cancel", "worker_id", postgresql_where=text("cancel_requested"),
          sqlite_where=text("cancel_requested")),
)  # fmt: skip

outcomes = Table(
    "outcomes", metadata,
    Column("job_id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("status", Text, nullable=False),
    Column("status_code", SmallInteger),
    Column("stage", Text, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", SmallInteger, nullable=False),
    Column("started_at", Moment),
    Column("finished_at", Moment, nullable=False),
    Column("reason", Text),
    Column("ended_by", Text),
    Column("result_type", Text),
    Column("codec", SmallInteger, nullable=False, server_default=text("1")),
    Column("result", LargeBinary),
    CheckConstraint("status IN ('succeeded', 'dead_letter', 'skipped', 'cancelled')", name="status_is_an_end"),
    CheckConstraint("(status = 'dead_letter') = (status_code IS NOT NULL)", name="dead_letters_have_a_code"),
    CheckConstraint("status_code IS NULL OR status_code = 599", name="the_code_is_599"),
    CheckConstraint("status = 'succeeded' OR result IS NULL", name="only_success_has_a_result"),
    Index("ix_outcomes_unsuccessful", "status", "job_id",
          postgresql_where=text("status <> 'succeeded'"), sqlite_where=text("status <> 'succeeded'")),
)  # fmt: skip

checkpoints = Table(
    "checkpoints", metadata,
    Column("job_id", BigInteger, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", SmallInteger, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("finished_at", Moment, nullable=False),
    Column("result_type", Text, nullable=False),
    Column("codec", SmallInteger, nullable=False, server_default=text("1")),
    Column("result", LargeBinary),
    sqlite_with_rowid=False,
)  # fmt: skip

memos = Table(
    "memos", metadata,
    Column("job_id", BigInteger, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("created_at", Moment, nullable=False),
    Column("codec", SmallInteger, nullable=False, server_default=text("1")),
    Column("value", LargeBinary),
)  # fmt: skip

attempts = Table(
    "attempts", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("stage", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("cause", Text, nullable=False),
    Column("counted", Boolean, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment, nullable=False),
    Column("worker_id", BigInteger),
    Column("decision", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("error_class", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("error_type", Text, nullable=False),
    Column("error_retryable", Boolean, nullable=False),
    Column("status_code", Integer),
    Column("message", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("failure", Text, nullable=False),
    Column("failure_count", Integer, nullable=False),
    Column("retry_at", Moment),
    CheckConstraint("error_type IN ('retryable', 'terminal', 'rate_limit')", name="error_type_is_known"),
    CheckConstraint("cause IN ('handler', 'crash', 'out_of_memory', 'lost_lease', 'deploy')", name="cause_is_known"),
    CheckConstraint("decision IN ('retry', 'dead_letter', 'park', 'abort')", name="decision_is_known"),
    CheckConstraint("(decision = 'retry') = (retry_at IS NOT NULL)", name="a_retry_has_its_time"),
    CheckConstraint("length(message) <= 1000", name="messages_are_short"),
    Index("ix_attempts_job_id", "job_id", "id"),
    sqlite_autoincrement=True,
)  # fmt: skip

dead_letters = Table(
    "dead_letters", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'open'")),
    Column("pipeline", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("error_class", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("last_stack", Text, nullable=False),
    Column("sanitized_context", Text, nullable=False),
    Column("failure", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("budget", Integer, nullable=False),
    Column("status_code", Integer),
    Column("pages", Boolean, nullable=False),
    Column("escalated", Boolean, nullable=False),
    Column("first_failure_at", Moment, nullable=False),
    Column("last_failure_at", Moment, nullable=False),
    Column("opened_at", Moment, nullable=False),
    Column("closed_at", Moment),
    CheckConstraint("first_failure_at <= last_failure_at", name="first_is_not_after_last"),
    UniqueConstraint("job_id", "fence"),
    sqlite_autoincrement=True,
)  # fmt: skip

workers = Table(
    "workers", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("stopping", Boolean, nullable=False, server_default=text("false")),
    Column("lost_cause", Text),
    sqlite_autoincrement=True,
)  # fmt: skip

stages = Table(
    "stages", metadata,
    Column("pipeline", Text, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("paused_by", Text),
    Column("reason", Text),
    Column("held_until", Moment),
    Column("opened_at", Moment),
    Column("error_class", Text),
    Column("probe_until", Moment),
    Column("changed_at", Moment),
    CheckConstraint("paused = (paused_by IS NOT NULL)", name="paused_by_somebody"),
    CheckConstraint("opened_at IS NULL OR held_until IS NOT NULL", name="an_open_breaker_holds"),
)  # fmt: skip

AS_GIVEN: Final = {
    "jobs": ("idempotency_key", "subject", "payload"),
    "outcomes": ("result",),
    "checkpoints": ("result",),
    "memos": ("key", "value"),
}
"""Columns that hold what users gave, as they gave it."""
