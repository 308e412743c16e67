"""A report of facts: what is found, what is allowed, what was checked, and what was not."""

import threading

import pytest

from reprieve.review.critic.facts import check_change
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.parsing import ParserChild
from reprieve.review.critic.registry import CHECKS
from reprieve.review.critic.review import Review, build_report
from reprieve.review.critic.suppression import CriticSettings, settings_of
from support.change_sets import change_between, patch_between

CLEAN = "def total(items):\n    return sum(items)\n"
LEFT = "def total(items):\n    breakpoint()\n    return sum(items)\n"


def found(before, after, settings=None):
    return [
        (each.rule, each.place, each.allowed) for each in check_change(change_between(before, after), settings).findings
    ]


def test_a_finding_has_its_place_its_line_and_what_to_do():
    (finding,) = check_change(change_between({"cart.py": CLEAN}, {"cart.py": LEFT})).findings
    assert (finding.rule, finding.place, finding.quote) == ("debug-leftover", "cart.py:2", "breakpoint()")
    assert "Remove it." in finding.comment


def test_a_line_that_the_change_does_not_touch_is_not_reported():
    assert found({"cart.py": LEFT}, {"cart.py": LEFT + "\n\ndef count(items):\n    return len(items)\n"}) == []


def test_equal_findings_are_folded_into_the_first():
    text = "".join(f"def f{n}():\n    breakpoint()\n\n\n" for n in range(3))
    (finding,) = check_change(change_between({}, {"a.py": text})).findings
    assert finding.place == "a.py:2"
    assert finding.also == ("a.py:6", "a.py:10")


def test_equal_findings_of_two_files_stay_two_and_none_is_lost_in_a_report():
    text = "def f(db, x):\n    return db.execute(f\"SELECT a FROM b WHERE c = '{x}'\")\n"
    facts = check_change(change_between({}, {"one.py": text, "two.py": text + text.replace("f(", "g(")}))
    report = build_report(Review(facts=facts), facts)
    assert [(each.place, each.also) for each in report.findings] == [("one.py:2", ()), ("two.py:2", ("two.py:4",))]


def test_two_secrets_stay_two_findings():
    text = "".join(f'KEY_{n} = "AKIA{key}"\n' for n, key in enumerate(("Q3EGRJ5PZ7KXW2NM", "W5TYHN4QX6LZV3BC")))
    assert [each.place for each in check_change(change_between({}, {"a.py": text})).findings] == ["a.py:1", "a.py:2"]


def test_a_name_of_a_file_adds_no_line_to_the_summary():
    report = check_change(change_between({}, {"a\n::error::b/x.py": "def f():\n    breakpoint()\n"}))
    assert len(report.findings) == 1
    assert "\n" not in report.summary


def test_a_secret_is_masked_in_the_quoted_line():
    key = "AKIA" + "Q3EGRJ5PZ7KXW2NM"
    report = check_change(change_between({}, {"shop.py": f'KEY = "{key}"\n'}))
    assert [each.rule for each in report.findings] == ["secret"]
    assert key not in str(report)


@pytest.mark.parametrize(
    "settings",
    [
        CriticSettings(off=("debug-leftover",)),
        CriticSettings(exclude=("*.py",)),
        CriticSettings(severity={"debug-leftover": Severity.NONE}),
    ],
)
def test_settings_switch_a_rule_off(settings):
    assert found({"cart.py": CLEAN}, {"cart.py": LEFT}, settings) == []


def test_settings_change_a_severity_by_id_and_by_the_code_of_the_linter():
    after = {"a.py": "import pickle\n\n\ndef read(text):\n    breakpoint()\n    return pickle.loads(text)\n"}
    settings = CriticSettings(severity={"debug-leftover": Severity.HIGH, "S301": Severity.LOW})
    findings = check_change(change_between({}, after), settings).findings
    assert {each.rule: each.severity.value for each in findings} == {
        "debug-leftover": "high", "unsafe-deserialization": "low",
    }  # fmt: skip


@pytest.mark.parametrize(
    "comment",
    [
        "# reprieve: allow debug-leftover",
        "# reprieve: allow[debug-leftover]",
        "# reprieve: allow secret, debug-leftover",
    ],
)
def test_a_comment_of_the_change_marks_a_finding_as_allowed(comment):
    after = LEFT.replace("breakpoint()", f"breakpoint()  {comment}")
    assert found({"cart.py": CLEAN}, {"cart.py": after}) == [("debug-leftover", "cart.py:2", True)]


def test_a_comment_above_that_stands_in_the_base_allows_a_finding():
    before = "def total(items):\n    # reprieve: allow debug-leftover\n    return sum(items)\n"
    after = "def total(items):\n    # reprieve: allow debug-leftover\n    breakpoint()\n    return sum(items)\n"
    assert found({"cart.py": before}, {"cart.py": after}) == []


def test_a_comment_that_stands_elsewhere_in_the_base_is_a_comment_of_the_change_where_it_is_added():
    comment = "    # reprieve: allow debug-leftover\n"
    before = f"def one():\n{comment}    return 1\n"
    after = f"{before}\n\ndef two():\n{comment}    breakpoint()\n"
    assert found({"a.py": before}, {"a.py": after}) == [("debug-leftover", "a.py:8", True)]


@pytest.mark.parametrize(
    "line", ["# reprieve: allow" + " " * 100_000 + "!", "# reprieve: allow " + "a, " * 30_000, "# noqa" + " " * 100_000]
)
def test_a_long_comment_is_read_in_a_moment(line):
    assert found({}, {"a.py": f"def f():\n    breakpoint()  {line}\n"}) in ([], [("debug-leftover", "a.py:2", False)])


def test_a_comment_for_another_rule_allows_nothing():
    after = LEFT.replace("breakpoint()", "breakpoint()  # reprieve: allow secret")
    assert found({"cart.py": CLEAN}, {"cart.py": after}) == [("debug-leftover", "cart.py:2", False)]


def test_a_comment_of_ruff_that_the_change_adds_marks_the_finding():
    after = {"a.py": "import pickle\n\n\ndef read(text):\n    return pickle.loads(text)  # noqa: S301\n"}
    assert found({}, after) == [("unsafe-deserialization", "a.py:5", True)]


def test_the_scope_counts_checks_and_names_what_has_rules_for_every_file_only():
    report = check_change(change_between({}, {"a.py": CLEAN, "b.zig": "x\n", "c.zig": "y\n"}))
    assert report.scope.endswith(" rules on 3 files; 2 .zig files: rules for every file only")


def test_of_a_patch_the_rules_that_need_the_tree_are_named_as_not_checked():
    report = check_change(patch_between({"cart.py": CLEAN}, {"cart.py": LEFT}))
    assert [each.rule for each in report.findings] == ["debug-leftover"]
    assert "the rest of the repository is unknown: " in report.scope
    assert "1 file known only by the patch: rules that read whole files did not run on it" in report.scope.replace(
        "them", "it"
    )
    assert "removed-name" in report.scope


def test_nothing_found_is_said_as_that():
    report = check_change(change_between({"cart.py": CLEAN}, {"cart.py": CLEAN + "\n\nLIMIT = 3\n"}))
    assert report.findings == ()
    assert report.summary == "The change touches 1 file of Python: 3 lines added, 0 removed. Nothing was found."


def test_a_check_that_breaks_is_named_and_the_others_go_on(caplog):
    def broken(change):
        raise ZeroDivisionError

    first, *others = CHECKS
    checks = [type(first)(rules=first.rules, run=broken), *others]
    report = check_change(change_between({"cart.py": CLEAN}, {"cart.py": LEFT}), checks=checks)
    assert "not checked: ZeroDivisionError" in report.scope
    assert "a check of the critic failed" in caplog.text


def test_a_check_that_waits_for_other_programs_runs_while_the_files_are_parsed():
    begun = threading.Event()

    def waits(change):
        begun.set()
        yield from ()

    class Parser(ParserChild):
        def parse(self, kind, text):
            assert begun.wait(60)
            return super().parse(kind, text)

    first = CHECKS[0]
    checks = [type(first)(rules=first.rules, run=waits, runs_beside=True)]
    report = check_change(change_between({"cart.py": CLEAN}, {"cart.py": LEFT}), checks=checks, parser=Parser())
    assert "not parsed" not in report.scope


def test_one_parser_child_reads_the_changed_files_and_those_that_use_them_and_is_ended():
    with ParserChild() as parser:
        before = {"cart.py": CLEAN, "main.py": "from cart import total\n\ntotal([])\n"}
        report = check_change(change_between(before, {**before, "cart.py": "COUNT = 1\n"}), parser=parser)
        assert [each.place for each in report.findings if each.rule == "removed-name"] == ["main.py:1"]
        assert parser._process is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[critic]\nof = ['x']\n", "critic.of: there is no such setting"),
        ("[critic]\noff = ['no-such-rule']\n", "there is no rule 'no-such-rule'"),
        ("[critic", "is not TOML"),
        (f"a = {'[' * 100_000}", "is not TOML"),
    ],
)
def test_wrong_settings_of_the_base_switch_nothing_off_and_are_named(text, problem):
    settings, said = settings_of(text)
    assert settings == CriticSettings()
    assert problem in said[0]


def test_settings_of_the_base_are_read():
    settings, problems = settings_of('[model]\nname = "local"\n[critic]\noff = ["secret"]\n')
    assert (settings.off, problems) == (("secret",), ())
