"""What questions took, and since when which sinks are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def statements(dialect: str) -> Iterator[str]:
    """Yield the statements of this step, as a dialect has them."""
    words = _WORDS[dialect]
    for statement in _CHANGES:
        yield statement.format(**words)
