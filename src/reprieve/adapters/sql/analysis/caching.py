"""Signatures: held by one who asks the model, settled, put off, handed to people; each write is guarded by the fence."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from reprieve.adapters.sql.analysis.opening import ask_of_signature, tell
from reprieve.adapters.sql.words import Ask, rows_as_json
from reprieve.core.analysis import AnalysisStatus, ReviewEvent, Standing, standing
from reprieve.ports import intents as i
from reprieve.ports.intents import AnalysisRow, Written
from reprieve.ports.modelling import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve.adapters.sql.words import Talk, Words

_MOMENTS: Final = frozenset({"last_error_at", "retry_after", "leased_until", "changed_at"})
_COLUMNS: Final = (
    "url_signature", "question", "status", "is_human_verified", "answer", "model", "error_type", "error_reason",
    "failure_count", "last_error_at", "retry_after", "fence", "leased_by", "leased_until", "changed_at", "input_tokens",
    "output_tokens", "cost",
)  # fmt: skip
_STATUSES: Final = {each.value: each for each in AnalysisStatus}
_NOTHING: Final = Usage()
_SAME: Final = 1e-4
"""Seconds within which two moments are the same: PostgreSQL keeps microseconds."""


def row_of(row: Sequence[Any]) -> AnalysisRow:
    """A row of `read` as a value."""
    signature, question, status, verified, answer, *rest = row
    model, error_type, error_reason, count, error_at, retry_after, fence, leased_by, leased_until, changed_at, *took = (
        rest
    )
    return AnalysisRow(
        signature=signature, question=question, status=_STATUSES[status], is_human_verified=bool(verified),
        answer=None if answer is None else bytes(answer), model=model, error_type=error_type, error_reason=error_reason,
        failure_count=count, last_error_at=error_at, retry_after=retry_after, fence=fence, leased_by=leased_by,
        leased_until=leased_until, changed_at=changed_at,
        usage=_NOTHING if took == [None, None, None] else Usage(input_tokens=took[0], output_tokens=took[1], cost=took[2]),
    )  # fmt: skip


@cache
def read(words: Words) -> str:
    """Many signatures in one round trip, given as a JSON array of texts under `signatures`."""
    columns = ", ".join(words.seconds(f"a.{name}") if name in _MOMENTS else f"a.{name}" for name in _COLUMNS)
    return f"SELECT {columns} FROM analysis_cache a WHERE a.url_signature {_among(words)}"  # noqa: S608 - constants


def _among(words: Words) -> str:
    if words.is_postgres:
        return "= ANY(ARRAY(SELECT jsonb_array_elements_text(%(signatures)s::jsonb)))"
    return "IN (SELECT value FROM json_each(:signatures))"


def make(words: Words, takes: Iterable[i.Reserve]) -> Talk[None]:
    """Write down the signatures that nobody has asked about yet, in one order, so that two batches cannot lock each other out."""
    wanted: dict[str, i.Reserve] = {}
    for take in takes:
        for signature in take.signatures:
            wanted.setdefault(signature, take)
    if wanted:
        # A fence never comes back, also where its signature was erased meanwhile: who asked before that cannot write.
        first = [(name, wanted[name]) for name in sorted(wanted)]
        rows = [(name, said.question, said.now, int(said.now * 1000)) for name, said in first]
        yield Ask(_make(words), {"rows": rows_as_json(rows)})


def hold(words: Words, signatures: Iterable[str]) -> Talk[None]:
    """Keep others from changing these."""
    wanted = sorted(set(signatures))
    if words.locks and wanted:
        yield Ask(_hold(words), {"signatures": rows_as_json(wanted)})


def take(words: Words, wanted: i.Reserve, *, again: bool) -> Talk[i.Reserved]:
    """Hold those that may be asked."""
    found = yield from _read(words, wanted.signatures)
    mine = {row.signature for row in found if again and _was_taken(row, wanted)}
    free = [
        row.signature for row in found
        if row.signature not in mine and _stands(row, wanted) is Standing.FREE
    ]  # fmt: skip
    if free:
        values = {
            "signatures": rows_as_json(free), "question": wanted.question, "owner": wanted.owner, "until": wanted.until,
            "now": wanted.now,
        }  # fmt: skip
        yield Ask(_take(words), values)
        mine.update(free)
        found = yield from _read(words, wanted.signatures)
    by_signature = {row.signature: row for row in found}
    return i.Reserved(rows=tuple([by_signature[each] for each in wanted.signatures]), mine=frozenset(mine))


def _read(words: Words, signatures: Sequence[str]) -> Talk[list[AnalysisRow]]:
    rows = yield Ask(read(words), {"signatures": rows_as_json(signatures)})
    return [row_of(row) for row in rows]


def _stands(row: AnalysisRow, wanted: i.Reserve) -> Standing:
    return standing(
        row.status, same_question=row.question == wanted.question, by_hand=row.is_human_verified,
        leased_until=row.leased_until, retry_after=row.retry_after, now=wanted.now,
        fits=(row.signature, row.fence) not in wanted.unfit,
    )  # fmt: skip


def _was_taken(row: AnalysisRow, wanted: i.Reserve) -> bool:
    """Whether an earlier try of this very intent holds it."""
    same = row.leased_until is not None and abs(row.leased_until - wanted.until) < _SAME
    return same and row.leased_by == wanted.owner and row.question == wanted.question


def prolong(words: Words, said: i.Prolong) -> Talk[int]:
    """Hold those that are still held for longer; a lease that reaches further already is left as it is."""
    signatures = rows_as_json([signature for signature, _ in said.holds])
    values = {"signatures": signatures, "holds": rows_as_json(said.holds), "until": said.until}
    rows = yield Ask(_prolong(words), values)
    return len(rows)


def _taken(usage: Usage | None) -> dict[str, float | None]:
    return (_NOTHING if usage is None else usage).as_dict()


def conclude(words: Words, said: i.Conclude, *, again: bool) -> Talk[Written]:
    """The answer fits."""
    place = {"signature": said.signature, "fence": said.fence}
    values = {**place, "answer": said.answer, "model": said.model, "now": said.now, **_taken(said.usage)}
    rows = yield Ask(_conclude(words), values)
    if not rows and again:
        rows = yield Ask(_concluded(words), place)
    return Written.APPLIED if rows else Written.STALE


def fault(words: Words, said: i.Fault, *, again: bool) -> Talk[Written]:
    """One error, and what the signature is after it."""
    place = {"signature": said.signature, "fence": said.fence, "now": said.now}
    if again and (yield Ask(_faulted(words), place)):
        return Written.APPLIED
    values = {
        **place, "status": said.status.value, "error_type": said.error_type, "error_reason": said.error_reason,
        "retry_after": said.retry_after, "until": said.until, **_taken(said.usage),
    }  # fmt: skip
    rows = yield Ask(_fault(words), values)
    if not rows:
        return Written.STALE
    if said.status is AnalysisStatus.NEEDS_REVIEW:
        yield from ask_of_signature(
            words, said.signature, question=rows[0][0], error_type=said.error_type, reason=said.error_reason,
            material=said.material, now=said.now,
        )  # fmt: skip
    return Written.APPLIED


def let_go(words: Words, said: i.LetGo, *, again: bool) -> Talk[Written]:
    """Nobody asks any more."""
    rows = yield Ask(_let_go(words), {"signature": said.signature, "fence": said.fence, "now": said.now})
    return Written.APPLIED if rows or again else Written.STALE


def recall(words: Words, said: i.Recall, *, again: bool) -> Talk[Written]:
    """A verified answer goes back to a person; another who said the same first has done it."""
    _ = again
    values = {
        "signature": said.signature, "fence": said.fence, "question": said.question, "now": said.now, "reason": said.reason,
    }  # fmt: skip
    rows = yield Ask(_recall(words), values)
    if not rows:
        return Written.STALE
    yield from ask_of_signature(
        words, said.signature, question=said.question, error_type="json_schema_error", reason=said.reason,
        material=said.material, now=said.now,
    )  # fmt: skip
    return Written.APPLIED


def reset(words: Words, said: i.Reset, *, again: bool) -> Talk[i.WasReset]:
    """Have skipped ones asked again; each leaves an entry."""
    values = {"signatures": rows_as_json(said.signatures), "now": said.now}
    done = {row[0] for row in (yield Ask(_reset(words), values))}
    for signature in said.signatures:
        if signature in done:
            yield from tell(
                words, None, signature, ReviewEvent.RESET, AnalysisStatus.SKIPPED, AnalysisStatus.ACTIVE, actor=said.actor,
                note=said.note, now=said.now,
            )  # fmt: skip
    if again:
        told = yield Ask(_was_reset(words), {**values, "actor": said.actor})
        done |= {row[0] for row in told}
    return i.WasReset(signatures=tuple([each for each in said.signatures if each in done]))


# --- statements -------------------------------------------------------------------------------------------------------


@cache
def _make(words: Words) -> str:
    given = words.given("rows", signature="text", question="text", now="moment", fence="bigint")
    return f"""
    INSERT INTO analysis_cache (url_signature, question, created_at, changed_at, fence)
    SELECT given.signature, given.question, given.now, given.now, given.fence FROM {given} WHERE true
    ON CONFLICT (url_signature) DO NOTHING
    """  # noqa: S608 - assembled from constants


@cache
def _hold(words: Words) -> str:
    among = _among(words)
    return f"SELECT url_signature FROM analysis_cache WHERE url_signature {among} ORDER BY url_signature {words.lock('FOR UPDATE')}"  # noqa: S608 - constants


@cache
def _take(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET status = 'active', question = {words.value("question")}, answer = NULL, model = NULL,
      retry_after = NULL, fence = fence + 1, leased_by = {words.value("owner")}, leased_until = {words.value("until", "moment")},
      changed_at = {words.value("now", "moment")}
    WHERE url_signature {_among(words)}
    """  # noqa: S608 - assembled from constants


@cache
def _mine(words: Words) -> str:
    return f"""url_signature = {words.value("signature")} AND fence = {words.value("fence", "bigint")} AND status = 'active'
      AND leased_by IS NOT NULL"""


@cache
def _prolong(words: Words) -> str:
    until = words.value("until", "moment")
    return f"""
    UPDATE analysis_cache SET leased_until = {words.greatest}(leased_until, {until})
    WHERE url_signature {_among(words)} AND status = 'active' AND leased_by IS NOT NULL AND EXISTS (
      SELECT 1 FROM {words.given("holds", signature="text", fence="bigint")}
      WHERE given.signature = analysis_cache.url_signature AND given.fence = analysis_cache.fence)
    RETURNING url_signature
    """  # noqa: S608 - assembled from constants


@cache
def _took(words: Words) -> str:
    """What this took, on top of what there was; where nobody said what it took, nothing is made up."""
    kinds = {"input_tokens": "bigint", "output_tokens": "bigint", "cost": "float8"}
    return ", ".join(
        f"{name} = CASE WHEN {words.value(name, kind)} IS NULL THEN {name} ELSE COALESCE({name}, 0) + {words.value(name, kind)} END"
        for name, kind in kinds.items()
    )


@cache
def _conclude(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET status = 'analyzed', answer = {words.value("answer", "bytea")}, model = {words.value("model")},
      {_took(words)},
      error_type = NULL, error_reason = NULL, failure_count = 0, last_error_at = NULL, retry_after = NULL, leased_by = NULL,
      leased_until = NULL, changed_at = {words.value("now", "moment")}
    WHERE {_mine(words)} RETURNING url_signature
    """  # noqa: S608 - assembled from constants


@cache
def _concluded(words: Words) -> str:
    return f"""
    SELECT url_signature FROM analysis_cache WHERE url_signature = {words.value("signature")}
      AND fence = {words.value("fence", "bigint")} AND status = 'analyzed' AND NOT is_human_verified
    """  # noqa: S608 - assembled from constants


@cache
def _fault(words: Words) -> str:
    kept = f"CASE WHEN {words.value('until', 'moment')} IS NULL THEN NULL ELSE leased_by END"
    return f"""
    UPDATE analysis_cache SET {_took(words)}, status = {words.value("status")}, error_type = {words.value("error_type")},
      error_reason = {words.value("error_reason")}, failure_count = failure_count + 1,
      last_error_at = {words.value("now", "moment")}, retry_after = {words.value("retry_after", "moment")}, leased_by = {kept},
      leased_until = {words.value("until", "moment")}, changed_at = {words.value("now", "moment")}
    WHERE {_mine(words)} RETURNING question
    """  # noqa: S608 - assembled from constants


@cache
def _faulted(words: Words) -> str:
    return f"""
    SELECT url_signature FROM analysis_cache WHERE url_signature = {words.value("signature")}
      AND fence = {words.value("fence", "bigint")} AND last_error_at = {words.value("now", "moment")}
    """  # noqa: S608 - assembled from constants


@cache
def _let_go(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET leased_by = NULL, leased_until = NULL, changed_at = {words.value("now", "moment")}
    WHERE {_mine(words)} RETURNING url_signature
    """  # noqa: S608 - assembled from constants


@cache
def _recall(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET status = 'needs_review', is_human_verified = false, answer = NULL, model = NULL,
      error_type = 'json_schema_error', error_reason = {words.value("reason")}, failure_count = failure_count + 1,
      last_error_at = {words.value("now", "moment")}, question = {words.value("question")}, changed_at = {words.value("now", "moment")}
    WHERE url_signature = {words.value("signature")} AND fence = {words.value("fence", "bigint")} AND status = 'analyzed'
      AND is_human_verified RETURNING url_signature
    """  # noqa: S608 - assembled from constants


@cache
def _reset(words: Words) -> str:
    return f"""
    UPDATE analysis_cache SET status = 'active', is_human_verified = false, changed_at = {words.value("now", "moment")}
    WHERE url_signature {_among(words)} AND status = 'skipped' RETURNING url_signature
    """  # noqa: S608 - assembled from constants


@cache
def _was_reset(words: Words) -> str:
    return f"""
    SELECT url_signature FROM review_history WHERE url_signature {_among(words)} AND event = 'reset'
      AND at = {words.value("now", "moment")} AND actor = {words.value("actor")}
    """  # noqa: S608 - assembled from constants
