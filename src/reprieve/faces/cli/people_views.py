"""How reviews and signatures are shown."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.redaction import redact
from reprieve.core.analysis import AnalysisStatus, ReviewState
from reprieve.faces.cli.common import BUILT_IN_NAME, say
from reprieve.faces.cli.rendering import console, facts, plain, status, table, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.ports.reviews import ReviewDetail, ReviewEntry, ReviewView, SignatureDetail, SignatureView

_NEXT: Final = {
    ReviewState.OPEN: "reprieve reviews claim {id}, or at once: reprieve reviews verify {id} '{{...}}'{app}",
    ReviewState.CLAIMED: "reprieve reviews verify {id} '{{...}}'{app}, or reprieve reviews reject {id} --reason '...'",
    ReviewState.VERIFIED: "nothing: what was said of it has been gone on with",
    ReviewState.REJECTED: "nothing: what was said of it has been gone on with",
    ReviewState.WITHDRAWN: "nothing: it does not wait any more",
}
_UNDO: Final = "nothing; reprieve reviews undo {id} --reason '...' takes it back"
_PRUNED: Final = "nothing: what it was decided by was pruned; reprieve reviews erase has its signature asked anew"


def about(review: ReviewView) -> str:
    """What a review is about, in a few words."""
    if review.job_id is None:
        return review.url_signature or ""
    return f"job {review.job_id} at {review.pipeline}/{review.stage}"


def review_table(rows: Sequence[ReviewView], now: float) -> object:
    """A line a review."""
    return table(
        ("id", "state", "about", "why", "said", "since", "claimed by"),
        [
            (
                str(row.review_id), status(row.state), about(row), row.error_type, row.reason, when(row.opened_at, now),
                row.claimed_by or "",
            )
            for row in rows
        ],
    )  # fmt: skip


def signature_table(rows: Sequence[SignatureView], now: float) -> object:
    """A line a signature."""
    return table(
        ("signature", "status", "by hand", "error", "said", "failures", "last error", "not before", "model"),
        [
            (
                row.url_signature, status(row.status), "yes" if row.is_human_verified else "", row.error_type or "",
                row.error_reason or "", str(row.failure_count or ""), when(row.last_error_at, now), when(row.retry_after, now),
                row.model or "",
            )
            for row in rows
        ],
    )  # fmt: skip


def plain_detail(detail: ReviewDetail, *, as_given: bool) -> dict[str, object]:
    """For machines; what users gave is redacted unless it is asked for."""
    return {
        **asdict(detail.review),
        "is_pruned": detail.is_pruned,
        "can_be_undone": detail.can_be_undone,
        **{name: _parsed(getattr(detail, name), as_given=as_given) for name in ("samples", "answers", "answer")},
        "schema": _parsed(detail.schema, as_given=True),
        "history": _entries(detail.history, as_given=as_given),
    }  # fmt: skip


def plain_signature(detail: SignatureDetail, *, as_given: bool) -> dict[str, object]:
    """For machines; the answer is redacted unless it is asked for."""
    return {
        **asdict(detail.signature),
        "answer": _parsed(detail.answer, as_given=as_given),
        "history": _entries(detail.history, as_given=as_given),
    }


def say_signature(detail: SignatureDetail, *, as_given: bool) -> None:
    """For people: all that is known of it, and what comes next."""
    row, now, screen = detail.signature, time.time(), console()
    answer = plain_signature(detail, as_given=as_given)["answer"]
    numbers = (("tokens in", row.input_tokens), ("tokens out", row.output_tokens))
    screen.print(
        facts([
            ("signature", row.url_signature), ("status", status(row.status)), ("by hand", "yes" if row.is_human_verified else ""),
            ("answer", "" if detail.answer is None else json.dumps(answer, ensure_ascii=False)), ("model", row.model or ""),
            ("error", row.error_type or ""), ("said", row.error_reason or ""), ("failures", str(row.failure_count or "")),
            ("last error", when(row.last_error_at, now)), ("not before", when(row.retry_after, now)),
            *((name, "" if number is None else f"{number:,}") for name, number in numbers),
            ("cost", "" if row.cost is None else f"${row.cost:.4f}"), ("changed", when(row.changed_at, now)),
            ("question", row.question),
        ])
    )  # fmt: skip
    _say_history(detail.history, now)
    name = shlex.quote(plain(row.url_signature))
    if row.status is AnalysisStatus.SKIPPED:
        say(f"next: reprieve reviews reset {name} --reason '...' has it asked again")
    elif row.status is AnalysisStatus.NEEDS_REVIEW:
        say(f"next: reprieve reviews list --signature {name}")


def say_detail(detail: ReviewDetail, *, as_given: bool) -> None:
    """For people: everything that a reviewer needs, and what comes next."""
    review, now, screen = detail.review, time.time(), console()
    found = plain_detail(detail, as_given=as_given)
    screen.print(
        facts([
            ("review", str(review.review_id)), ("state", status(review.state)), ("about", about(review)),
            ("why", review.error_type), ("said", review.reason), ("since", when(review.opened_at, now)),
            ("claimed by", review.claimed_by or ""), ("closed", when(review.closed_at, now)), ("by", review.closed_by or ""),
            ("answer", "" if detail.answer is None else json.dumps(found["answer"], ensure_ascii=False)),
        ])
    )  # fmt: skip
    samples: Any = found["samples"] or []
    if samples:
        say("samples:")
        for line in (line for sample in samples for line in str(sample).split("\n")):
            say(f"  {plain(line)}".rstrip())
    answers: Any = found["answers"] or []
    for number, answer in enumerate(answers, 1):
        model = plain(str(answer.get("model") or "the model"))
        say(f"answer {number} of {model} ({answer.get('finish', '')}): {plain(str(answer.get('text', '')))}")
        for error in answer.get("errors", ()):
            say(f"  wrong: {plain(str(error))}")
    if detail.schema is not None:
        say(f"schema: {plain(json.dumps(found['schema'], ensure_ascii=False))}")
    _say_history(detail.history, now)
    app = "" if review.job_id is None or review.pipeline == BUILT_IN_NAME else " --app ..."
    following = _PRUNED if detail.is_pruned else _UNDO if detail.can_be_undone else _NEXT[review.state]
    say(f"next: {following.format(id=review.review_id, app=app)}")


def _entries(history: Sequence[ReviewEntry], *, as_given: bool) -> list[dict[str, object]]:
    return [{**asdict(entry), "answer": _parsed(entry.answer, as_given=as_given)} for entry in history]


def _say_history(history: Sequence[ReviewEntry], now: float) -> None:
    if history:
        rows = [(when(entry.at, now), entry.actor, entry.event, entry.note) for entry in history]
        console().print(table(("when", "who", "what", "note"), rows))


def _parsed(data: bytes | None, *, as_given: bool) -> object:
    if data is None:
        return None
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if as_given else _redacted(value)


def _redacted(value: object) -> object:
    """The same shape, every text in it without what is secret."""
    match value:
        case str():
            return redact(value)
        case list():
            return [_redacted(each) for each in value]
        case dict():
            return {redact(str(name)): _redacted(each) for name, each in value.items()}
        case _:
            return value
