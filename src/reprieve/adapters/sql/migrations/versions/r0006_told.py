"""What questions took, and since when which sinks are known."""

from __future__ import annotations

from typing import Final

from alembic import op
from sqlalchemy import text

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_WORDS: Final = {
    "sqlite": {"moment": "FLOAT", "double": "FLOAT"},
    "postgresql": {"moment": "TIMESTAMP WITH TIME ZONE", "double": "DOUBLE PRECISION"},
}

_CHANGES: Final = (
    "ALTER TABLE analysis_cache ADD COLUMN input_tokens BIGINT",
    "ALTER TABLE analysis_cache ADD COLUMN output_tokens BIGINT",
    "ALTER TABLE analysis_cache ADD COLUMN cost {double}",
    "CREATE INDEX ix_alerts_resolved_at ON alerts (resolved_at) WHERE resolved_at IS NOT NULL",
    """
    CREATE TABLE alert_sinks (
        sink TEXT NOT NULL,
        since {moment} NOT NULL,
        CONSTRAINT pk_alert_sinks PRIMARY KEY (sink)
    )
    """,
)


def upgrade() -> None:
    """Add to what there is."""
    words = _WORDS[op.get_bind().dialect.name]
    for statement in _CHANGES:
        op.execute(text(statement.format(**words)))
