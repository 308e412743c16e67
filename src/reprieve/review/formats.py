"""Reports as text: for terminals, for programs, for comments on pull requests, and as SARIF.

Paths, quoted lines, titles and comments come from repositories and models. None of them can move the cursor
of a terminal, add markup to a page or mention a person: every field passes `clean`, and is then escaped.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version as version_of
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, assert_never
from urllib.parse import quote

from reprieve.review.critic.findings import FACTS, PERSON, Severity
from reprieve.review.critic.registry import RULES
from reprieve.review.critic.summary import count
from reprieve.review.diffs import NOTHING, LeftOut
from reprieve.review.forge import commit_url, line_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reprieve.review.critic.findings import Finding
    from reprieve.review.critic.review import Report

_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters without a shape; some of them change the order or the lines of a text."""
_SHOWN_PLACES: Final = 2
_MAX_COMMENT_CHARACTERS: Final = 60_000
"""GitHub takes 65,536 characters in a comment."""
_OPINION: Final = "opinion"
"""The rule of findings in SARIF that a model or a person wrote: SARIF wants one for each result."""
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
    Severity.NONE: "none",
}
_PLACEHOLDER: Final = re.compile(r"\{\w*[^{}]{0,20}\}")
_BACKTICKS: Final = re.compile(r"`+")
_CODE: Final = re.compile(r"`([^`]+)`")
_MARKED: Final = re.compile(r"[\\`*_\[\]|~<>&$@#!]|://|(?<=www)\.", re.IGNORECASE)
_NO_BREAK: Final = "&#8203;"
"""A character without width behind a sign: what follows it is no longer the name of a person or an issue."""
_MARKED_AS: Final = {
    **{each: f"\\{each}" for each in "\\`*_[]|~"},
    **{each: f"{each}{_NO_BREAK}" for each in "@#!"},
    "<": "&lt;", ">": "&gt;", "&": "&amp;", "$": "&#36;", "://": "&#58;//", ".": "&#46;",
}  # fmt: skip
_LINE_START: Final = re.compile(r"(\d{0,9})([-+=.)/])")
"""What makes a line an item, a heading or a command to a bot."""
_MAX_LABEL: Final = 200
_MAX_COMMENT: Final = 2_000
_MAX_SUMMARY: Final = 6_000


class Format(StrEnum):
    """The forms in which reports are written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedChange:
    """A change and the report about it."""

    changelist_id: str
    version: int
    title: str
    report: Report
    left_out: LeftOut = NOTHING
    """Files that were not reviewed at all."""
    forge: str = ""
    commit: str = ""
    """Where links point to; without both there are no links."""

    @property
    def url(self) -> str:
        """The page of the commit; empty where it is not known."""
        return commit_url(self.forge, self.commit)

    @property
    def allowed(self) -> tuple[Finding, ...]:
        """Findings that a comment in the change itself allows."""
        return tuple(each for each in self.report.findings if each.allowed)

    @property
    def verdict(self) -> str:
        """`2 findings, high`, or `no findings`."""
        number = len(self.report.open_findings)
        findings = count(number, "finding") if number else "no findings"
        if number and self.report.hidden:
            findings = f"more than {findings}"
        severity = self.report.severity
        return findings if severity is Severity.NONE else f"{findings}, {severity}"


class Role(StrEnum):
    """What a piece of a text is, for programs that colour it."""

    PLAIN = "plain"
    HEADING = "heading"
    PLACE = "place"
    SEVERITY = "severity"
    LABEL = "label"
    QUOTE = "quote"
    MUTED = "muted"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line."""

    text: str
    role: Role = Role.PLAIN
    severity: Severity | None = None
    """Of a finding, for the piece that names it."""


def render(reports: Sequence[ReviewedChange], kind: Format) -> str:
    """Write reports in one of the formats; the text ends with a line break."""
    match kind:
        case Format.TEXT:
            return "".join("".join(span.text for span in line) + "\n" for line in text_lines(reports))
        case Format.JSON:
            return _json({"reviews": [review_data(each) for each in reports]})
        case Format.MARKDOWN:
            return "\n".join(_markdown(each) for each in reports)
        case Format.SARIF:
            runs = [_sarif_run(each) for each in reports]
            return _json({"$schema": _SCHEMA, "version": "2.1.0", "runs": runs})
    assert_never(kind)


def clean(text: str, *, lines: bool = False) -> str:
    """Replace characters without a shape by spaces; the result is one line unless `lines` keeps the lines."""
    kept = text
    if not text.isprintable():
        kept = "".join(" " if _is_invisible(each) and not (lines and each == "\n") else each for each in text)
    return kept.strip() if lines else " ".join(kept.split())


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in _INVISIBLE


def fitting(findings: Sequence[Finding], size_of: Callable[[Finding], int], most: int) -> Sequence[Finding]:
    """Return the first findings that together take at most so much space; the worst come first."""
    sizes = accumulate(size_of(each) for each in findings)
    return [each for each, size in zip(findings, sizes, strict=True) if size <= most]


def place_of(finding: Finding) -> str:
    """`path:line`, or the path alone for a whole file."""
    return clean(finding.place)


def label_of(finding: Finding) -> str:
    """The rule, with the code of the linter; for an opinion its author, as in `by openai:gpt-5-mini`."""
    rule, code = clean(finding.rule), clean(finding.code)
    named = f"{rule} ({code})" if code and code != rule else rule
    if finding.origin == FACTS:
        return named
    author = "by a person" if finding.origin == PERSON else f"by {clean(finding.origin)}"
    return f"{named} {author}".strip()


def also_at(finding: Finding) -> str:
    """`also at a.py:3, b.py:4 and 5 more`; empty for a finding in one place."""
    places = [clean(each) for each in finding.also[: _SHOWN_PLACES + 1]]
    match len(finding.also):
        case 0:
            return ""
        case 1:
            return f"also at {places[0]}"
        case number if number <= _SHOWN_PLACES + 1:
            return f"also at {', '.join(places[:-1])} and {places[-1]}"
        case number:
            return f"also at {', '.join(places[:_SHOWN_PLACES])} and {number - _SHOWN_PLACES} more"


def scope_of(change: ReviewedChange) -> str:
    """What was checked and what was not, in one clause; empty where the report says neither."""
    left = change.left_out
    kinds = {"binary": left.binary, "generated": left.generated, "too large": left.too_large}
    kinds["beyond the limit"] = left.beyond
    missing = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    said = clean(change.report.scope)
    return "; ".join(part for part in (said, f"files not reviewed: {missing}" if missing else "") if part)


def omissions_of(change: ReviewedChange, unlisted: int = 0) -> Iterator[str]:
    """One sentence for each reason why findings are not listed."""
    if hidden := change.report.hidden + unlisted:
        yield f"{count(hidden, 'more finding')} {'is' if hidden == 1 else 'are'} not listed."
    if dropped := change.report.dropped:
        verb = "points outside the change and is" if dropped == 1 else "point outside the change and are"
        yield f"{count(dropped, 'finding')} of the model {verb} left out."


def critics_of(change: ReviewedChange, *, rules: bool) -> Iterator[str]:
    """One line for each critic, with its cost; the rules are named without their scope, if `rules` is set."""
    suffix = f": {change.report.scope}."
    for line in change.report.made_by:
        if not change.report.scope or not line.endswith(suffix):
            yield clean(line)
        elif rules:
            yield f"{clean(line.removesuffix(suffix))}."


def text_lines(reports: Sequence[ReviewedChange]) -> Iterator[tuple[Span, ...]]:
    """Write reports as lines of pieces, findings first; a heading names each change if there are several."""
    for number, change in enumerate(reports):
        if number:
            yield ()
        if len(reports) > 1:
            yield (Span(f"== {clean(change.title)} ==", Role.HEADING),)
        yield from _text_of(change)


def _text_of(change: ReviewedChange) -> Iterator[tuple[Span, ...]]:
    report, scope = change.report, scope_of(change)
    for each in report.open_findings:
        yield from _finding_lines(each)
    if not report.open_findings:
        yield (Span("Nothing found" + (f": {scope}." if scope else "."), Role.HEADING),)
    for line in omissions_of(change):
        yield (Span(line, Role.MUTED),)
    if change.allowed:
        yield ()
        yield (Span("Allowed by this change:", Role.HEADING),)
        for each in change.allowed:
            yield from _finding_lines(each)
    summary = clean(report.summary, lines=True)
    notes = [f"Scope: {scope}."] if scope and report.open_findings else []
    notes += critics_of(change, rules=False)
    for block, role in ((summary.split("\n") if summary else [], Role.PLAIN), (notes, Role.MUTED)):
        if block:
            yield ()
        for line in block:
            yield (Span(line.rstrip(), role),)


def _finding_lines(finding: Finding) -> Iterator[tuple[Span, ...]]:
    severity = finding.severity
    pieces = [
        Span(place_of(finding), Role.PLACE),
        Span(str(severity), Role.SEVERITY, severity),
        Span(label_of(finding), Role.LABEL),
        Span(clean(finding.comment)),
    ]
    line: list[Span] = []
    for piece in pieces:
        if piece.text:
            line += [Span("  "), piece] if line else [piece]
    yield tuple(line)
    if finding.quote:
        yield (Span("    "), Span(clean(finding.quote), Role.QUOTE))
    if finding.also:
        yield (Span("    "), Span(also_at(finding), Role.MUTED))


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def review_data(change: ReviewedChange, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    """A report as programs read it: `--format json` and the webhook have these keys, and keep them.

    `url` is empty where the page is not known. `line` is 0 for a whole file. `hidden` counts the findings
    beyond the limit, `dropped` those of a model that point outside the change. With `findings`, only these
    are listed, and the others count as hidden.
    """
    report, left = change.report, change.left_out
    listed = report.findings if findings is None else findings
    return {
        "changelist_id": clean(change.changelist_id),
        "review_version": change.version,
        "title": clean(change.title),
        "url": change.url,
        "severity": report.severity.value,
        "summary": clean(report.summary, lines=True),
        "findings": [finding_data(change, each) for each in listed],
        "hidden": report.hidden + len(report.findings) - len(listed),
        "dropped": report.dropped,
        "scope": clean(report.scope),
        "not_reviewed": {
            "binary": left.binary,
            "generated": left.generated,
            "too_large": left.too_large,
            "beyond_limit": left.beyond,
        },
        "made_by": [clean(each) for each in report.made_by],
        "made_with": clean(report.made_with),
    }


def finding_data(change: ReviewedChange, finding: Finding) -> dict[str, Any]:
    """A finding as programs read it; `allowed` means that a comment of the change itself allows it."""
    return {
        "file": clean(finding.file),
        "line": finding.line,
        "url": line_url(change.forge, change.commit, finding.file, finding.line),
        "severity": finding.severity.value,
        "rule": clean(finding.rule),
        "code": clean(finding.code),
        "comment": clean(finding.comment),
        "quote": clean(finding.quote),
        "also": [clean(each) for each in finding.also],
        "origin": clean(finding.origin),
        "allowed": finding.allowed,
    }


def clip(text: str, most: int) -> str:
    """Shorten a text to at most so many characters; an ellipsis shows that something is missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def split_code(text: str) -> Iterator[tuple[str, bool]]:
    """Split a text into its pieces; True marks those that stood between backticks, which are left out."""
    for number, piece in enumerate(_CODE.split(text)):
        if piece:
            yield piece, number % 2 == 1


def escape_markdown(text: str) -> str:
    """Escape a line for Markdown: it adds no markup and no HTML, and mentions no person, issue or command."""
    escaped = _MARKED.sub(lambda found: _MARKED_AS[found[0]], text)
    if found := _LINE_START.match(escaped):
        escaped = f"{found[1]}&#{ord(found[2])};{escaped[found.end() :]}"
    return escaped


def _code_span(text: str) -> str:
    """A piece of code that the backticks in it cannot end."""
    fence = "`" * (_longest_run(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _longest_run(text: str) -> int:
    return max((len(each) for each in _BACKTICKS.findall(text)), default=0)


def _markdown(change: ReviewedChange) -> str:
    """A comment on a pull request, short enough for GitHub."""
    report, scope = change.report, scope_of(change)
    title = escape_markdown(clip(clean(change.title), _MAX_LABEL))
    head = [f"### Review of {title}: {change.verdict}\n"]
    summary = clip(clean(report.summary, lines=True), _MAX_SUMMARY)
    tail = [escape_markdown(line.strip()) for line in summary.split("\n")]
    notes = [f"Scope: {clip(scope, _MAX_COMMENT)}."] if scope else []
    notes += [clip(line, _MAX_COMMENT) for line in critics_of(change, rules=True)]
    tail += ["", *(f"<sub>{escape_markdown(note)}</sub>  " for note in notes)]
    space = _MAX_COMMENT_CHARACTERS - len("\n".join([*head, *tail]))
    findings = [*report.open_findings, *change.allowed]
    listed = fitting(findings, lambda each: len(_markdown_finding(change, each)), space)
    opened = [_markdown_finding(change, each) for each in listed if not each.allowed]
    allowed = [_markdown_finding(change, each) for each in listed if each.allowed]
    if not report.open_findings:
        opened = ["Nothing found.\n"]
    body = [*opened, "", *omissions_of(change, len(findings) - len(listed)), ""]
    if allowed:
        body += ["**Allowed by this change:**\n", *allowed, ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*head, *body, *tail])).strip() + "\n"


def _markdown_finding(change: ReviewedChange, finding: Finding) -> str:
    place = _code_span(place_of(finding))
    url = line_url(change.forge, change.commit, finding.file, finding.line)
    linked = f"[{place}]({url})" if url else place
    label = escape_markdown(clip(label_of(finding), _MAX_LABEL))
    pieces = split_code(clip(clean(finding.comment), _MAX_COMMENT))
    comment = "".join(_code_span(piece) if is_code else escape_markdown(piece) for piece, is_code in pieces)
    lines = [f"- **{finding.severity}** {linked} {label}: {comment}"]
    if quote_ := clean(finding.quote):
        fence = "`" * max(3, _longest_run(quote_) + 1)
        lines += [fence, quote_, fence]
    if finding.also:
        lines.append(escape_markdown(also_at(finding)))
    return "\n  ".join(lines)


def _sarif_run(change: ReviewedChange) -> dict[str, Any]:
    """A run of the schema SARIF 2.1.0, one for each change."""
    report = change.report
    named = {clean(each.rule) or _OPINION for each in report.findings}
    descriptors = [_sarif_rule(each) for each in sorted(named | set(RULES))]
    index = {each["id"]: number for number, each in enumerate(descriptors)}
    return {
        "tool": {"driver": {"name": "Reprieve", "version": version_of("reprieve"), "rules": descriptors}},
        "automationDetails": {"id": f"reprieve/{clean(change.changelist_id)}/{change.version}"},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(each, index) for each in report.findings],
        "properties": {
            "title": clean(change.title),
            "summary": clean(report.summary, lines=True),
            "scope": scope_of(change),
            "madeBy": [clean(each) for each in report.made_by],
            "hidden": report.hidden,
            "dropped": report.dropped,
        },
    }


def _sarif_rule(name: str) -> dict[str, Any]:
    """A rule as the registry describes it; opinions, and rules of another version, only by their name."""
    rule = RULES.get(name)
    if rule is None:
        said = "A comment of a model or a person" if name == _OPINION else name
        return {"id": name, "shortDescription": {"text": said}, "help": {"text": said}}
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.finds},
        "help": {"text": _PLACEHOLDER.sub("…", rule.advice)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _sarif_result(finding: Finding, index: dict[str, int]) -> dict[str, Any]:
    rule = clean(finding.rule) or _OPINION
    result: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": index[rule],
        "level": _LEVELS[finding.severity],
        "message": {"text": _sarif_message(finding)},
        "locations": [_sarif_location(finding.file, finding.line, clean(finding.quote))],
        "partialFingerprints": {"reprieve/v1": _fingerprint(finding)},
        "suppressions": [],
        "properties": {"origin": clean(finding.origin), "code": clean(finding.code)},
    }
    if finding.also:
        result["relatedLocations"] = [_sarif_location(*_place(each)) for each in finding.also]
    if finding.allowed:
        reason = "A comment of this change allows it."
        result["suppressions"] = [{"kind": "inSource", "justification": reason}]
    return result


def _sarif_message(finding: Finding) -> str:
    """The comment; `[text](url)` would be a link in a message of SARIF."""
    author = "" if finding.origin == FACTS else f" ({label_of(finding)})"
    return (clean(finding.comment) + author).replace("](", "] (")


def _sarif_location(path: str, line: int, quoted: str = "") -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path, safe="/", errors="replace")}}
    if line > 0:
        place["region"] = {"startLine": line}
        if quoted:
            place["region"]["snippet"] = {"text": quoted}
    return {"physicalLocation": place}


def _fingerprint(finding: Finding) -> str:
    """A digest that stays the same while lines above the finding come and go."""
    what = finding.quote or f"{finding.line} {finding.comment}"
    author = finding.origin if finding.origin == FACTS else f"{finding.origin} {finding.comment}"
    whole = f"{finding.rule}\0{finding.code}\0{finding.file}\0{author}\0{what}"
    return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:32]


def _place(text: str) -> tuple[str, int]:
    path, _, line = text.rpartition(":")
    return (path, int(line)) if path and line.isascii() and line.isdigit() else (text, 0)
