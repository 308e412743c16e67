"""Messages about a review: complete, readable at the width of a phone, and safe against hostile content."""

import asyncio
import json
import re
import subprocess
import unicodedata
from email import policy
from email.parser import BytesParser
from html import escape, unescape
from html.parser import HTMLParser

import pytest

from reprieve.app.outbox.freezing import freeze
from reprieve.review.critic.findings import Finding, Severity
from reprieve.review.critic.review import Report
from reprieve.review.diffs import LeftOut
from reprieve.review.fetching import Diff
from reprieve.review.messages import clean, messages_of
from reprieve.senders import Maildir, Outgoing
from support import programs

EVIL = "<script>alert(1)</script>\"'&\r\nBcc: all@example.org\x1b[31m\u202egnp.exe\0"
FORGE, COMMIT = "https://github.com/shop/till", "9f8e7d6c5b4a" + "0" * 28
SCOPE = "12 rules on 3 files"
SQL = Finding(
    rule="sql-injection", file="shop/cart.py", line=2, severity=Severity.HIGH, quote="run(f\"... '{name}'\")",
    comment="`name` is formatted into SQL.", also=("a.py:3", "b.py:4", "c.py:5", "d.py:6"),
)  # fmt: skip
OPINION = Finding(
    file="shop/pay.py", line=0, severity=Severity.MEDIUM, comment="No limit.", origin="local:small.gguf",
)  # fmt: skip
ALLOWED = Finding(
    rule="debug-leftover", code="T201", file="d.py", line=7, comment="Remove print.", allowed=True,
)  # fmt: skip


def message(*findings, title="A change", forge="", **values):
    diff = Diff(
        title=title, files=(), left_out=LeftOut(binary=1, generated=2), unknown=0,
        recipients=("mailto:ada@example.org",), forge=forge, commit=COMMIT if forge else "",
    )  # fmt: skip
    usual = {"summary": "Fine.", "scope": SCOPE, "made_by": (f"Rules of Reprieve 1.0: {SCOPE}.",)}
    severity = max((each.severity for each in findings), key=lambda each: each.rank, default=Severity.NONE)
    report = Report(findings=findings, severity=severity, **(usual | values))
    (made,) = messages_of("shop:1", 3, diff, report)
    return made


def wide(text):
    """A message with texts that nothing breaks in every field."""
    finding = Finding(
        rule=text, file=text, line=3, comment=text, quote=text, also=(text,) * 9, severity=Severity.HIGH,
        origin=text,
    )  # fmt: skip
    findings = (finding, finding.model_copy(update={"allowed": True}))
    return message(*findings, title=text, summary=text, scope=text, made_by=(text,), forge=FORGE)


def test_everything_from_outside_is_escaped_and_without_signs_that_are_not_seen(tmp_path):
    made = wide(EVIL)
    assert "<script" not in made.html
    assert "&lt;script&gt;" in made.html
    for text in (made.subject, made.text, made.html, *_strings(made.data)):
        assert not {"Cc", "Cf", "Zl", "Zp"} & {unicodedata.category(each) for each in text if each != "\n"}
    assert "\n" not in made.subject
    outgoing = Outgoing(message=made, token="a" * 40, timeout=10.0, prepared_at=0.0, reached=lambda _: None)
    asyncio.run(Maildir(tmp_path).send(outgoing))
    (file,) = tmp_path.glob("*/new/*")
    mail = BytesParser(policy=policy.default).parsebytes(file.read_bytes())
    assert mail["bcc"] is None
    assert mail["to"] == "ada@example.org"
    assert {part.get_content_type() for part in mail.walk()} >= {"text/plain", "text/html"}


def _strings(value):
    match value:
        case str():
            yield value
        case dict():
            yield from (each for inner in value.values() for each in _strings(inner))
        case list():
            yield from (each for inner in value for each in _strings(inner))


def test_the_subject_says_how_many_findings_there_are_and_how_bad():
    assert message(SQL, OPINION, ALLOWED).subject == "Review of A change: 2 findings, high"
    low = ALLOWED.model_copy(update={"allowed": False})
    assert message(low).subject == "Review of A change: 1 finding, low"
    assert message(SQL, hidden=3).subject == "Review of A change: more than 1 finding, high"
    assert message().subject == "Review of A change: no findings"


def test_the_text_says_what_was_found_where_what_was_checked_and_by_what():
    model = "Opinion of local:small.gguf (10 tokens in, 2 out, 1.0 s); nothing checked it."
    made_by = (f"Rules of Reprieve 1.0: {SCOPE}.", model)
    made = message(SQL, OPINION, ALLOWED, forge=FORGE, dropped=2, made_by=made_by)
    head, _, footer = made.text.partition("\n-- \n")
    assert head == (
        "A change\n"
        "shop:1, version 3: 2 findings, high\n"
        f"{FORGE}/commit/{COMMIT}\n"
        "\n"
        "shop/cart.py:2  high  sql-injection\n"
        "    `name` is formatted into SQL.\n"
        "    `run(f\"... '{name}'\")`\n"
        "    also at a.py:3, b.py:4 and 2 more\n"
        "\n"
        "shop/pay.py  medium  by local:small.gguf\n"
        "    No limit.\n"
        "\n"
        "2 findings of the model point outside the change and are left out.\n"
        "\n"
        "Allowed by this change:\n"
        "\n"
        "d.py:7  low  debug-leftover (T201)\n"
        "    Remove print.\n"
        "\n"
        "Fine.\n"
        "\n"
        f"Scope: {SCOPE}; files not reviewed: 1 binary, 2 generated.\n"
    )
    made_with, told, hint = footer.splitlines()
    assert (made_with, told) == ("Rules of Reprieve 1.0.", model)
    assert "[notify]" in hint
    assert "[critic]" in hint


def test_the_data_has_all_of_it_by_keys_that_stay():
    data = message(SQL, ALLOWED, forge=FORGE, dropped=1).data
    assert (data["changelist_id"], data["review_version"], data["title"]) == ("shop:1", 3, "A change")
    assert (data["severity"], data["dropped"], data["hidden"]) == ("high", 1, 0)
    assert data["url"] == f"{FORGE}/commit/{COMMIT}"
    assert data["findings"][0] == SQL.model_dump(mode="json") | {
        "also": list(SQL.also),
        "url": f"{FORGE}/blob/{COMMIT}/shop/cart.py#L2",
    }


def test_the_same_review_is_the_same_message():
    assert message(SQL) == message(SQL)
    assert clean("a\u200b\tb\n c") == "a b c"


def test_links_lead_to_the_commit_and_to_the_line_and_nowhere_without_a_forge():
    page = message(SQL, forge=FORGE).html
    links = re.findall(r'<a href="([^"]*)"', page)
    assert links == [f"{FORGE}/commit/{COMMIT}", f"{FORGE}/blob/{COMMIT}/shop/cart.py#L2"]
    assert "<a " not in message(SQL).html


class _Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_page_loads_nothing_runs_nothing_and_is_styled_inline():
    elements = _Elements(wide(EVIL).html + message(SQL, OPINION, ALLOWED).html).found
    tags = {tag for tag, _ in elements}
    assert not tags & {"script", "style", "link", "img", "iframe", "object", "form", "svg"}
    names = {name for _, attributes in elements for name in attributes}
    assert not {name for name in names if name.startswith("on") or name in {"src", "background", "class"}}
    assert "url(" not in "".join(attributes.get("style") or "" for _, attributes in elements)


def test_a_label_has_the_word_and_not_only_the_colour():
    page = message(SQL, OPINION, ALLOWED).html
    assert re.findall(r"border-radius:3px\">(\w+)</span>", page) == ["high", "medium", "low"]


@pytest.mark.parametrize("text", ['"' * 5000, "\U0001f600" * 5000, "<&>" * 2000, "a/" * 2000])
def test_a_message_holds_the_worst_findings_that_fit_and_counts_the_others(text):
    findings = [
        Finding(
            rule=f"r{n}", file=text[:4000], line=n, comment=text, quote=text[:160], also=(text[:4000],) * 500,
            severity=Severity.HIGH if n < 25 else Severity.LOW, allowed=n > 40,
        )
        for n in range(1, 101)
    ]  # fmt: skip
    made = message(*findings, title=text, summary=text * 2, scope=text * 20, made_by=(text,) * 3, forge=FORGE)
    assert freeze(made)
    assert len(made.text) < 40_000, "Slack cuts off what is longer"
    listed = made.html.count("border-radius")
    assert 0 < listed == len(re.findall(r"  (?:high|low)  r\d", made.text))
    assert f"{100 - listed} more findings are not listed." in made.html
    kept = made.data["findings"]
    assert 0 < len(kept) == 100 - made.data["hidden"] <= 100
    assert [each["rule"] for each in kept] == [f"r{n}" for n in range(1, len(kept) + 1)]


def test_fifty_usual_findings_fit_into_a_mail_that_is_not_cut_off():
    findings = [SQL.model_copy(update={"line": n}) for n in range(1, 51)]
    made = message(*findings, forge=FORGE)
    assert made.html.count("border-radius") == 50
    assert len(made.html.encode()) < 102_000


PAGES = {
    "usual": message(SQL, OPINION, ALLOWED, forge=FORGE),
    "letters": wide("W" * 700),
    "path": wide("a_long_folder_without_any_break/" * 30),
    "right to left": wide("\u05e9\u05dc\u05d5\u05dd" * 200),
    "markup": wide("<table width=2000><pre>&nbsp;" * 30),
}
_MEASURE = """
onload = () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const elements = [...page.querySelectorAll("*")];
    const right = Math.max(...elements.map(each => each.getBoundingClientRect().right));
    const loaded = frame.contentWindow.performance.getEntriesByType("resource").length;
    return [frame.name, {width: root.clientWidth, scroll: root.scrollWidth, right: right, loaded: loaded,
                         text: page.body.innerText}];
  });
  document.body.textContent = "<<<" + JSON.stringify(Object.fromEntries(found)) + ">>>";
};
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a browser makes of each page, at the width of a phone and of a desktop, by (name, width)."""
    chromium, folder = programs.require("chromium"), tmp_path_factory.mktemp("chromium")
    frames = "".join(
        f'<iframe name="{name}|{width}" width="{width}" height="900" style="border:0"'
        f' srcdoc="{escape(made.html)}"></iframe>'
        for name, made in PAGES.items()
        for width in (375, 640)
    )
    (folder / "pages.html").write_text(f'<meta charset="utf-8"><script>{_MEASURE}</script><body>{frames}')
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
    ]  # fmt: skip
    command = [chromium, *options, "--dump-dom", (folder / "pages.html").as_uri()]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    found = json.loads(unescape(said.partition("&lt;&lt;&lt;")[2].partition("&gt;&gt;&gt;")[0]))
    return {(name.partition("|")[0], int(name.partition("|")[2])): value for name, value in found.items()}


@pytest.mark.parametrize("width", [375, 640])
@pytest.mark.parametrize("name", PAGES)
def test_a_mail_does_not_scroll_sideways(shown, name, width):
    page = shown[name, width]
    assert page["width"] == width
    assert page["scroll"] <= width
    assert page["right"] <= width
    assert page["loaded"] == 0


def test_a_reader_sees_what_was_found(shown):
    text = shown["usual", 375]["text"]
    for part in (
        "A change",
        "commit 9f8e7d6c5b4a",
        "2 findings, high",
        "high shop/cart.py:2",
        SQL.quote,
        "Fine.",
        SCOPE,
    ):
        assert part in text
    assert "name is formatted into SQL." in text
    assert "sql-injection \u00b7 also at a.py:3, b.py:4 and 2 more" in text
    assert text.index("Allowed by this change") < text.index("d.py:7") < text.index("Fine.")


def test_markup_from_outside_is_shown_as_text(shown):
    assert "<table width=2000><pre>&nbsp;" in shown["markup", 640]["text"]
