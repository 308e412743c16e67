"""What is printed where no terminal is, on narrow terminals, and where nobody reads it or it cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

GATES = ["--cause", "data", "--evidence", "INC-1: corrected", "--safe"]


def shell(line, folder):
    return subprocess.run(
        line.replace("R ", f"{sys.executable} -m reprieve "), shell=True, cwd=folder, text=True, capture_output=True,
        timeout=120, check=False, executable="/bin/bash",
    )  # fmt: skip


@pytest.mark.parametrize("options", ["--json", ""])
def test_who_reads_only_the_beginning_is_no_error(worked, tmp_path, options):
    done = shell(f"set -o pipefail; R dead list --all {options} | true", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("verb", ["dead list", "dead export", "dead show 1 --json"])
def test_output_that_cannot_be_written_is_told_in_a_sentence(worked, tmp_path, verb):
    done = shell(f"R {verb} > /dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (2, "reprieve: cannot write the output: No space left on device\n")


def test_lines_that_are_piped_end_with_no_spaces(worked):
    for words in (["jobs", "list"], ["jobs", "show", 2], ["dead", "show", 1], ["dead", "list"], ["stages", "list"]):
        lines = worked(*words).out.splitlines()
        assert lines
        assert [line for line in lines if line != line.rstrip()] == []


def test_somebody_who_says_how_wide_it_is_gets_lines_of_that_width(worked, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    worked("dead", "replay", 1, *GATES)
    worked("jobs", "cancel", 4)
    worked("work", "--until-idle", "--log-level", "error")
    for words in (["dead", "show", 1], ["dead", "list"], ["jobs", "show", 2]):
        lines = worked(*words).out.splitlines()
        assert max(map(len, lines)) <= 60
    shown = worked("dead", "show", 1).out
    assert "failed again the same way: DECLARED_PERMANENT at llm:" in " ".join(shown.split())
    history = shown[shown.index("history") : shown.index("next: ")].splitlines()
    assert len(history) < 25


def test_a_list_of_campaigns_is_no_tower_on_a_narrow_terminal(worked, monkeypatch):
    worked("dead", "replay", "-p", "review", *GATES, "--yes", "--detach")
    monkeypatch.setenv("COLUMNS", "60")
    lines = worked("dead", "campaigns", "list").out.splitlines()
    assert len(lines) <= 6
    assert lines[-1].strip() == "waiting 1"


def test_times_are_told_as_times_also_in_what_is_left_of_a_history(worked):
    worked("dead", "discard", 1, "--reason", "no", "--actor", "ada")
    worked("dead", "prune", "--older-than", "0s")
    worked("dead", "reopen", 1, "--reason", "yes", "--actor", "eve")
    worked("dead", "triage", 1, "--cause", "data")
    shown = worked("dead", "show", 1).out
    assert [line.split()[2][:2] for line in shown.splitlines() if line.startswith(("ended at", "pruned at"))] == [
        "20",
        "20",
    ]
    assert "discarded -> open" in shown
    assert "open -> triaged" in shown


def test_who_cancels_a_replayed_job_is_told_of_its_dead_letter_which_says_who_it_was(worked):
    worked("dead", "replay", 1, *GATES)
    done = worked("jobs", "cancel", 2, "--reason", "a mistake", "--actor", "ada")
    assert done.out == "job 2: cancelled; dead letter 1 is discarded with it\n"
    assert "cancelled by ada: a mistake" in worked("dead", "show", 1).out
    assert worked("dead", "show", 1, "--json").json["job_ended_by"] == "ada"


def test_machines_are_told_what_pruning_did_and_jobs_are_cancelled_by_key(worked):
    assert worked("jobs", "cancel", "--key", "later").out == "job 4: cancelled\n"
    assert worked("jobs", "cancel").code == 2
    assert worked("dead", "prune", "--older-than", "0s", "--json").json == {"dead_letters": 0, "dry_run": False}
    pruned = worked("jobs", "prune", "--older-than", "0s", "--dry-run", "--json").json
    assert pruned == {"jobs": 2, "kept_for": {"dead_letters": 1, "deliveries": 0}, "dry_run": True}
