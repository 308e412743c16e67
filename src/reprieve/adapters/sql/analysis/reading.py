"""Look-ups on reviews and signatures, the same for both dialects; what waits is found through those that wait alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, or_, select, text

from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import analysis_cache, queue, review_history, reviews
from reprieve.core.analysis import AnalysisStatus, ReviewState
from reprieve.ports.intents import QueueState
from reprieve.ports.reviews import ReviewDetail, ReviewEntry, ReviewView, SignatureDetail, SignatureView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Select, Table

    from reprieve.ports.reviews import ReviewFilter

# In the very words of the partial indexes: SQLite uses them only then.
_OPEN: Final = text("reviews.state IN ('open', 'claimed')")
_UNSETTLED: Final = text("analysis_cache.status <> 'analyzed'")
_VIEW: Final = tuple(
    (reviews.c.id if name == "review_id" else reviews.c[name]).label(name) for name in ReviewView.__slots__
)
_MATERIAL: Final = ("schema", "samples", "answers", "answer")
_DECIDED: Final = (ReviewState.VERIFIED, ReviewState.REJECTED)
_STILL_WAITS: Final = or_(
    reviews.c.job_id.is_(None),
    select(queue.c.job_id)
    .where(
        queue.c.job_id == reviews.c.job_id,
        queue.c.state == QueueState.WAITING,
        func.substr(queue.c.waits_on, 1, 6) == "review",
    )
    .exists(),
)
"""A job that was cancelled, or reported about by other means, does not wait any more."""
_CAN_BE_UNDONE: Final = or_(
    select(analysis_cache.c.fence)
    .where(
        analysis_cache.c.url_signature == reviews.c.url_signature,
        analysis_cache.c.fence == reviews.c.answered_fence,
        analysis_cache.c.is_human_verified,
    )
    .exists(),
    select(queue.c.job_id)
    .where(
        queue.c.job_id == reviews.c.job_id,
        queue.c.fence == reviews.c.answered_fence,
        queue.c.state == QueueState.READY,
    )
    .exists(),
)
"""What was decided stands as it was left."""


class SqlReviewReader:
    """`ports.reviews.ReviewReader` on SQLite and PostgreSQL; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._database = Database.at(url, writes=False)

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._database.close()

    def reviews(self, wanted: ReviewFilter) -> Sequence[ReviewView]:
        """The oldest first; of those that wait, only what still does."""
        statement = select(*_VIEW).order_by(reviews.c.id).limit(wanted.limit)
        states = wanted.states or frozenset({ReviewState.OPEN, ReviewState.CLAIMED})
        if not any(state.closed for state in states):
            statement = statement.where(_OPEN, _STILL_WAITS)
        else:
            waiting = and_(reviews.c.state.in_(["open", "claimed"]), ~_STILL_WAITS)
            statement = statement.where(~waiting)
        statement = statement.where(reviews.c.state.in_(sorted(states)))
        for name in ("pipeline", "url_signature", "job_id", "claimed_by"):
            value = getattr(wanted, name)
            if value is not None:
                statement = statement.where(reviews.c[name] == value)
        if wanted.after is not None:
            statement = statement.where(reviews.c.id > wanted.after)
        return [_view(row) for row in self._rows(statement)]

    def review(self, review_id: int) -> ReviewDetail | None:
        """One, or None; withdrawn also where what it is about does not wait any more, and nobody has written that down yet."""
        derived = (_STILL_WAITS.label("still_waits"), _CAN_BE_UNDONE.label("can_be_undone"))
        whole = select(*_VIEW, *(reviews.c[name] for name in _MATERIAL), reviews.c.answered_fence, *derived)
        rows = self._rows(whole.where(reviews.c.id == review_id))
        if not rows:
            return None
        entries = select(*_columns(review_history, ReviewEntry)).where(review_history.c.review_id == review_id)
        material = {name: _bytes(getattr(rows[0], name)) for name in _MATERIAL}
        view = _view(rows[0])
        if not view.state.closed and not rows[0].still_waits:
            view = replace(view, state=ReviewState.WITHDRAWN)
        return ReviewDetail(
            review=view, history=self._entries(entries), is_pruned=_is_pruned(rows[0]), **material,
            can_be_undone=view.state in _DECIDED and bool(rows[0].can_be_undone),
        )  # fmt: skip

    def signatures(
        self, status: AnalysisStatus | None, *, limit: int, after: str | None, error_type: str | None = None
    ) -> Sequence[SignatureView]:
        """What is known of signatures, in their order; page on with `after`."""
        cached = analysis_cache.c
        statement = select(*_columns(analysis_cache, SignatureView)).order_by(cached.url_signature).limit(limit)
        if status is not None:
            statement = statement.where(cached.status == status.value)
            if status is not AnalysisStatus.ANALYZED:
                statement = statement.where(_UNSETTLED)
        if error_type is not None:
            statement = statement.where(cached.error_type == error_type)
        if after is not None:
            statement = statement.where(cached.url_signature > after)
        return [_signature(row) for row in self._rows(statement)]

    def signature(self, url_signature: str) -> SignatureDetail | None:
        """One, or None."""
        statement = select(*_columns(analysis_cache, SignatureView), analysis_cache.c.answer)
        rows = self._rows(statement.where(analysis_cache.c.url_signature == url_signature))
        if not rows:
            return None
        history = self.history(url_signature)
        return SignatureDetail(signature=_signature(rows[0]), answer=_bytes(rows[0].answer), history=history)

    def history(self, url_signature: str) -> Sequence[ReviewEntry]:
        """All that people did about a signature, in order."""
        entries = select(*_columns(review_history, ReviewEntry))
        return self._entries(entries.where(review_history.c.url_signature == url_signature))

    def _entries(self, statement: Select[Any]) -> Sequence[ReviewEntry]:
        rows = self._rows(statement.order_by(review_history.c.id))
        return [ReviewEntry(**{**row._asdict(), "answer": _bytes(row.answer)}) for row in rows]

    def _rows(self, statement: Select[Any]) -> Sequence[Any]:
        with self._database.transaction() as connection:
            return connection.execute(statement).all()


def _columns(table: Table, view: type) -> list[ColumnElement[Any]]:
    names: tuple[str, ...] = view.__slots__  # type: ignore[attr-defined]  # all views are slotted
    return [table.c[name] for name in names]


def _view(row: Any) -> ReviewView:  # noqa: ANN401 - a row of the table
    values = {name: getattr(row, name) for name in ReviewView.__slots__}
    return ReviewView(**{**values, "state": ReviewState(row.state)})


def _is_pruned(row: Any) -> bool:  # noqa: ANN401 - the same
    return row.job_id is None and row.state in _DECIDED and row.answered_fence is None


def _signature(row: Any) -> SignatureView:  # noqa: ANN401 - a row of the table
    values = {name: getattr(row, name) for name in SignatureView.__slots__}
    return SignatureView(**{**values, "status": AnalysisStatus(row.status)})


def _bytes(value: Any) -> bytes | None:  # noqa: ANN401 - a driver's own kind
    return None if value is None else bytes(value)
