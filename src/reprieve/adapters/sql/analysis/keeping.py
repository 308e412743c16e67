"""What pruning and erasing do to reviews and signatures: what waits is never pruned; who decided what, and when, outlives the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, delete, func, or_, select, text, update

from reprieve.adapters.sql.dead_letters.keeping import ERASED
from reprieve.adapters.sql.deliveries.keeping import chunks
from reprieve.adapters.sql.engine import PATIENCE
from reprieve.adapters.sql.tables import analysis_cache, review_history, reviews
from reprieve.core.backoff import shown
from reprieve.errors import RefusedError
from reprieve.ports.reviews import ReviewsPruned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

_MATERIAL: Final = ("samples", "answers", "schema")
_NAMED: Final = 20
"""Signatures in one message."""


def prune_reviews(connection: Connection, job_ids: Sequence[int]) -> None:
    """Remove the reviews of jobs that are removed, with their history; such a job is over, so nobody waits any more."""
    for some in chunks(job_ids):
        ids = connection.scalars(select(reviews.c.id).where(reviews.c.job_id.in_(some))).all()
        for few in chunks(ids):
            connection.execute(delete(review_history).where(review_history.c.review_id.in_(few)))
            connection.execute(delete(reviews).where(reviews.c.id.in_(few)))


def erase_reviews(connection: Connection, job_ids: Sequence[int]) -> None:
    """Take samples and answers out of the reviews of these jobs, which are over; who decided what, and when, stays."""
    nothing = dict.fromkeys((*_MATERIAL, "answer"))
    for some in chunks(job_ids):
        ids = connection.scalars(select(reviews.c.id).where(reviews.c.job_id.in_(some))).all()
        for few in chunks(ids):
            said = update(review_history).where(review_history.c.review_id.in_(few))
            connection.execute(said.values(answer=None, note=ERASED))
            connection.execute(update(reviews).where(reviews.c.id.in_(few)).values(reason=ERASED, **nothing))


def prune_material(connection: Connection, *, before: float, limit: int, dry: bool, after: int) -> ReviewsPruned:
    """Of the next reviews, take out what those of signatures were decided by that were closed before."""
    following = select(reviews.c.id).where(reviews.c.id > after).order_by(reviews.c.id).limit(limit)
    ids = connection.scalars(following).all()
    if not ids:
        return ReviewsPruned(reviews=0, after=after)
    # Without its fence nobody takes a decision back, whoever asks for that meanwhile: there is nothing left to decide anew by.
    gone = (*_MATERIAL, "answered_fence")
    due = and_(
        reviews.c.id.between(ids[0], ids[-1]),
        reviews.c.url_signature.is_not(None),
        reviews.c.closed_at < before,
        or_(*(reviews.c[name].is_not(None) for name in gone)),
    )
    if dry:
        count = connection.scalar(select(func.count()).select_from(reviews).where(due)) or 0
    else:
        count = connection.execute(update(reviews).where(due).values(**dict.fromkeys(gone))).rowcount
    return ReviewsPruned(reviews=count, more=len(ids) == limit, after=ids[-1])


def erase_signatures(connection: Connection, signatures: Sequence[str], *, now: float) -> list[str]:
    """Remove all that is known of these, what waits for a person too; those of which something was."""
    if connection.dialect.name == "postgresql":
        # In the order of everybody else: reviews, then signatures.
        for some in chunks(signatures):
            connection.execute(select(reviews.c.id).where(reviews.c.url_signature.in_(some)).order_by(reviews.c.id).with_for_update())  # fmt: skip
        # Whoever asks writes a signature down and holds it in two steps: nobody is between them while this is held.
        connection.execute(text(f"SET LOCAL lock_timeout = '{PATIENCE * 1000:.0f}ms'"))
        connection.execute(text("LOCK TABLE analysis_cache IN EXCLUSIVE MODE"))
    _refuse_asked(connection, signatures, now)
    known: set[str] = set()
    for some in chunks(signatures):
        ids = connection.scalars(select(reviews.c.id).where(reviews.c.url_signature.in_(some))).all()
        for few in chunks(ids):
            # Not every entry of a review names its signature.
            connection.execute(delete(review_history).where(review_history.c.review_id.in_(few)))
        for table in (review_history, reviews, analysis_cache):
            name = table.c.url_signature
            known.update(connection.scalars(delete(table).where(name.in_(some)).returning(name)))
    return [each for each in signatures if each in known]


def _refuse_asked(connection: Connection, signatures: Sequence[str], now: float) -> None:
    name = analysis_cache.c.url_signature
    asked = [
        each
        for some in chunks(signatures)
        for each in connection.scalars(select(name).where(name.in_(some), analysis_cache.c.leased_until > now))
    ]
    if asked:
        named = ", ".join(shown(each) for each in sorted(asked)[:_NAMED])
        more = f" and {len(asked) - _NAMED} more" if len(asked) > _NAMED else ""
        one = len(asked) == 1
        raise RefusedError(
            f"{named}{more} {'is' if one else 'are'} being asked about: try again once that is over; nothing is erased"
        )
