"""Dead letters: one for a job, however often it dies; narrow rows to look through, their long texts apart.

What all members of a group share stands once, in `dead_letter_groups`: one row for a fingerprint in a pipeline. How many
letters of each are in which state is counted as they change, and how many died in which hour: nobody counts a million rows.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
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

from reprieve.adapters.sql.tables.columns import Id, Key, Moment, metadata, partial_index

_OPEN = text("state IN ('gathering', 'running', 'paused')")
_WAITING = text("state = 'waiting'")
_NOTABLE = text("state IN ('returned', 'failed', 'left_out')")

dead_letters = Table(
    "dead_letters", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'open'")),
    Column("group_id", BigInteger, nullable=False),
    Column("signature", Text, nullable=False),
    Column("status_code", Integer),
    Column("attempts", Integer, nullable=False),
    Column("budget", Integer, nullable=False),
    Column("pages", Boolean, nullable=False),
    Column("escalated", Boolean, nullable=False),
    Column("cause", Text),
    Column("replays", Integer, nullable=False, server_default=text("0")),
    Column("campaign_id", BigInteger),
    Column("first_failure_at", Moment, nullable=False),
    Column("last_failure_at", Moment, nullable=False),
    Column("opened_at", Moment, nullable=False),
    Column("closed_at", Moment),
    Column("summary", Text),
    UniqueConstraint("job_id"),
    CheckConstraint("state IN ('open', 'triaged', 'remediated', 'approved', 'replaying', 'replayed', 'resolved', 'escalated', "
                    "'discarded')", name="state_is_known"),
    CheckConstraint("cause IS NULL OR cause IN ('transient', 'data', 'auth_config', 'code')", name="cause_is_known"),
    CheckConstraint("first_failure_at <= last_failure_at", name="first_is_not_after_last"),
    CheckConstraint("(state IN ('resolved', 'discarded')) = (closed_at IS NOT NULL)", name="closed_at_some_time"),
    CheckConstraint("state <> 'replaying' OR replays > 0", name="replays_are_counted"),
    Index("ix_dead_letters_state", "state", "last_failure_at", "id"),
    Index("ix_dead_letters_group", "group_id", "state", "last_failure_at", "id"),
    partial_index("ix_dead_letters_closed", "state", "closed_at", where=text("closed_at IS NOT NULL")),
    sqlite_autoincrement=True,
)  # fmt: skip

dead_letter_texts = Table(
    "dead_letter_texts", metadata,
    Column("letter_id", Key, primary_key=True, autoincrement=False),
    Column("message", Text, nullable=False),
    Column("last_stack", Text, nullable=False),
    Column("sanitized_context", Text, nullable=False),
    Column("failure", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("policy", Text, nullable=False),
)  # fmt: skip

dead_letter_groups = Table(
    "dead_letter_groups", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("fingerprint", Text, nullable=False),
    Column("pipeline", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("error_class", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Column("first_seen", Moment, nullable=False),
    Column("last_seen", Moment, nullable=False),
    UniqueConstraint("fingerprint", "pipeline", "stage", "error_class", "category", name="uq_dead_letter_groups_kind"),
    sqlite_autoincrement=True,
)  # fmt: skip

dead_letter_counts = Table(
    "dead_letter_counts", metadata,
    Column("group_id", BigInteger, primary_key=True),
    Column("state", Text, primary_key=True),
    Column("letters", Integer, nullable=False),
    CheckConstraint("letters >= 0", name="counts_are_counts"),
    sqlite_with_rowid=False,
)  # fmt: skip

dead_letter_hours = Table(
    "dead_letter_hours", metadata,
    Column("hour", BigInteger, primary_key=True),
    Column("group_id", BigInteger, primary_key=True),
    Column("deaths", Integer, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

dead_letter_history = Table(
    "dead_letter_history", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("letter_id", BigInteger, nullable=False),
    Column("at", Moment, nullable=False),
    Column("actor", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_dead_letter_history_letter_id", "letter_id", "id"),
    sqlite_autoincrement=True,
)  # fmt: skip

campaigns = Table(
    "campaigns", metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("state", Text, nullable=False),
    Column("selection", Text, nullable=False),
    Column("fingerprint", Text),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("changed_at", Moment, nullable=False),
    Column("reason", Text, nullable=False, server_default=text("''")),
    Column("steps", Text, nullable=False),
    Column("waves", Text, nullable=False),
    Column("rate", Float),
    Column("restart", Boolean, nullable=False),
    Column("stage", Text),
    Column("wave", Integer, nullable=False, server_default=text("0")),
    Column("launched", Integer, nullable=False, server_default=text("0")),
    Column("wave_at", Moment, nullable=False),
    Column("fence", Integer, nullable=False, server_default=text("0")),
    CheckConstraint("state IN ('gathering', 'running', 'paused', 'stopped', 'cancelled', 'done')", name="state_is_known"),
    partial_index("ix_campaigns_of_a_group", "fingerprint", unique=True, where=_OPEN),
    partial_index("ix_campaigns_running", "id", where=text("state = 'running'")),
    sqlite_autoincrement=True,
)  # fmt: skip

campaign_history = Table(
    "campaign_history", metadata,
    Column("campaign_id", BigInteger, primary_key=True),
    Column("fence", Integer, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("actor", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("wave", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

campaign_members = Table(
    "campaign_members", metadata,
    Column("campaign_id", BigInteger, primary_key=True),
    Column("letter_id", BigInteger, primary_key=True),
    Column("place", Integer, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'waiting'")),
    Column("wave", Integer),
    Column("replays", Integer, nullable=False, server_default=text("0")),
    Column("enlisted_as", Text),
    CheckConstraint("state IN ('waiting', 'replaying', 'confirmed', 'returned', 'failed', 'left_out')", name="state_is_known"),
    CheckConstraint("(state = 'waiting') = (wave IS NULL)", name="waiting_for_a_wave"),
    partial_index("ix_campaign_members_next", "campaign_id", "place", where=_WAITING),
    partial_index("ix_campaign_members_notable", "campaign_id", "place", where=_NOTABLE),
    sqlite_with_rowid=False,
)  # fmt: skip

campaign_counts = Table(
    "campaign_counts", metadata,
    Column("campaign_id", BigInteger, primary_key=True),
    Column("wave", Integer, primary_key=True),
    Column("state", Text, primary_key=True),
    Column("members", Integer, nullable=False),
    CheckConstraint("members >= 0", name="counts_are_counts"),
    sqlite_with_rowid=False,
)  # fmt: skip
