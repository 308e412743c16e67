"""How something comes to wait for a person, in the transaction that makes it wait; what does not wait any more is withdrawn."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.words import Ask
from reprieve.core.analysis import ReviewEvent, ReviewState
from reprieve.ports.intents import Material

if TYPE_CHECKING:
    from reprieve.adapters.sql.words import Talk, Words

ENGINE: Final = "reprieve"
"""Who does what nobody did by hand."""
_NOTHING: Final = Material()


def ask_of_signature(
    words: Words, signature: str, *, question: str, error_type: str, reason: str, material: Material | None, now: float
) -> Talk[None]:
    """A signature waits for a person."""
    about = {"url_signature": signature, "job_id": None, "pipeline": None, "stage": None, "question": question}
    told = {"error_type": error_type, "reason": reason, "opened_at": now}
    rows = yield Ask(_open(words), {**about, **told, **_of(material)})
    yield from tell(
        words, rows[0][0], signature, ReviewEvent.ASK, None, ReviewState.OPEN, actor=ENGINE, note=reason, now=now
    )


def ask_of_job(
    words: Words, job_id: int, *, error_type: str, reason: str, material: Material | None, now: float
) -> Talk[None]:
    """A job waits for a person; where somebody took it out of an earlier wait by other means, that review is over."""
    for review_id, state in (yield Ask(_earlier(words), {"job_id": job_id})):
        yield from withdraw(words, review_id, state, note="its job was asked about anew", now=now)
    standing = yield Ask(_stands(words), {"job_id": job_id})
    if not standing:
        return
    pipeline, stage = standing[0]
    about = {"url_signature": None, "job_id": job_id, "pipeline": pipeline, "stage": stage, "question": None}
    told = {"error_type": error_type, "reason": reason, "opened_at": now}
    rows = yield Ask(_open(words), {**about, **told, **_of(material)})
    yield from tell(
        words, rows[0][0], None, ReviewEvent.ASK, None, ReviewState.OPEN, actor=ENGINE, note=reason, now=now
    )


def withdraw(words: Words, review_id: int, state: str, *, note: str, now: float) -> Talk[None]:
    """What it is about does not wait any more."""
    yield Ask(_withdraw(words), {"id": review_id, "now": now, "actor": ENGINE})
    after = ReviewState.WITHDRAWN
    yield from tell(words, review_id, None, ReviewEvent.WITHDRAW, state, after, actor=ENGINE, note=note, now=now)


def tell(  # noqa: PLR0913 - the columns of an entry
    words: Words, review_id: int | None, signature: str | None, event: ReviewEvent, before: str | None, after: str | None, *,
    actor: str, note: str, now: float, answer: bytes | None = None,
) -> Talk[None]:  # fmt: skip
    """Add an entry to the history, to which entries are only ever added."""
    values = {
        "review_id": review_id, "url_signature": signature, "at": now, "actor": actor, "event": event.value, "before": before,
        "after": after, "note": note, "answer": answer,
    }  # fmt: skip
    yield Ask(_tell(words), values)


def _of(material: Material | None) -> dict[str, bytes | None]:
    found = _NOTHING if material is None else material
    return {"schema": found.schema, "samples": found.samples, "answers": found.answers}


_KINDS: Final = {
    "url_signature": "text", "job_id": "bigint", "pipeline": "text", "stage": "text", "question": "text", "error_type": "text",
    "reason": "text", "opened_at": "moment", "schema": "bytea", "samples": "bytea", "answers": "bytea",
}  # fmt: skip
_ENTRY: Final = {
    "review_id": "bigint", "url_signature": "text", "at": "moment", "actor": "text", "event": "text", "before": "text",
    "after": "text", "note": "text", "answer": "bytea",
}  # fmt: skip


@cache
def _open(words: Words) -> str:
    values = ", ".join(words.value(name, kind) for name, kind in _KINDS.items())
    return f"INSERT INTO reviews ({', '.join(_KINDS)}) VALUES ({values}) RETURNING id"  # noqa: S608 - names of ours


@cache
def _tell(words: Words) -> str:
    values = ", ".join(words.value(name, kind) for name, kind in _ENTRY.items())
    return f"INSERT INTO review_history ({', '.join(_ENTRY)}) VALUES ({values})"  # noqa: S608 - names of ours


@cache
def _withdraw(words: Words) -> str:
    return f"""
    UPDATE reviews SET state = 'withdrawn', closed_at = {words.value("now", "moment")}, closed_by = {words.value("actor")}
    WHERE id = {words.value("id", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _earlier(words: Words) -> str:
    return f"""
    SELECT id, state FROM reviews WHERE job_id = {words.value("job_id", "bigint")} AND state IN ('open', 'claimed')
    {words.lock("FOR UPDATE")}
    """  # noqa: S608 - assembled from constants


@cache
def _stands(words: Words) -> str:
    return f"SELECT pipeline, stage FROM queue WHERE job_id = {words.value('job_id', 'bigint')}"  # noqa: S608 - constants
