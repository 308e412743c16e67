"""The guide to dead letters, typed in as its reader would: every command, then the program."""

import json

import pytest

from reprieve.app.next_steps import next_step
from reprieve.core.lifecycle import LetterState
from reprieve.core.remedies import REMEDIES


@pytest.fixture
def with_reviews(page, reader, tmp_path):
    """A reader who has saved the example."""
    (program,) = page("docs/operating.md").section("## The example").programs
    (tmp_path / "reviews.py").write_text(program, encoding="utf-8")
    done = reader.python("reviews.py")
    assert (done.returncode, done.stderr) == (0, "")
    return reader


def test_every_command_of_the_page_runs_and_does_what_the_page_says(page, with_reviews, tmp_path):
    guide = page("docs/dead-letters.md")
    look = [f"reprieve dead show {letter} --json" for letter in (1, 2, 3)]
    said = with_reviews.types_all([*guide.commands, *look])
    states = [json.loads(said[line]) for line in look]
    assert [letter["state"] for letter in states] == ["resolved", "resolved", "approved"]
    assert [entry["event"] for entry in states[0]["history"]] == [
        "triage", "remediate", "approve", "replay", "recover", "verify", "verify", "resolve",
    ]  # fmt: skip
    assert [entry["event"] for entry in states[2]["history"]] == [
        "escalate", "note", "discard", "reopen", "triage", "remediate", "approve",
    ]  # fmt: skip
    assert "wait: campaign" not in said["reprieve dead list"]
    assert said["reprieve dead campaigns list"].splitlines()[1].split()[:2] == ["1", "running"]
    assert "waiting" in said["reprieve dead campaigns show 1"]
    assert "cancelled" in said["reprieve dead campaigns cancel 1 --reason 'the fix was rolled back'"]
    assert len((tmp_path / "dead.jsonl").read_text().splitlines()) == 3
    assert "3 written" not in said["reprieve dead list"]
    assert said["reprieve dead list"].count("next: reprieve dead triage") == 3
    (tmp_path / "program.py").write_text(guide.programs[0], encoding="utf-8")
    done = with_reviews.python("program.py")
    assert (done.returncode, done.stderr) == (0, "")
    *rows, replayed, refused = done.stdout.splitlines()
    assert [row.split()[1] for row in rows] == ["approved", "resolved", "resolved"]
    assert replayed == "1 []"
    assert "its job has not succeeded" in refused


def test_the_page_has_the_remedies_as_they_are(page):
    text = page("docs/dead-letters.md").text
    for cause in REMEDIES:
        assert f"| `{cause}` | that " in text


def test_every_next_step_is_a_command_that_there_is(page):
    known = page("docs/dead-letters.md").text
    for state in LetterState:
        command = next_step(state, "1", category="validation", job_id=1).command
        if command is not None and command.startswith("reprieve dead "):
            assert " ".join(command.split()[:3]) in known
