"""`reprieve jobs`."""

import asyncio
import sqlite3

import pytest

import reprieve


def test_jobs_are_listed_with_the_newest_first(worked):
    done = worked("jobs", "list")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines() if "review" in line]
    assert [(line[0], line[3]) for line in lines] == [
        ("4", "pending"),
        ("3", "needs_review"),
        ("2", "dead_letter"),
        ("1", "succeeded"),
    ]
    assert "s ago)" in done.out, "when it was submitted"
    assert "(in 60 min)" in done.out, "when it is due"
    assert "waits on review" in done.out


def test_machines_get_jobs_as_json_and_where_the_next_page_begins(worked):
    first = worked("jobs", "list", "--limit", 3, "--json").json
    assert [job["job_id"] for job in first["jobs"]] == [4, 3, 2]
    assert first["jobs"][0]["state"] == "scheduled"
    assert first["after"] == 2
    second = worked("jobs", "list", "--limit", 3, "--json", "--after", first["after"]).json
    assert [job["job_id"] for job in second["jobs"]] == [1]
    assert second["after"] is None


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["-s", "dead_letter"], [2]),
        (["-p", "review", "--stage", "fetch"], [4]),
        (["--subject", "cl-1"], [1]),
        (["-s", "skipped"], []),
    ],
)
def test_jobs_can_be_filtered(worked, options, ids):
    assert [job["job_id"] for job in worked("jobs", "list", "--json", *options).json["jobs"]] == ids


def test_no_jobs_is_an_answer_too(worked):
    done = worked("jobs", "list", "-s", "skipped")
    assert (done.code, done.out) == (0, "no jobs\n")


def test_a_job_is_shown_with_its_history(worked):
    done = worked("jobs", "show", 2)
    assert done.code == 0
    for expected in ("job 2 of review", "dead_letter", "fetch", "thirteen", "non retryable", "1 of 5", "ago)"):
        assert expected in done.out
    assert "Traceback" not in done.out
    assert "Traceback" in worked("jobs", "show", 2, "--stack").out


def test_a_job_that_waits_for_an_upgrade_says_what_to_do(command):
    before, after = reprieve.Pipeline("typed"), reprieve.Pipeline("typed")

    @before.stage
    async def only(job: reprieve.Job[str]) -> None: ...

    @after.stage(name="only")
    async def changed(job: reprieve.Job[int]) -> None: ...

    async def run():
        async with reprieve.connect("sqlite:///reprieve.db") as app:
            await app.submit(before, "text")
            await app.work(after, until_idle=True)

    asyncio.run(run())
    shown = " ".join(command("jobs", "show", 1).out.split())
    assert "waits on upgrade:" in shown
    assert "declares an upgrade for it (@pipeline.upgrade)" in shown


def test_payloads_and_results_are_shown_only_when_asked_for(worked):
    for arguments in (["jobs", "list"], ["jobs", "list", "--json"], ["jobs", "show", 1], ["jobs", "show", 1, "--json"]):
        done = worked(*arguments)
        assert "private" not in done.out
        assert "reviewed" not in done.out
    assert '"note": "private"' in worked("jobs", "show", 1, "--payload").out
    assert "reviewed 1" in worked("jobs", "show", 1, "--result").out
    whole = worked("jobs", "show", "--key", "cl-1@1", "--payload", "--result", "--json").json
    assert (whole["payload"], whole["result"]) == ({"n": 1, "note": "private"}, "reviewed 1")
    assert worked("jobs", "show", 4, "--result", "--json").json["result"] is None


def test_what_users_stored_cannot_talk_to_the_terminal(worked):
    with sqlite3.connect("reprieve.db") as connection:
        connection.execute("UPDATE jobs SET idempotency_key = ?, subject = ? WHERE id = 1", ("a\x1b[2J", "[red]b\x07"))
    connection.close()
    for arguments in (["jobs", "list"], ["jobs", "show", 1]):
        shown = worked(*arguments).out
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "[red]b" in shown


@pytest.mark.parametrize("arguments", [["show", 77], ["show", "--key", "nothing"], ["list", "-p", "revew"]])
def test_what_is_not_there_ends_with_one(worked, arguments):
    done = worked("jobs", *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("reprieve: no ")


def test_jobs_are_cancelled_and_told_apart(worked):
    done = worked("jobs", "cancel", 4, "--reason", "not needed", "--actor", "ada")
    assert (done.code, done.out) == (0, "job 4: cancelled\n")
    job = worked("jobs", "show", 4, "--json").json
    assert (job["status"], job["reason"], job["ended_by"]) == ("cancelled", "not needed", "ada")
    done = worked("jobs", "cancel", 1, 3, 77)
    assert (done.code, done.out) == (1, "job 1: had ended before\njob 3: cancelled\njob 77: is not there\n")


def test_the_actor_is_the_user_unless_another_is_named(worked, monkeypatch):
    monkeypatch.setenv("LOGNAME", "grace")
    worked("jobs", "cancel", 4)
    assert worked("jobs", "show", 4, "--json").json["ended_by"] == "grace"
    monkeypatch.setenv("REPRIEVE_ACTOR", "hopper")
    worked("jobs", "cancel", 3)
    assert worked("jobs", "show", 3, "--json").json["ended_by"] == "hopper"


def test_pruning_counts_first_then_removes_and_says_what_it_kept(worked):
    assert worked("jobs", "prune", "--older-than", "30d").out == "0 jobs removed\n"
    kept = "; 1 job kept for open dead letters\n"
    assert worked("jobs", "prune", "--older-than", "0s", "--dry-run").out == f"1 job would be removed{kept}"
    assert worked("jobs", "prune", "--older-than", "0s", "-p", "review").out == f"1 job removed{kept}"
    assert [job["job_id"] for job in worked("jobs", "list", "--json").json["jobs"]] == [4, 3, 2]


@pytest.mark.parametrize("text", ["", "d", "-1d", "3 months", "1e9", "101000w", "nan"])
def test_a_length_of_time_that_is_none_is_refused(worked, text):
    done = worked("jobs", "prune", f"--older-than={text}")
    assert done.code == 2
    assert "30d, 12h, 90m" in done.err


def test_pruning_demands_a_unit(worked):
    done = worked("jobs", "prune", "--older-than", "30")
    assert done.code == 2
    assert "30d" in done.err
    assert len(worked("jobs", "list", "--json").json["jobs"]) == 4


def test_erasing_asks_first_and_leaves_no_contents(worked):
    done = worked("jobs", "erase", "cl-1")
    assert done.code == 2
    assert "--yes" in done.err
    done = worked("jobs", "erase", "cl-1", "--yes")
    assert (done.code, done.out) == (0, "the contents of 1 job erased\n")
    job = worked("jobs", "show", 1, "--payload", "--result", "--json").json
    assert (job["payload"], job["result"], job["subject"][:7]) == (None, None, "erased:")
    assert worked("jobs", "erase", "cl-1", "--yes").code == 1


def test_a_subject_with_an_open_job_is_not_erased(worked):
    done = worked("jobs", "erase", "cl-4", "--yes")
    assert done.code == 1
    assert "not over yet: 4;" in done.err


@pytest.mark.parametrize(
    "arguments", [["show"], ["show", "1", "--key", "x"], ["cancel", "0"], ["cancel"], ["list", "--limit", "0"]]
)
def test_what_does_not_go_together_is_refused(worked, arguments):
    done = worked("jobs", *arguments)
    assert done.code == 2
    assert done.err
    assert "Traceback" not in done.err
