"""`reprieve dead replay`, and what proves that it worked."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import threading
import time

import psycopg
import pytest

import reprieve
from reprieve.adapters.sql.sqlite import SqliteStore
from reprieve.errors import StoreUnavailableError, UsageError
from reprieve.faces.cli.editing import edited
from reprieve.ports.intents import Replay

GATES = ["--cause", "data", "--evidence", "INC-1: corrected", "--safe"]


@pytest.fixture
def dead(worked):
    """Runs `reprieve dead ...` where dead letter 1 is of job 2, and nothing is left to do."""
    worked("jobs", "cancel", 4)
    return lambda *arguments, **options: worked("dead", *arguments, **options)


@pytest.fixture
def worker(worked, tmp_path):
    """A worker elsewhere, which works until the test is over."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reprieve", "work", "--log-level", "error", "--poll", "0.1s"], cwd=tmp_path
    )
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def state(dead):
    return dead("show", 1, "--json").json["state"]


def test_in_one_go_a_dead_letter_is_replayed_verified_and_closed(worked, dead):
    done = dead("replay", 1, *GATES, "--set", "n=5", "--actor", "ada")
    assert done.code == 0
    assert done.out.splitlines()[0] == "dead letter 1: job 2 is in the queue again"
    assert "reprieve jobs show 2" in done.out
    assert worked("work", "--until-idle", "--log-level", "error").code == 0
    assert worked("jobs", "show", 2, "--result", "--payload", "--json").json["result"] == "reviewed 5"
    done = dead("verify", 1)
    assert (done.code, done.out.splitlines()[0]) == (0, "dead letter 1: verified")
    assert "reprieve dead resolve 1 --note '...'" in done.out
    done = dead("resolve", 1, "--note", "INC-1 is closed")
    assert (done.code, done.out.splitlines()[0]) == (0, "dead letter 1: resolved")
    history = dead("show", 1, "--json").json["history"]
    assert [entry["event"] for entry in history] == [
        "triage", "remediate", "approve", "replay", "recover", "verify", "verify", "resolve",
    ]  # fmt: skip
    assert history[3]["detail"]["revision"] == 1
    shown = dead("show", 1).out
    assert "INC-1 is closed" in shown
    assert "revision: 1" in shown


def test_waiting_follows_the_job_to_its_end_with_a_worker_elsewhere(worker, dead):
    done = dead("replay", 1, *GATES, "--set", "n=5", "--wait", "--timeout", "60s")
    assert done.code == 0
    assert done.out.splitlines()[0] == "dead letter 1: job 2 succeeded"
    assert "reprieve dead verify 1 --note" in done.out


def test_waiting_for_one_that_fails_again_ends_with_one_and_says_with_what(worker, dead):
    done = dead("replay", 1, *GATES, "--wait", "--timeout", "60s")
    assert done.code == 1
    assert done.out.splitlines()[0] == "dead letter 1: job 2 is dead_letter at llm: DECLARED_PERMANENT: thirteen"
    assert "have engineering find the cause" in done.out
    told = dead("replay", 1, *GATES, "--wait", "--timeout", "60s", "--json")
    assert told.code == 1
    assert json.loads(told.out)["jobs"] == [
        {"letter_id": 1, "job_id": 2, "state": "escalated", "status": "dead_letter"}
    ]


def test_waiting_has_an_end(dead):
    done = dead("replay", 1, *GATES, "--wait", "--timeout", "0s")
    assert done.code == 1
    assert "not over after 0 s: job 2" in done.err
    assert state(dead) == "replaying"


def test_a_job_that_needs_a_person_is_not_waited_for(worker, dead):
    done = dead("replay", 1, *GATES, "--set", "n=14", "--wait", "--timeout", "60s")
    assert done.code == 1
    assert done.out.splitlines()[0] == "dead letter 1: job 2 is needs_review"


@pytest.mark.parametrize("source", ["file", "-"])
def test_a_whole_payload_is_read_from_a_file_or_from_standard_input(worked, dead, tmp_path, source):
    (tmp_path / "file").write_text('{"n": 6}')
    done = dead("replay", 1, *GATES, "--because", "written by key", "--payload", source, text='{"n": 6}')
    assert done.code == 0
    worked("work", "--until-idle", "--log-level", "error")
    assert worked("jobs", "show", 2, "--result", "--json").json["result"] == "reviewed 6"
    assert dead("show", 1, "--json").json["history"][2]["note"] == "written by key"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--payload", "missing.json"], "cannot read missing.json"),
        (["--payload", "-"], "the payload is not JSON"),
        (["--set", "n"], "sets nothing"),
        (["--set", "n=five"], "the value of n is not JSON"),
        (["--set", "a.b=1"], "the payload has nothing at 'a'"),
        (["--set", "n=1", "--app", "nowhere"], "nowhere"),
    ],
)
def test_a_payload_that_cannot_be_is_refused_and_nothing_is_changed(dead, options, why):
    done = dead("replay", 1, *GATES, *options, text="{")
    assert (done.code, done.out) == (2, "")
    assert why in done.err
    assert (state(dead), dead("show", 1, "--json").json["history"]) == ("open", [])


def test_a_payload_that_does_not_fit_its_type_is_refused(dead):
    done = dead("replay", 1, *GATES, "--payload", "-", text="[1]")
    assert done.code == 2
    assert "the payload of review" in done.err
    assert state(dead) == "open"


def test_a_payload_is_for_one_only(dead):
    assert dead("replay", 1, 77, *GATES, "--set", "n=1").code == 2


def test_an_override_is_for_those_who_may(dead, monkeypatch):
    monkeypatch.setenv("REPRIEVE_MAY_OVERRIDE", "ada")
    done = dead("replay", 1, "--override", "a drill", "--actor", "eve")
    assert (done.code, done.out) == (1, "")
    assert "eve may not override" in done.err
    assert state(dead) == "open"
    assert dead("replay", 1, "--override", "a drill", "--actor", "ada").code == 0
    assert [entry["event"] for entry in dead("show", 1, "--json").json["history"]] == ["override"]


def test_a_replay_can_start_elsewhere_on_request(worked, dead):
    dead("replay", 1, *GATES, "--from-start")
    assert worked("jobs", "show", 2, "--json").json["stage"] == "fetch"


def test_a_refusal_says_what_is_missing_and_machines_are_told_too(dead):
    done = dead("replay", 1, "--evidence", "INC-1", "--json")
    assert done.code == 1
    (refused,) = json.loads(done.out)["refused"]
    assert "the cause is not named (reprieve dead triage 1 --cause data)" in refused["why"]
    assert "reprieve dead approve 1 --because '...'" in refused["why"]
    assert "remediate" not in refused["why"]


class Terminal(io.TextIOWrapper):
    """Somebody who can be asked."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("answer", "after"), [("y", "triaged"), ("n", "open")])
def test_somebody_who_can_be_asked_is_asked(dead, monkeypatch, answer, after):
    with monkeypatch.context() as patched:
        patched.setattr(io, "TextIOWrapper", Terminal)
        done = dead("triage", "-p", "review", "--cause", "data", text=f"{answer}\n")
    assert "1 dead letter will be triaged. Go on?" in done.err
    assert done.code == (answer == "n")
    assert state(dead) == after


@pytest.mark.parametrize(
    ("payload", "edit", "made"),
    [
        ({"a": {"b": [1, {"c": 2}]}}, "a.b.1.c=3", {"a": {"b": [1, {"c": 3}]}}),
        ({"a": 1}, 'b="=x"', {"a": 1, "b": "=x"}),
        ([1, 2], "0=null", [None, 2]),
    ],
)
def test_single_fields_of_a_payload_are_set_and_the_rest_stays(payload, edit, made):
    before = json.dumps(payload)
    assert edited(payload, [edit]) == made
    assert json.dumps(payload) == before


@pytest.mark.parametrize("edit", ["a", "=1", "b.c=1", "a.b.2=1", "a.b.x=1", "a.b.-1=1", "a.b.0.c=1", "a.b=x", "a.b="])
def test_what_sets_nothing_is_refused(edit):
    with pytest.raises(UsageError):
        edited({"a": {"b": [1, 2]}}, [edit])


def cut_off_then_work(url, review):
    """Once the replay is in the queue, everybody loses the database for a moment; then somebody works."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, autocommit=True) as looking:
        while looking.execute("SELECT state FROM dead_letters").fetchone() != ("replaying",):
            time.sleep(0.01)
    with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        time.sleep(0.5)
        connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")

    async def work():
        async with reprieve.connect(url) as app:
            await app.work(review, until_idle=True)

    asyncio.run(work())


def test_a_database_that_goes_away_while_a_replay_is_waited_for_is_waited_for_too(command, postgres_url, monkeypatch):
    from reviews import review  # noqa: PLC0415 - there only now

    monkeypatch.setenv("REPRIEVE_URL", postgres_url)
    monkeypatch.setattr("reprieve.faces.cli.common._WAITS", (0.2, 0.4, 0.8))
    command("submit", "review", '{"n": 13}')
    command("work", "--until-idle", "--log-level", "error")
    trouble = threading.Thread(target=cut_off_then_work, args=(postgres_url, review))
    trouble.start()
    done = command("dead", "replay", 1, *GATES, "--set", "n=5", "--wait", "--timeout", "30s")
    trouble.join()
    assert "trying again" in done.err
    assert (done.code, done.out.splitlines()[0]) == (0, "dead letter 1: job 1 succeeded"), done.err
    history = command("dead", "show", 1, "--json").json["history"]
    assert [entry["event"] for entry in history].count("replay") == 1


def test_a_replay_of_which_the_answer_was_lost_is_not_asked_for_again(dead, monkeypatch):
    """A worker may be quick, and the job dead again: another try would be another replay."""
    apply = SqliteStore.apply

    async def lost(store, intents, *, again=False):
        answers = await apply(store, intents, again=again)
        if any(isinstance(each, Replay) for each in intents):
            raise StoreUnavailableError("the connection was lost", outcome_unknown=True)
        return answers

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "apply", lost)
        patch.setattr("reprieve.app.operations.dead_letters.PATIENCE", 0.1)
        done = dead("replay", 1, "--override", "a drill")
    assert done.code == 2
    assert "trying again" not in done.err
    assert "it may have been done, all or in part: look before you ask for it again" in done.err
    shown = dead("show", 1, "--json").json
    assert (shown["state"], shown["replays"]) == ("replaying", 1)
