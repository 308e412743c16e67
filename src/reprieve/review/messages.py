"""Messages about a review: text and HTML for mail, text for Slack, and JSON for webhooks.

Everything that comes from a repository or a model passes `clean` and is escaped. A message lists as many
findings as fit: the worst come first, and the others are counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from reprieve.review.critic.findings import Severity
from reprieve.review.critic.summary import count
from reprieve.review.forge import line_url
from reprieve.review.formats import (
    ReviewedChange,
    also_at,
    clean,
    clip,
    critics_of,
    finding_data,
    fitting,
    label_of,
    omissions_of,
    place_of,
    review_data,
    scope_of,
    split_code,
)
from reprieve.senders import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reprieve.review.critic.findings import Finding
    from reprieve.review.critic.review import Report
    from reprieve.review.fetching import Diff

__all__ = ["clean", "messages_of"]

_MAX_TITLE: Final = 200
_MAX_PLACE: Final = 300
_MAX_COMMENT: Final = 2_000
_MAX_SUMMARY: Final = 6_000
_MAX_NOTE: Final = 1_000
_MAX_TEXT: Final = 24_000
"""Characters of all findings in the text: Slack cuts messages off at 40,000 characters."""
_MAX_HTML_BYTES: Final = 80_000
"""All findings in the HTML: Gmail cuts mails off at 102 kB."""
_MAX_DATA_BYTES: Final = 400_000
_MAX_DATA_SUMMARY: Final = 10_000
_MAX_DATA_PLACES: Final = 50
_MAX_DATA_PLACE_CHARACTERS: Final = 20_000
_SETTINGS_HINT: Final = (
    "To stop these messages, change [notify] in the settings of the review. To change the rules, edit"
    " [critic] in the reprieve.toml of the repository, or put the comment `reprieve: allow RULE` on the line."
)

_COLOURS: Final = {
    Severity.NONE: "#1a7f37",
    Severity.LOW: "#57606a",
    Severity.MEDIUM: "#8a5a00",
    Severity.HIGH: "#b3202c",
}
"""Backgrounds of labels; white text on each has a contrast of 5 to 1 or more."""
_GREY: Final = "color:#57606a"
_LINK: Final = "color:#0550ae"
_WRAP: Final = "word-break:break-word;overflow-wrap:anywhere"
_MONO: Final = "font-family:Consolas,Menlo,'DejaVu Sans Mono',monospace;font-size:13px"
_TABLE: Final = 'role="presentation" cellpadding="0" cellspacing="0" border="0" width="100%"'


def messages_of(changelist_id: str, version: int, diff: Diff, review: Report) -> list[Message]:
    """Write the message of a review to each recipient; all of them get the same."""
    change = ReviewedChange(
        changelist_id=changelist_id, version=version, title=diff.title, report=review, left_out=diff.left_out,
        forge=diff.forge, commit=diff.commit,
    )  # fmt: skip
    listing = _listing(change)
    subject = f"Review of {clip(clean(diff.title), _MAX_TITLE)}: {change.verdict}"
    text, page, data = _text(change, listing), _html(change, listing, subject), _data(change)
    message = Message(recipient="", subject=subject, text=text, html=page, data=data)
    return [replace(message, recipient=each) for each in diff.recipients]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """The findings that a message lists."""

    opened: Sequence[Finding]
    allowed: Sequence[Finding]
    unlisted: int


def _listing(change: ReviewedChange) -> _Listing:
    findings = [*change.report.open_findings, *change.allowed]
    in_text = fitting(findings, lambda each: len(_text_finding(each)), _MAX_TEXT)
    listed = fitting(in_text, lambda each: len(_html_finding(change, each).encode()), _MAX_HTML_BYTES)
    return _Listing(
        opened=[each for each in listed if not each.allowed],
        allowed=[each for each in listed if each.allowed],
        unlisted=len(findings) - len(listed),
    )


def _scope(change: ReviewedChange) -> str:
    return clip(scope_of(change), _MAX_NOTE)


def _footer(change: ReviewedChange) -> list[str]:
    return [*(clip(each, _MAX_NOTE) for each in critics_of(change, rules=True)), _SETTINGS_HINT]


def _byline(change: ReviewedChange) -> str:
    return f"{clean(change.changelist_id)}, version {change.version}"


def _summary(change: ReviewedChange) -> list[str]:
    text = clip(clean(change.report.summary, lines=True), _MAX_SUMMARY)
    return [line.strip() for line in text.split("\n")] if text else []


def _text(change: ReviewedChange, listing: _Listing) -> str:
    """The plain text, which reads well in Slack too."""
    head = [clip(clean(change.title), _MAX_TITLE), f"{_byline(change)}: {change.verdict}", change.url]
    blocks = ["\n".join(line for line in head if line)]
    blocks += [_text_finding(each) for each in listing.opened]
    blocks += [" ".join(omissions_of(change, listing.unlisted))]
    if listing.allowed:
        blocks += ["Allowed by this change:", *(_text_finding(each) for each in listing.allowed)]
    blocks += ["\n".join(_summary(change)), f"Scope: {_scope(change)}." if _scope(change) else ""]
    blocks += ["-- \n" + "\n".join(_footer(change))]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _text_finding(finding: Finding) -> str:
    pieces = (_place(finding), str(finding.severity), clip(label_of(finding), _MAX_PLACE))
    lines = ["  ".join(piece for piece in pieces if piece), clip(clean(finding.comment), _MAX_COMMENT)]
    if quote := clip(clean(finding.quote), _MAX_PLACE):
        # Outside backticks, Slack reads asterisks and underscores as markup.
        lines.append(quote if "`" in quote else f"`{quote}`")
    if finding.also:
        lines.append(_also(finding))
    return "\n    ".join(line for line in lines if line)


def _place(finding: Finding) -> str:
    return _clip_start(place_of(finding))


def _also(finding: Finding) -> str:
    text = also_at(finding)
    return text if len(text) <= _MAX_PLACE else f"also at {count(len(finding.also), 'other place')}"


def _clip_start(place: str) -> str:
    """The end of a long place: it has the name of the file, and the line."""
    return place if len(place) <= _MAX_PLACE else f"…{place[1 - _MAX_PLACE :]}"


def _data(change: ReviewedChange) -> dict[str, Any]:
    """The report as `--format json` has it, cut to what a message can hold."""
    findings = [each.model_copy(update={"also": _first_places(each)}) for each in change.report.findings]
    data = review_data(change, fitting(findings, lambda each: _data_size(change, each), _MAX_DATA_BYTES))
    return data | {
        "title": clip(data["title"], _MAX_TITLE),
        "summary": clip(data["summary"], _MAX_DATA_SUMMARY),
        "scope": clip(data["scope"], _MAX_DATA_SUMMARY),
        "made_by": [clip(each, _MAX_DATA_SUMMARY) for each in data["made_by"]],
    }


def _first_places(finding: Finding) -> tuple[str, ...]:
    places = finding.also[:_MAX_DATA_PLACES]
    sizes = accumulate(len(each) for each in places)
    return tuple(each for each, size in zip(places, sizes, strict=True) if size <= _MAX_DATA_PLACE_CHARACTERS)


def _data_size(change: ReviewedChange, finding: Finding) -> int:
    return len(json.dumps(finding_data(change, finding), ensure_ascii=False).encode())


def _html(change: ReviewedChange, listing: _Listing, subject: str) -> str:
    """One column of at most 600 pixels, which narrow screens make narrower: tables and inline styles only."""
    scope = f"Scope: {_scope(change)}." if _scope(change) else ""
    rows = [
        _html_head(change),
        *[_html_finding(change, each) for each in listing.opened],
        _row(_lines(omissions_of(change, listing.unlisted)), _GREY),
        _html_allowed(change, listing),
        _row(_lines(_summary(change)) + _block(escape(scope), _GREY)),
        _row(_lines(_footer(change)), f"{_GREY};font-size:13px"),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light">'
        f"<title>{escape(subject)}</title></head>"
        '<body style="margin:0;padding:0;background:#ffffff;color:#1f2328">'
        f'<table {_TABLE}><tr><td align="center" style="padding:16px 12px">'
        '<!--[if mso]><table role="presentation" width="600"><tr><td><![endif]-->'
        f'<table {_TABLE} style="max-width:600px;table-layout:fixed;text-align:left;color:#1f2328;'
        "font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:15px;line-height:1.5\">"
        f"{''.join(rows)}</table>"
        "<!--[if mso]></td></tr></table><![endif]--></td></tr></table></body></html>\n"
    )


def _row(content: str, style: str = "") -> str:
    """A row with a line above it; nothing without content."""
    if not content:
        return ""
    style = f"border-top:1px solid #d0d7de;padding:14px 0;{_WRAP};{style}"
    return f'<tr><td style="{style}">{content}</td></tr>\n'


def _lines(lines: Iterable[str]) -> str:
    return "<br>".join(_html_prose(line) for line in lines)


def _html_head(change: ReviewedChange) -> str:
    title, byline = escape(clip(clean(change.title), _MAX_TITLE)), escape(_byline(change))
    if change.url:
        byline += f' &middot; <a href="{escape(change.url)}" style="{_LINK}">commit {change.commit[:12]}</a>'
    return (
        f'<tr><td style="padding:0 0 14px;{_WRAP}">'
        f'<h1 style="margin:0;font-size:20px;line-height:1.3">{title}</h1>'
        f'<p style="margin:4px 0 0;{_GREY}">{byline}</p>'
        f'<p style="margin:4px 0 0;font-weight:bold">{escape(change.verdict)}</p></td></tr>\n'
    )


def _html_allowed(change: ReviewedChange, listing: _Listing) -> str:
    if not listing.allowed:
        return ""
    heading = _row('<h2 style="margin:0;font-size:16px">Allowed by this change:</h2>')
    return heading + "".join(_html_finding(change, each) for each in listing.allowed)


def _html_finding(change: ReviewedChange, finding: Finding) -> str:
    place = escape(_place(finding))
    if url := line_url(change.forge, change.commit, finding.file, finding.line):
        place = f'<a href="{escape(url)}" style="{_LINK}">{place}</a>'
    label = (
        f'<span style="background:{_COLOURS[finding.severity]};color:#ffffff;font-size:12px;font-weight:bold;'
        f'padding:2px 7px;border-radius:3px">{finding.severity}</span>'
    )
    notes = [clip(label_of(finding), _MAX_PLACE), _also(finding) if finding.also else ""]
    note = " &middot; ".join(escape(each) for each in notes if each)
    quote = escape(clip(clean(finding.quote), _MAX_PLACE))
    return _row(
        f'{label} <span style="{_MONO};font-weight:bold">{place}</span>'
        + _block(_html_prose(clip(clean(finding.comment), _MAX_COMMENT)))
        + _block(quote, f"padding:6px 10px;background:#f6f8fa;border:1px solid #d0d7de;{_MONO};{_WRAP}")
        + _block(note, f"font-size:13px;{_GREY}")
    )


def _block(content: str, style: str = "") -> str:
    """A block below the one before; nothing without content."""
    return f'<div style="margin:6px 0 0;{style}">{content}</div>' if content else ""


def _html_prose(text: str) -> str:
    """Text in which words between backticks are code."""
    return "".join(
        f'<code style="{_MONO}">{escape(piece)}</code>' if is_code else escape(piece)
        for piece, is_code in split_code(text)
    )
