"""`reprieve dead`: looking, and what comes next."""

import json
import sqlite3
import time

import pytest

WAYS = {
    "triage": ["--cause", "data"],
    "remediate": ["--evidence", "INC-1"],
    "approve": ["--because", "written by key"],
    "escalate": ["--reason", "odd"],
    "discard": ["--reason", "not wanted"],
    "note": ["--note", "asked"],
}


@pytest.fixture
def dead(worked):
    """Runs `reprieve dead ...` where dead letter 1 is of job 2."""
    return lambda *arguments, **options: worked("dead", *arguments, **options)


def test_dead_letters_are_listed_with_the_next_step_and_its_command_under_each(dead):
    done = dead("list")
    assert done.code == 0
    heading, row, *below = done.out.splitlines()
    assert heading.split() == ["id", "state", "job", "pipeline.stage", "class", "died", "tries"]
    assert row.split()[:5] == ["1", "open", "2", "review.llm", "DECLARED_PERMANENT"]
    assert "ago" in row
    assert below == ["  thirteen", "  next: reprieve dead triage 1 --cause data"]


def test_machines_get_dead_letters_as_json_with_the_next_step_and_where_the_next_page_begins(dead):
    page = dead("list", "--json", "--limit", 1).json
    (letter,) = page["dead_letters"]
    assert (letter["letter_id"], letter["job_id"], letter["state"], letter["stage"]) == (1, 2, "open", "llm")
    assert letter["next"]["command"] == "reprieve dead triage 1 --cause data"
    assert dead("list", "--json", "--after", page["after"]).json == {"dead_letters": [], "after": None}
    assert "--after" in dead("list", "--limit", 1).out


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--state", "open"], True),
        (["--state", "triaged", "-s", "escalated"], False),
        (["--class", "DECLARED_PERMANENT", "--category", "policy"], True),
        (["--class", "AUTH_DENIED"], False),
        (["-p", "review", "--stage", "llm"], True),
        (["--stage", "fetch"], False),
        (["--text", "THIRTEEN"], True),
        (["--text", "fourteen"], False),
        (["--since", "1h"], True),
        (["--older-than", "1h"], False),
        (["--oldest"], True),
    ],
)
def test_dead_letters_can_be_filtered(dead, options, found):
    assert len(dead("list", "--json", *options).json["dead_letters"]) == found


def test_closed_ones_are_listed_only_when_asked_for(dead):
    dead("discard", 1, "--reason", "no")
    assert dead("list").out == "no dead letters\n"
    assert "discarded" in dead("list", "--all").out
    assert "discarded" in dead("list", "--state", "discarded").out


def test_groups_are_listed_with_their_fingerprint_and_the_command_for_all_of_them(dead):
    (group,) = dead("groups", "--json").json["groups"]
    assert (group["count"], group["stages"], group["sample_id"], sum(group["trend"])) == (1, ["llm"], 1, 1)
    shown = dead("groups").out
    assert f"next: reprieve dead triage --group {group['fingerprint']} --cause data" in shown
    assert "review.llm" in shown
    assert dead("groups", "--stage", "fetch").out == "no dead letters\n"
    dead("discard", 1, "--reason", "no")
    assert dead("groups").out == "no dead letters\n"
    assert "reopen --group" in dead("groups", "--all").out


def test_a_dead_letter_is_shown_with_failure_context_history_and_next_step(dead):
    dead("triage", 1, "--cause", "data", "--note", "seen in the log", "--actor", "ada")
    shown = dead("show", "job:2").out
    for expected in (
        "dead letter 1 of job 2: triaged",
        "DECLARED_PERMANENT (policy)",
        "thirteen",
        "1 of 5",
        "non retryable",
        "stages that are done  fetch",
        "payload digest",
        "lines; --stack shows them",
        "open -> triaged",
        "seen in the log",
        "next: record what was done about it",
        "reprieve dead remediate 1 --evidence '...'",
        "correct the source payload or the mapping",
        "reprieve dead replay 1 --cause data --evidence '...' --safe",
    ):
        assert expected in shown
    assert "Traceback" not in shown
    assert "Traceback" in dead("show", 1, "--stack").out
    whole = dead("show", 1, "--json").json
    assert (whole["cause"], whole["sanitized_context"]["stage"], whole["finished_stages"]) == ("data", "llm", ["fetch"])
    (entry,) = whole["history"]
    assert (entry["actor"], entry["event"], entry["detail"]["cause"]) == ("ada", "triage", "data")


def test_the_page_of_a_job_says_what_comes_next_for_its_dead_letter(worked):
    shown = worked("jobs", "show", 2).out
    assert "next: name the cause: reprieve dead triage 1 --cause data" in shown
    assert "reprieve dead show 1" in shown
    letter = worked("jobs", "show", 2, "--json").json["dead_letter"]
    assert letter["next"]["command"] == "reprieve dead triage 1 --cause data"


def test_each_step_says_what_it_did_and_what_comes_next(dead):
    said = [dead(name, 1, *WAYS[name]) for name in ("triage", "remediate", "approve")]
    assert [done.code for done in said] == [0, 0, 0]
    assert said[0].out.splitlines()[0] == "dead letter 1: triaged"
    assert "reprieve dead remediate 1 --evidence '...'" in said[0].out
    assert "reprieve dead approve 1 --because '...'" in said[1].out
    assert said[2].out.splitlines() == ["dead letter 1: approved", "  next: replay it", "  reprieve dead replay 1"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["remediate", 1, "--evidence", "INC-1"], "a dead letter that is open cannot remediate"),
        (["approve", 1, "--because", "safe"], "a dead letter that is open cannot approve"),
        (["replay", 1], "the cause is not named (reprieve dead triage 1 --cause data)"),
        (["resolve", 1, "--note", "done"], "its job has not succeeded, it is dead_letter"),
        (["verify", 1], "its job has not succeeded, it is dead_letter"),
        (["reopen", 1, "--reason", "why not"], "a dead letter that is open cannot reopen"),
        (["triage", 77, "--cause", "data"], "no dead letter 77"),
        (["show", 77], "77"),
        (["triage", "job:1", "--cause", "data"], "job:1"),
        (["show", "job:1"], "job:1"),
        (["list", "--group", "v1:zz"], "v1:zz"),
        (["list", "-p", "revew"], "did you mean 'review'"),
    ],
)
def test_what_is_refused_or_not_there_ends_with_one_and_says_why(dead, arguments, why):
    done = dead(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("reprieve: ")
    assert why in done.err
    events = [entry["event"] for entry in dead("show", 1, "--json").json["history"]]
    assert events == (["verify"] if arguments[0] == "verify" else []), "what a verification found wanting is on record"


@pytest.mark.parametrize(
    "arguments",
    [
        ["triage", "--cause", "data"],
        ["triage", 1],
        ["triage", 1, "--cause", "weather"],
        ["triage", 1, "--cause", "data", "--group", "v1:1"],
        ["triage", "seven", "--cause", "data"],
        ["remediate", 1, "--evidence", " "],
        ["replay"],
        ["replay", 1, "--from-start", "--from-stage", "llm"],
        ["replay", 1, "--payload", "-", "--set", "n=1"],
        ["list", "--since", "yesterday"],
        ["list", "--after", "seven"],
        ["list", "--limit", 0],
        ["stats", "--window", "1s"],
        ["prune", "--older-than", "30"],
        ["show"],
    ],
)
def test_what_does_not_go_together_ends_with_two(dead, arguments):
    done = dead(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err
    assert "Traceback" not in done.err


def test_of_several_some_may_be_refused_and_machines_are_told_which(dead):
    done = dead("triage", 1, 77, "--cause", "data", "--json")
    assert done.code == 1
    told = json.loads(done.out)
    assert told["applied"] == [1]
    assert [(each["letter_id"], each["state"]) for each in told["refused"]] == [(77, None)]


def test_a_whole_group_is_changed_only_after_somebody_said_yes(dead):
    (group,) = dead("groups", "--json").json["groups"]
    beginning = group["fingerprint"][:9]
    done = dead("triage", "--group", beginning, "--cause", "data")
    assert done.code == 2
    assert "1 dead letter would be triaged: say --yes" in done.err
    assert dead("show", 1, "--json").json["state"] == "open"
    done = dead("triage", "--group", beginning, "--cause", "data", "--yes")
    assert done.code == 0
    assert done.out.splitlines()[0] == "1 dead letter triaged"
    assert f"reprieve dead remediate --group {beginning} --evidence" in done.out
    again = dead("triage", "--group", beginning, "--cause", "data", "--yes")
    assert (again.code, again.out) == (0, "no dead letter is meant by that: nothing to do\n")
    assert dead("triage", "-g", beginning, "--cause", "data", "--json").json == {"applied": [], "refused": []}
    by_filter = dead("remediate", "--class", "DECLARED_PERMANENT", "--evidence", "INC-1", "--yes", "--json").json
    assert by_filter == {"applied": [1], "refused": []}


@pytest.mark.parametrize("name", WAYS)
def test_every_change_is_kept_with_its_actor(dead, monkeypatch, name):
    before = {"remediate": ["triage"], "approve": ["triage", "remediate"]}.get(name, [])
    for each in before:
        dead(each, 1, *WAYS[each])
    monkeypatch.setenv("REPRIEVE_ACTOR", "grace")
    assert dead(name, 1, *WAYS[name]).code == 0
    entry = dead("show", 1, "--json").json["history"][-1]
    assert (entry["event"], entry["actor"]) == (name, "grace")


def test_a_discarded_one_is_reopened(dead):
    dead("discard", 1, "--reason", "no")
    done = dead("reopen", 1, "--reason", "yes")
    assert (done.code, done.out.splitlines()[0]) == (0, "dead letter 1: reopened")


def test_the_figures_are_shown_to_people_and_machines(dead):
    shown = dead("stats", "--window", "1h").out
    for expected in ("in the queue", "open 1", "1 in the last hour", "terminal errors", "of 2 in the last 60 min"):
        assert expected in shown
    figures = dead("stats", "--json", "-p", "review").json
    assert (figures["size"], figures["inflow_last_hour"], figures["errors"]) == (1, 1, 2)


def test_an_export_has_a_line_for_each(dead, tmp_path):
    (line,) = dead("export").out.splitlines()
    assert json.loads(line)["letter_id"] == 1
    (line,) = dead("export", "--whole", "--state", "open").out.splitlines()
    assert "Traceback" in json.loads(line)["last_stack"]
    done = dead("export", "-o", "out.jsonl")
    assert (done.code, done.out) == (0, "1 dead letter written to out.jsonl\n")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 1
    assert not (tmp_path / "out.jsonl.part").exists()
    done = dead("export", "-o", "no/such/folder/out.jsonl")
    assert done.code == 2
    assert "cannot write" in done.err


def test_pruning_counts_first_and_keeps_a_summary(dead):
    dead("discard", 1, "--reason", "not wanted")
    assert dead("prune", "--older-than", "30d").out == "0 dead letters reduced to a summary\n"
    assert dead("prune", "--older-than", "0s", "--dry-run").out == "1 dead letter would be reduced to a summary\n"
    assert dead("prune", "--older-than", "0s").out == "1 dead letter reduced to a summary\n"
    shown = dead("show", 1).out
    assert "what is left of the history" in shown
    assert "not wanted" in shown


def test_what_users_stored_cannot_talk_to_the_terminal(dead):
    with sqlite3.connect("reprieve.db") as connection:
        connection.execute("UPDATE dead_letters SET signature = ?", ("a\x1b[2J[red]b\x07",))
        connection.execute(
            "UPDATE dead_letter_texts SET message = ?, last_stack = ?, sanitized_context = ?",
            ("c\x1b[31m", "d\x1b]0;x\x07\ne", json.dumps({"f": "g\x1b[2J"})),
        )
        connection.execute("UPDATE dead_letter_groups SET signature = ?, stage = ?", ("h\x1b[2J", "i\x9b2J"))
        entry = (1, time.time(), "j\x1b[2J", "note", "open", "open", "k\x1b[2J", json.dumps({"l": "m\x07"}))
        connection.execute(
            "INSERT INTO dead_letter_history (letter_id, at, actor, event, before, after, note, detail) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            entry,
        )
    connection.close()
    for arguments in (["list"], ["groups"], ["show", 1, "--stack"], ["stats"]):
        done = dead(*arguments)
        assert done.code == 0
        assert not {"\x1b", "\x07", "\x9b"} & set(done.out)
    assert "[red]b" in dead("list").out
