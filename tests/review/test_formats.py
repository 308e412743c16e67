"""Reports as text, JSON, Markdown and SARIF: complete, stable, and safe to show."""

import json
import re
import unicodedata
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from reprieve.review.critic import registry
from reprieve.review.critic.findings import Finding, Severity
from reprieve.review.critic.review import Report
from reprieve.review.critic.rules import CriticRule
from reprieve.review.diffs import LeftOut
from reprieve.review.formats import Format, ReviewedChange, Role, also_at, clean, render, text_lines

COMMIT = "a" * 40
SCOPE = "12 rules on 3 files"
MODEL = "Opinion of openai:gpt-5-mini (1,204 tokens in, 96 out, 3.2 s); nothing checked it."
SQL = Finding(
    rule="sql-injection", file="app.py", line=9, severity=Severity.HIGH,
    quote="cursor.execute(f\"... '{name}'\")", also=("a.py:3", "b.py:4", *["c.py:5"] * 5),
    comment="User input is formatted into SQL: pass it as a parameter.",
)  # fmt: skip
OPINION = Finding(
    file="b c.py", line=0, severity=Severity.MEDIUM, comment="No limit.", origin="openai:gpt-5-mini",
)  # fmt: skip
ALLOWED = Finding(
    rule="debug-leftover", code="T201", file="d.py", line=2, comment="Remove `print`.", quote="print(1)",
    allowed=True,
)  # fmt: skip
EVIL = (
    "</script><script>alert(1)</script>[x](https://evil.example) ![y](z) `` ` @all #1 "
    "\r\n/close\n# h\x1b[2J\u202e\u2028**b**"
)


def reviewed(*findings, **values):
    report = Report(
        summary=values.pop("summary", "The change touches 3 files."), scope=SCOPE, findings=findings,
        severity=max((each.severity for each in findings), key=lambda each: each.rank, default=Severity.NONE),
        made_by=(f"Rules of Reprieve 1.0: {SCOPE}.", MODEL), dropped=values.pop("dropped", 0),
        hidden=values.pop("hidden", 0),
    )  # fmt: skip
    return ReviewedChange(
        changelist_id="shop:1", version=3, title=values.pop("title", "Add a search"), report=report, **values
    )


def test_the_text_has_the_findings_first_then_what_the_change_allows_the_summary_and_the_scope():
    assert render([reviewed(SQL, OPINION, ALLOWED, dropped=1)], Format.TEXT) == (
        "app.py:9  high  sql-injection  User input is formatted into SQL: pass it as a parameter.\n"
        "    cursor.execute(f\"... '{name}'\")\n"
        "    also at a.py:3, b.py:4 and 5 more\n"
        "b c.py  medium  by openai:gpt-5-mini  No limit.\n"
        "1 finding of the model points outside the change and is left out.\n"
        "\n"
        "Allowed by this change:\n"
        "d.py:2  low  debug-leftover (T201)  Remove `print`.\n"
        "    print(1)\n"
        "\n"
        "The change touches 3 files.\n"
        "\n"
        f"Scope: {SCOPE}.\n"
        f"{MODEL}\n"
    )


def test_a_change_without_findings_is_said_to_have_none_with_what_was_checked():
    left = LeftOut(binary=1, generated=2)
    text = render([reviewed(left_out=left)], Format.TEXT)
    checked = f"{SCOPE}; files not reviewed: 1 binary, 2 generated"
    assert text.startswith(f"Nothing found: {checked}.\n\nThe change")
    assert text.count(SCOPE) == 1


def test_each_of_several_changes_has_its_title_above_it():
    text = render([reviewed(SQL, title="One"), reviewed(title="Two")], Format.TEXT)
    assert [line for line in text.splitlines() if line.startswith("==")] == ["== One ==", "== Two =="]
    assert "==" not in render([reviewed(title="One")], Format.TEXT)


def test_the_pieces_of_the_text_name_the_severity_for_programs_that_colour_it():
    first = next(iter(text_lines([reviewed(SQL)])))
    named = [(span.text, span.severity) for span in first if span.role is Role.SEVERITY]
    assert named == [("high", Severity.HIGH)]


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ((), ""),
        (("a:1",), "also at a:1"),
        (("a:1", "b:2"), "also at a:1 and b:2"),
        (("a:1", "b:2", "c:3"), "also at a:1, b:2 and c:3"),
        (("a:1", "b:2", "c:3", "d:4"), "also at a:1, b:2 and 2 more"),
    ],
)
def test_other_places_of_a_finding_are_folded(places, text):
    assert also_at(SQL.model_copy(update={"also": places})) == text


def test_a_person_is_named_as_the_author_of_an_opinion():
    by_person = OPINION.model_copy(update={"origin": "person"})
    assert "b c.py  medium  by a person  No limit." in render([reviewed(by_person)], Format.TEXT)


def test_the_json_has_keys_that_stay():
    change = reviewed(SQL, ALLOWED, forge="https://github.com/s/t", commit=COMMIT, hidden=4)
    (review,) = json.loads(render([change], Format.JSON))["reviews"]
    assert set(review) == {
        "changelist_id", "review_version", "title", "url", "severity", "summary", "findings", "hidden",
        "dropped", "scope", "not_reviewed", "made_by", "made_with",
    }  # fmt: skip
    assert (review["review_version"], review["severity"], review["hidden"]) == (3, "high", 4)
    assert review["findings"][0] == {
        "file": "app.py", "line": 9, "url": f"https://github.com/s/t/blob/{COMMIT}/app.py#L9",
        "severity": "high", "rule": "sql-injection", "code": "", "comment": SQL.comment, "quote": SQL.quote,
        "also": list(SQL.also), "origin": "facts", "allowed": False,
    }  # fmt: skip
    assert [each["allowed"] for each in review["findings"]] == [False, True]
    assert json.loads(render([], Format.JSON)) == {"reviews": []}


def hostile():
    finding = Finding(
        file=EVIL.replace("//", "/"),
        line=3,
        comment=EVIL,
        quote=EVIL,
        rule=EVIL,
        also=(EVIL,) * 9,
        severity=Severity.LOW,
    )
    opinion = finding.model_copy(update={"origin": EVIL, "rule": ""})
    allowed = finding.model_copy(update={"allowed": True})
    change = reviewed(finding, opinion, allowed, title=EVIL, summary=EVIL)
    return replace(
        change, forge="https://github.com/s/t", commit=COMMIT, report=replace(change.report, made_by=(EVIL,))
    )


@pytest.mark.parametrize("kind", Format)
def test_no_format_shows_characters_that_are_not_seen(kind):
    text = render([hostile()], kind)
    unseen = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not unseen & {unicodedata.category(each) for each in text if each != "\n"}
    assert clean("a\u200b\tb\n c\u2028d\x85e") == "a b c d e"


def test_a_hostile_report_has_one_line_for_each_field_of_the_text():
    lines = render([hostile()], Format.TEXT).splitlines()
    assert sum(line.startswith("    ") for line in lines) == 6, "quoted line and folded places, three times"


def test_markdown_from_outside_adds_no_markup_no_html_and_no_mention():
    text = render([hostile()], Format.MARKDOWN)
    page = MarkdownIt("commonmark", {"html": True}).render(text)
    outside_code = re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL)
    tags = set(re.findall(r"<([a-z0-9]+)", outside_code))
    assert tags <= {"h3", "ul", "li", "p", "a", "pre", "strong", "sub", "br"}
    assert set(re.findall(r'href="([^"]{0,40})', page)) == {f"https://github.com/s/t/blob/{COMMIT}"[:40]}
    assert page.count("<h3>") == 1
    assert page.count("<li>") == page.count("<pre>") == 3
    assert not re.search(r"@\w|#\d", outside_code)
    first_words = {line.partition(" ")[0] for line in text.splitlines()}
    assert "/close" not in first_words, "it would be a command to a bot"
    assert text.count("://evil") == page.count("<pre>"), "outside quoted lines, no forge makes it a link"


@pytest.mark.parametrize("quote", ["x = ```` + '``'", "```", "``````", "~~~", "- # 1."])
def test_markdown_shows_a_quoted_line_as_it_is(quote):
    page = MarkdownIt().render(render([reviewed(SQL.model_copy(update={"quote": quote}))], Format.MARKDOWN))
    assert f"<pre><code>{quote}\n</code></pre>" in page


def test_markdown_links_places_and_shows_words_between_backticks_as_code():
    change = reviewed(SQL, ALLOWED, forge="https://github.com/s/t", commit=COMMIT)
    page = MarkdownIt().render(render([change], Format.MARKDOWN))
    assert f'<a href="https://github.com/s/t/blob/{COMMIT}/app.py#L9"><code>app.py:9</code></a>' in page
    assert "Remove <code>print</code>." in page
    assert page.index("Allowed by this change:") < page.index("d.py:2") < page.index("The change touches")


def test_a_comment_fits_into_what_github_takes_and_counts_what_it_leaves_out():
    long = SQL.model_copy(update={"comment": "*" * 5000})
    findings = [long.model_copy(update={"line": n, "allowed": n > 40}) for n in range(1, 51)]
    text = render([reviewed(*findings)], Format.MARKDOWN)
    assert 40_000 < len(text) < 65_536
    listed = text.count("- **high**")
    assert f"{50 - listed} more findings are not listed." in text


@pytest.fixture
def rules(monkeypatch):
    rule = CriticRule(
        id="sql-injection", severity=Severity.MEDIUM, finds="input that is formatted into SQL",
        advice="{name} is formatted into SQL: pass it as a parameter.",
    )  # fmt: skip
    known = {"sql-injection": rule}
    monkeypatch.setattr("reprieve.review.formats.RULES", known)
    return known


def test_sarif_has_the_parts_that_its_schema_requires(rules):
    log = json.loads(render([reviewed(SQL, OPINION, ALLOWED), reviewed()], Format.SARIF))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    assert len(log["runs"]) == 2
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"] == "Reprieve"
        names = [rule["id"] for rule in driver["rules"]]
        assert len(set(names)) == len(names)
        for rule in driver["rules"]:
            assert rule["shortDescription"]["text"]
            assert rule["help"]["text"]
        for result in run["results"]:
            _check_result(result, names)


def _check_result(result, names):
    assert names[result["ruleIndex"]] == result["ruleId"]
    assert result["level"] in {"none", "note", "warning", "error"}
    assert result["message"]["text"]
    assert re.fullmatch(r"[0-9a-f]{32}", result["partialFingerprints"]["reprieve/v1"])
    for location in (*result["locations"], *result.get("relatedLocations", ())):
        place = location["physicalLocation"]
        assert re.fullmatch(r"[\w.~/%-]+", place["artifactLocation"]["uri"], re.ASCII)
        assert "region" not in place or place["region"]["startLine"] >= 1
    assert all(each["kind"] == "inSource" for each in result["suppressions"])


def test_sarif_says_what_the_rule_is_how_bad_the_finding_is_and_what_the_change_allows(rules):
    (run,) = json.loads(render([reviewed(SQL, OPINION, ALLOWED)], Format.SARIF))["runs"]
    rule = next(each for each in run["tool"]["driver"]["rules"] if each["id"] == "sql-injection")
    assert rule["shortDescription"]["text"] == "input that is formatted into SQL"
    assert rule["help"]["text"] == "… is formatted into SQL: pass it as a parameter."
    assert rule["defaultConfiguration"] == {"level": "warning"}
    found, opinion, _ = run["results"]
    assert [each["level"] for each in run["results"]] == ["error", "warning", "note"]
    assert found["locations"][0]["physicalLocation"]["region"]["startLine"] == 9
    assert len(found["relatedLocations"]) == 7
    assert opinion["ruleId"] == "opinion"
    assert opinion["message"]["text"] == "No limit. (by openai:gpt-5-mini)"
    assert opinion["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "b%20c.py"}}
    assert [len(each["suppressions"]) for each in run["results"]] == [0, 0, 1]
    assert run["automationDetails"]["id"] == "reprieve/shop:1/3"


def test_a_finding_that_moves_to_another_line_keeps_its_fingerprint(rules):
    def prints(*findings):
        (run,) = json.loads(render([reviewed(*findings)], Format.SARIF))["runs"]
        return [each["partialFingerprints"]["reprieve/v1"] for each in run["results"]]

    here, there, other = SQL, SQL.model_copy(update={"line": 40}), SQL.model_copy(update={"file": "b.py"})
    first, second, third = prints(here, there, other)
    assert first == second != third


def test_sarif_describes_every_rule_of_the_registry():
    (run,) = json.loads(render([reviewed()], Format.SARIF))["runs"]
    assert {each["id"] for each in run["tool"]["driver"]["rules"]} == set(registry.RULES)


def test_a_hostile_report_is_sound_sarif(rules):
    (run,) = json.loads(render([hostile()], Format.SARIF))["runs"]
    names = [each["id"] for each in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        _check_result(result, names)
        assert "](" not in result["message"]["text"]
