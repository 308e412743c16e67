"""`reprieve review` where people work: uncommitted changes, hooks, checks, forms, and the same change again."""

import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from reprieve.review.critic import facts
from support.command_line import main

REPRIEVE = f"#!/bin/sh\nexec {sys.executable} -m reprieve review --staged --fail-on high\n"


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A repository with one commit, which is the current folder; runs git in it."""
    for name in [name for name in os.environ if name.startswith(("REPRIEVE_", "GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def git(*arguments, check=True):
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@shop.example", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=check)

    git("init", "--quiet")
    Path("cart.py").write_text("def total(items):\n    return sum(items)\n")
    git("add", "--all")
    git("commit", "--quiet", "--message", "Start")
    return git


@pytest.fixture
def review(shop, monkeypatch, capsys):
    """Runs `reprieve review ...`; gives what went to standard output and to standard error."""

    def run(*arguments, code=0, command="review"):
        with monkeypatch.context() as here:
            here.setattr(sys, "argv", ["reprieve", command, *map(str, arguments)])
            ended = 0
            try:
                main()
            except SystemExit as left:
                ended = left.code or 0
        said = capsys.readouterr()
        assert ended == code, said
        return said

    return run


def leave_a_breakpoint(path="cart.py"):
    Path(path).write_text("def total(items):\n    breakpoint()\n    return sum(items)\n")


def leak_a_key(comment=""):
    Path("pay.py").write_text(f'KEY = "AKIA{"Q3EGRJ5PZ7KXW2NM"}"{comment}\n')


def test_the_uncommitted_changes_are_reviewed_without_a_word(review, shop):
    leave_a_breakpoint()
    before = shop("status", "--porcelain").stdout
    said = review()
    assert said.out.startswith("cart.py:2  medium  debug-leftover  ")
    assert "\n    breakpoint()\n" in said.out
    assert re.search(r"Scope: \d+ rules on 1 file\.", said.out)
    assert said.err == ""
    assert shop("status", "--porcelain").stdout == before
    assert not Path("reprieve.db").exists()
    assert not Path("mail").exists()


def test_nothing_found_is_said_with_what_was_checked(review):
    Path("cart.py").write_text("def total(items):\n    return sum(items) or 0\n")
    assert re.match(r"Nothing found: \d+ rules on 1 file\.", review().out)


def test_a_commit_a_range_and_a_patch_are_reviewed(review, shop):
    leave_a_breakpoint()
    shop("commit", "--quiet", "--all", "--message", "Look into totals")
    Path("fix.patch").write_text(shop("format-patch", "--stdout", "HEAD~1").stdout)
    for name in ("HEAD", "HEAD~1...HEAD", "fix.patch"):
        assert "cart.py:2  medium  debug-leftover" in review(name).out
    assert "the rest of the repository is unknown" in review("fix.patch").out


def test_a_patch_is_read_from_standard_input(review, shop, monkeypatch):
    leave_a_breakpoint()
    patch = shop("diff").stdout
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch.encode())))
    said = review("-", "--fail-on", "medium", code=1)
    assert "cart.py:2  medium  debug-leftover" in said.out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch.encode())))
    assert "standard input was reviewed before" in review("-").err


@pytest.mark.parametrize("text", [b"", b"\xff\x00", b"no patch at all\n"])
def test_standard_input_without_a_patch_is_refused(review, monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert "'standard input' holds no change that can be read" in review("-", code=2).err


def test_a_clean_work_tree_is_no_failure_of_a_hook(review):
    said = review("--staged", "--fail-on", "high")
    assert said.out == ""
    assert "nothing to review" in said.err


@pytest.mark.parametrize(("least", "code"), [("low", 1), ("medium", 1), ("high", 0)])
def test_fail_on_ends_with_1_from_its_severity_on(review, least, code):
    leave_a_breakpoint()
    assert "debug-leftover" in review("--fail-on", least, code=code).out


def test_a_hook_stops_a_commit_with_a_leaked_key_and_lets_the_next_one_pass(shop):
    hook = Path(".git/hooks/pre-commit")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(REPRIEVE)
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    leak_a_key()
    shop("add", "pay.py")
    stopped = shop("commit", "--quiet", "--message", "Pay", check=False)
    assert stopped.returncode == 1
    assert "pay.py:1  high  secret" in stopped.stdout + stopped.stderr
    assert "Q3EGRJ5PZ7KXW2NM" not in stopped.stdout + stopped.stderr
    Path("pay.py").write_text('import os\n\nKEY = os.environ["PAY_KEY"]\n')
    shop("add", "pay.py")
    assert shop("commit", "--quiet", "--message", "Pay", check=False).returncode == 0


def test_a_finding_that_the_change_allows_is_listed_apart_and_does_not_fail(review):
    Path("cart.py").write_text(
        "def total(items):\n    breakpoint()  # reprieve: allow debug-leftover\n    return sum(items)\n"
    )
    said = review("--fail-on", "low").out
    assert "Allowed by this change" in said
    assert "cart.py:2" in said.partition("Allowed by this change")[2]


def test_a_secret_fails_even_where_the_change_allows_it(review):
    leak_a_key("  # reprieve: allow secret")
    assert "Allowed by this change" in review("--fail-on", "high", code=1).out


def test_settings_of_the_rules_count_from_the_commit_on_that_adds_them(review, shop):
    Path("reprieve.toml").write_text('[critic]\noff = ["debug-leftover"]\n')
    leave_a_breakpoint()
    assert "debug-leftover" in review().out
    shop("add", "reprieve.toml")
    shop("commit", "--quiet", "--message", "Allow breakpoints")
    assert "debug-leftover" not in review().out


def test_standard_output_of_a_program_s_form_holds_nothing_else(review):
    leave_a_breakpoint()
    found = json.loads(review("--format", "json").out)
    assert [each["rule"] for each in found["reviews"][0]["findings"]] == ["debug-leftover"]
    sarif = json.loads(review("--format", "sarif").out)
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == ["debug-leftover"]
    assert review("--format", "markdown").out.startswith("### Review of ")


def test_the_same_content_again_gives_the_stored_review_and_again_makes_the_next_version(review):
    leave_a_breakpoint()
    first = review()
    again = review()
    assert again.out == first.out
    assert again.err == "reprieve: work tree of shop was reviewed before; --again reviews it anew\n"
    assert "version 2" in review("--again", "--jobs").out


def test_a_stored_review_of_other_rules_says_so(review, monkeypatch):
    leave_a_breakpoint()
    review()
    monkeypatch.setattr(facts, "rules_digest", lambda: "other")
    monkeypatch.setattr("reprieve.review.critic.critic.rules_digest", lambda: "other")
    assert "was reviewed before by other rules, settings or another version of the program" in review().err


def test_the_jobs_of_the_reviews_are_found_without_naming_the_database(review):
    leave_a_breakpoint()
    review()
    assert "succeeded" in review("list", command="jobs").out


def test_the_rules_are_listed(review):
    said = review("--rules").out
    assert re.search(r"^secret +high ", said, re.MULTILINE)
    assert re.search(r"^sql-injection +", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--fail-on", "high", "--notify", "ada@example.org"], "sends nothing: leave --notify out"),
        (["--staged", "HEAD"], "name no commit beside it"),
        (["--repository", "/no/such/place"], "there is no repository at"),
    ],
)
def test_a_wrong_request_is_refused_in_a_sentence(review, arguments, why):
    assert why in review(*arguments, code=2).err


def test_an_empty_change_is_no_failure_and_a_valid_document(review, shop):
    shop("commit", "--quiet", "--allow-empty", "--message", "Nothing")
    assert "nothing to review" in review("HEAD").err
    assert json.loads(review("HEAD", "--format", "sarif").out)["version"] == "2.1.0"
    assert json.loads(review("--format", "json").out) == {"reviews": []}


def test_a_model_that_fails_takes_no_facts_away_and_its_failure_does_not_stick(review):
    leave_a_breakpoint()
    model = ("--model", "http://127.0.0.1:9/v1#x", "--settings", "quick.toml")
    Path("quick.toml").write_text("[model]\nseconds = 1\n")
    failed = review(*model, "--fail-on", "medium", code=1)
    assert "debug-leftover" in failed.out
    assert "given up: job 1" in failed.err
    assert "--fail-on medium: 1 finding" in failed.err
    Path("quick.toml").unlink()
    assert "given up" not in review().err


def test_a_large_file_is_left_out_and_the_others_are_reviewed(review):
    leave_a_breakpoint()
    Path("fixture.csv").write_text("a,b,c\n" * 400_000)
    said = review("--fail-on", "medium", code=1)
    assert "debug-leftover" in said.out
    assert "1 file not reviewed" in said.err


def test_a_file_that_is_too_large_passes_fail_on_with_a_warning_until_the_limit_is_raised(review, monkeypatch):
    breakpoints = "def total(items):\n    breakpoint()\n" + "    # a comment of some length\n" * 9_000
    Path("cart.py").write_text(breakpoints)
    said = review("--fail-on", "low")
    assert "debug-leftover" not in said.out
    assert "1 file not reviewed, too large or beyond the limit; see [limits] in the settings" in said.err
    monkeypatch.setenv("REPRIEVE_REVIEW_LIMITS__FILE_BYTES", "1000000")
    assert "debug-leftover" in review("--fail-on", "low", "--again", code=1).out


def test_a_merge_with_conflicts_is_told_in_a_sentence(review, shop):
    shop("checkout", "--quiet", "-b", "other")
    Path("cart.py").write_text("OTHER = 1\n")
    shop("commit", "--quiet", "--all", "--message", "Other")
    shop("checkout", "--quiet", "-")
    Path("cart.py").write_text("MINE = 1\n")
    shop("commit", "--quiet", "--all", "--message", "Mine")
    shop("merge", "other", check=False)
    assert "resolve the conflicts of the merge first" in review("--staged", code=2).err


def test_a_model_whose_packages_are_missing_is_told_in_a_sentence(review, monkeypatch):
    def missing(name):
        raise ImportError(f"{name} needs openai: pip install 'reprieve[local]'")

    leave_a_breakpoint()
    monkeypatch.setattr("reprieve.review.parts.model_at", missing)
    said = review("--model", "local", code=2).err
    assert "pip install '.[local]', in a clone of Reprieve" in said
    assert "nobody expected" not in said


def test_reviews_of_several_processes_at_the_same_time_all_end(shop):
    for number in range(3):
        Path(f"part{number}.py").write_text("def f():\n    breakpoint()\n")
        shop("add", "--all")
        shop("commit", "--quiet", "--message", f"Part {number}")
    command = [sys.executable, "-m", "reprieve", "review", "--again"]
    for _ in range(2):
        started = [
            subprocess.Popen([*command, f"HEAD~{number}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for number in range(3)
        ]
        try:
            ended = [process.communicate(timeout=120)[0] for process in started]
        finally:
            for process in started:
                process.kill()
        assert [process.returncode for process in started] == [0, 0, 0]
        assert all("debug-leftover" in said for said in ended)
