"""What pruning and erasing do to reviews: those of jobs that are over go, or lose what users gave; an open one never."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from reprieve.adapters.sql.deliveries.keeping import chunks
from reprieve.adapters.sql.tables import review_history, reviews

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection


def prune_reviews(connection: Connection, job_ids: Sequence[int]) -> None:
    """Remove the reviews of jobs that are removed, with their history; such a job is over, so nobody waits any more."""
    for some in chunks(job_ids):
        ids = connection.scalars(select(reviews.c.id).where(reviews.c.job_id.in_(some))).all()
        for few in chunks(ids):
            connection.execute(delete(review_history).where(review_history.c.review_id.in_(few)))
            connection.execute(delete(reviews).where(reviews.c.id.in_(few)))


def erase_reviews(connection: Connection, job_ids: Sequence[int]) -> None:
    """Take samples and answers out of the reviews of these jobs, which are over; who decided what, and when, stays."""
    nothing = {"samples": None, "answers": None, "schema": None}
    for some in chunks(job_ids):
        ids = connection.scalars(select(reviews.c.id).where(reviews.c.job_id.in_(some))).all()
        for few in chunks(ids):
            connection.execute(update(review_history).where(review_history.c.review_id.in_(few)).values(answer=None))
            connection.execute(update(reviews).where(reviews.c.id.in_(few)).values(answer=None, **nothing))
