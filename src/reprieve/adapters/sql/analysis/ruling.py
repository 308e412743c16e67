"""What people say about a review, and what that does to its signature or job: one transaction, as the states allow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.analysis import answering
from reprieve.adapters.sql.analysis.opening import tell, withdraw
from reprieve.adapters.sql.words import Ask
from reprieve.core.analysis import ReviewEvent, ReviewState, review_after
from reprieve.errors import IllegalTransitionError
from reprieve.ports.intents import Ruled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.ports.intents import Rule

_OWNED: Final = frozenset({ReviewEvent.CLAIM, ReviewEvent.RELEASE, ReviewEvent.VERIFY, ReviewEvent.REJECT})
"""What nobody does while somebody else is at it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A review that nobody else can change meanwhile."""

    review_id: int
    signature: str | None
    job_id: int | None
    stage: str | None
    question: str | None
    stored_state: str
    claimed_by: str | None
    answered_fence: int | None

    @property
    def state(self) -> ReviewState:
        """How far it is."""
        return ReviewState(self.stored_state)


def hold(words: Words, ids: Iterable[int]) -> Talk[list[str]]:
    """Keep others from changing these; which signatures they are about."""
    wanted = sorted(set(ids))
    if not wanted:
        return []
    rows = yield Ask(_hold(words), {"ids": words.listed(wanted)})
    return [row[0] for row in rows if row[0] is not None]


def rule(words: Words, said: Rule, *, again: bool) -> Talk[Ruled]:
    """Have it happen, or say why not."""
    rows = yield Ask(_look(words), {"id": said.review_id})
    if not rows:
        return Ruled(state=None, why=f"there is no review {said.review_id}")
    review = Held(*rows[0])
    if again and (yield from _told_before(words, said)):
        return Ruled(state=review.state)
    after = _after(review, said)
    if isinstance(after, Ruled):
        return after
    if not review.state.closed and not (yield from answering.waits(words, review)):
        note = "what it is about does not wait for a person any more"
        yield from withdraw(words, review.review_id, review.state, note=note, now=said.now)
        return Ruled(state=ReviewState.WITHDRAWN, why=note)
    fence = review.answered_fence
    if said.event in {ReviewEvent.VERIFY, ReviewEvent.REJECT, ReviewEvent.UNDO}:
        answered = yield from answering.answer(words, review, said)
        if isinstance(answered, str):
            return Ruled(state=review.state, why=answered)
        fence = answered
    yield from _write(words, review, said, after, fence)
    return Ruled(state=after)


def _after(review: Held, said: Rule) -> ReviewState | Ruled:
    """What the review is once it has happened, or why it may not."""
    try:
        after = review_after(review.state, said.event)
    except IllegalTransitionError as error:
        return Ruled(state=review.state, why=str(error))
    if said.event in _OWNED and review.claimed_by not in (None, said.actor) and not said.take_over:
        return Ruled(state=review.state, why=f"{review.claimed_by} is at it: take it over if that is meant")
    return after


def _write(words: Words, review: Held, said: Rule, after: ReviewState, fence: int | None) -> Talk[None]:
    claims = said.event is ReviewEvent.CLAIM
    keeps = after.closed and review.claimed_by is not None
    values = {
        "id": review.review_id, "state": after.value, "actor": said.actor, "now": said.now, "claims": claims, "keeps": keeps,
        "closes": after.closed, "answer": said.answer if said.event is ReviewEvent.VERIFY else None, "fence": fence,
    }  # fmt: skip
    yield Ask(_rule(words), values)
    yield from tell(
        words, review.review_id, review.signature, said.event, review.state, after, actor=said.actor, note=said.note,
        now=said.now, answer=said.answer,
    )  # fmt: skip


def _told_before(words: Words, said: Rule) -> Talk[bool]:
    values = {"id": said.review_id, "event": said.event.value, "actor": said.actor, "now": said.now}
    return bool((yield Ask(_told(words), values)))


@cache
def _hold(words: Words) -> str:
    among = words.among("ids")
    return f"SELECT url_signature FROM reviews WHERE id {among} ORDER BY id {words.lock('FOR UPDATE')}"  # noqa: S608 - constants


@cache
def _look(words: Words) -> str:
    return f"""
    SELECT id, url_signature, job_id, stage, question, state, claimed_by, answered_fence FROM reviews
    WHERE id = {words.value("id", "bigint")} {words.lock("FOR UPDATE")}
    """  # noqa: S608 - assembled from constants


@cache
def _told(words: Words) -> str:
    return f"""
    SELECT id FROM review_history WHERE review_id = {words.value("id", "bigint")} AND event = {words.value("event")}
      AND actor = {words.value("actor")} AND at = {words.value("now", "moment")}
    """  # noqa: S608 - assembled from constants


@cache
def _rule(words: Words) -> str:
    claims, keeps, closes = (words.value(name, "boolean") for name in ("claims", "keeps", "closes"))
    actor, now = words.value("actor"), words.value("now", "moment")
    return f"""
    UPDATE reviews SET state = {words.value("state")}, answer = {words.value("answer", "bytea")},
      answered_fence = {words.value("fence", "bigint")},
      claimed_by = CASE WHEN {claims} THEN {actor} WHEN {keeps} THEN claimed_by END,
      claimed_at = CASE WHEN {claims} THEN {now} WHEN {keeps} THEN claimed_at END,
      closed_by = CASE WHEN {closes} THEN {actor} END, closed_at = CASE WHEN {closes} THEN {now} END
    WHERE id = {words.value("id", "bigint")}
    """  # noqa: S608 - assembled from constants
