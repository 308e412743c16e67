"""The schema, once for both dialects.

Jobs never change once they are written; what moves is the narrow `queue`, whose rows come and go, and `outcomes`, to which
one row is added when a job ends. A job has exactly one of the two. So a million finished jobs do not slow a claim, and
finishing a job rewrites nothing wide. There are no foreign keys between them: PostgreSQL would check each row of each
batch; `reprieve db check` looks for orphans instead.

AS_GIVEN lists the columns that hold users' data as it was given; every other text is sanitized before it gets here.
"""

from __future__ import annotations

from typing import Final

from reprieve.adapters.sql.tables.alerts import alert_notices, alert_sightings, alert_sinks, alerts
from reprieve.adapters.sql.tables.analysis import analysis_cache, review_history, reviews
from reprieve.adapters.sql.tables.columns import Moment, metadata
from reprieve.adapters.sql.tables.dead_letters import (
    campaign_counts,
    campaign_history,
    campaign_members,
    campaigns,
    dead_letter_counts,
    dead_letter_groups,
    dead_letter_history,
    dead_letter_hours,
    dead_letter_texts,
    dead_letters,
)
from reprieve.adapters.sql.tables.deliveries import deliveries, delivery_attempts
from reprieve.adapters.sql.tables.jobs import (
    attempts,
    checkpoints,
    jobs,
    memos,
    meta,
    outcomes,
    queue,
    revisions,
    stages,
    workers,
)

__all__ = [
    "AS_GIVEN",
    "Moment",
    "alert_notices",
    "alert_sightings",
    "alert_sinks",
    "alerts",
    "analysis_cache",
    "attempts",
    "campaign_counts",
    "campaign_history",
    "campaign_members",
    "campaigns",
    "checkpoints",
    "dead_letter_counts",
    "dead_letter_groups",
    "dead_letter_history",
    "dead_letter_hours",
    "dead_letter_texts",
    "dead_letters",
    "deliveries",
    "delivery_attempts",
    "jobs",
    "memos",
    "meta",
    "metadata",
    "outcomes",
    "queue",
    "review_history",
    "reviews",
    "revisions",
    "stages",
    "workers",
]

AS_GIVEN: Final = {
    "jobs": ("idempotency_key", "subject", "payload"),
    "revisions": ("payload",),
    "outcomes": ("result",),
    "checkpoints": ("result",),
    "memos": ("key", "value"),
    "deliveries": ("changelist_id", "recipient", "body"),
    "analysis_cache": ("url_signature", "answer"),
    "reviews": ("url_signature", "schema", "samples", "answers", "answer"),
    "review_history": ("url_signature", "answer"),
}
"""Columns that hold what users gave, as they gave it."""
