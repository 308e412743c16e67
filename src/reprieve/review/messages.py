"""What people get to read: text and HTML for a mail, JSON for programs; nothing from outside is trusted in any of them."""

from __future__ import annotations

import unicodedata
from html import escape
from typing import TYPE_CHECKING, Final

from reprieve.review.critic.findings import Severity
from reprieve.senders import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.review.critic.findings import Finding
    from reprieve.review.critic.review import Report
    from reprieve.review.fetching import Diff

_COLOURS: Final = {
    Severity.NONE: "#1a7f37",
    Severity.LOW: "#57606a",
    Severity.MEDIUM: "#9a6700",
    Severity.HIGH: "#cf222e",
}
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Kinds of signs that nobody sees, some of which turn what is read around."""


def messages_of(changelist_id: str, version: int, diff: Diff, review: Report) -> list[Message]:
    """The same for every recipient."""
    subject = f"Review of {clean(diff.title)}: {_verdict(review)}"
    text, page = _text(changelist_id, version, diff, review), _html(changelist_id, version, diff, review)
    data = {
        "changelist_id": changelist_id, "review_version": version, "title": diff.title, "severity": review.severity.value, "summary": review.summary,
        "findings": [finding.model_dump() for finding in review.findings], "dropped": review.dropped, "scope": review.scope, "made_by": list(review.made_by),
    }  # fmt: skip
    return [Message(recipient=who, subject=subject, text=text, html=page, data=data) for who in diff.recipients]


def clean(text: str, *, lines: bool = False) -> str:
    """A text without signs that nobody sees; on one line unless lines are kept."""
    kept = "".join(
        sign if (lines and sign == "\n") or unicodedata.category(sign) not in _UNSEEN else " " for sign in text
    )
    return kept.strip() if lines else " ".join(kept.split())


def _verdict(review: Report) -> str:
    number = len(review.findings)
    findings = "no findings" if not number else "1 finding" if number == 1 else f"{number} findings"
    return findings if review.severity is Severity.NONE else f"{findings}, {review.severity}"


def _text(changelist_id: str, version: int, diff: Diff, review: Report) -> str:
    blocks = [
        f"{clean(diff.title)}\n{clean(changelist_id)}, version {version}: {_verdict(review)}",
        clean(review.summary, lines=True),
    ]
    blocks += [f"{clean(each.file)}:{each.line}\n    {clean(each.comment)}" for each in review.findings]
    return "\n\n".join([*blocks, "-- \n" + "\n".join(_notes(diff, review))]) + "\n"


def _html(changelist_id: str, version: int, diff: Diff, review: Report) -> str:
    colour = _COLOURS[review.severity]
    summary = "<br>".join(escape(line) for line in clean(review.summary, lines=True).split("\n"))
    notes = "<br>".join(escape(note) for note in _notes(diff, review))
    return (
        '<!doctype html><html><body style="font-family:sans-serif;max-width:46em">'
        f'<h2 style="margin-bottom:0">{escape(clean(diff.title))}</h2>'
        f'<p style="color:#57606a;margin-top:0">{escape(clean(changelist_id))}, version {version}: '
        f'<b style="color:{colour}">{escape(_verdict(review))}</b></p><p>{summary}</p>'
        f'{_rows(review.findings)}<hr><p style="color:#57606a;font-size:smaller">{notes}</p></body></html>\n'
    )


def _rows(findings: Iterable[Finding]) -> str:
    rows = "".join(
        f"<dt><code>{escape(clean(each.file))}:{each.line}</code></dt><dd>{escape(clean(each.comment))}</dd>"
        for each in findings
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _notes(diff: Diff, review: Report) -> Iterable[str]:
    """How it came about, honestly."""
    yield from (clean(each) for each in review.made_by)
    left = diff.left_out
    if left.total:
        yield (
            f"Not looked at: {left.binary} binary, {left.generated} generated, {left.too_large} too large, "
            f"{left.beyond} beyond the limit."
        )
    if review.dropped:
        yield f"Left out: {review.dropped} finding{'' if review.dropped == 1 else 's'} that point outside the change."
