"""`reprieve submit`."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest


@contextmanager
def working():
    """A worker in a process of its own."""
    worker = subprocess.Popen([sys.executable, "-m", "reprieve", "work"], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        worker.terminate()
        assert worker.wait(timeout=60) == 0


def test_a_job_is_submitted_once(command):
    submit = ("submit", "review", '{"n": 1}', "--key", "cl-1@1", "--subject", "cl-1", "--version", 1, "--priority", 7)
    assert command(*submit).out == "job 1 submitted\n"
    assert command(*submit).out == "job 1 was there before: nothing was submitted\n"
    other = command("submit", "review", '{"n": 2}', "--key", "cl-1@1")
    assert (other.code, other.out) == (0, "job 1 was there before, with another payload: nothing was submitted\n")
    job = command("jobs", "show", 1, "--payload", "--json").json
    assert (job["idempotency_key"], job["subject"], job["version"], job["priority"]) == ("cl-1@1", "cl-1", 1, 7)
    assert job["payload"] == {"n": 1}


def test_a_payload_can_be_read_from_standard_input(command):
    assert command("submit", "review", "-", text='{"n": 5}').code == 0
    assert command("jobs", "show", 1, "--payload", "--json").json["payload"] == {"n": 5}


def test_a_job_can_be_put_off(command):
    command("submit", "review", '{"n": 5}', "--delay", "2h")
    job = command("jobs", "show", 1, "--json").json
    assert job["state"] == "scheduled"
    assert job["run_at"] - job["created_at"] == pytest.approx(7200)


def test_machines_are_told_what_there_is_now(command):
    told = command("submit", "review", '{"n": 1}', "--key", "k", "--json").json
    assert told == {"job_id": 1, "idempotency_key": "k", "duplicate": False, "mismatch": False, "superseded": []}
    assert command("submit", "review", '{"n": 1}', "--key", "k", "--json").json["duplicate"] is True


def test_the_end_of_a_job_can_be_waited_for(command):
    command("db", "upgrade")
    with working():
        done = command("submit", "review", '{"n": 3}', "--wait", "--timeout", "60s")
        assert (done.code, done.out) == (0, "job 1 submitted\njob 1 succeeded\n")
        done = command("submit", "review", '{"n": 4}', "--result")
        assert (done.code, done.out, done.err) == (0, '"reviewed 4"\n', "job 2 submitted\n")
        told = command("submit", "review", '{"n": 5}', "--result", "--json").json
        assert (told["status"], told["result"]) == ("succeeded", "reviewed 5")
        done = command("submit", "review", '{"n": 13}', "--wait")
        assert (done.code, done.out) == (1, "job 4 submitted\n")
        assert "ended as dead_letter at llm" in done.err
        assert "thirteen" in done.err


def test_patience_ends(command):
    done = command("submit", "review", '{"n": 3}', "--wait", "--timeout", "0.05")
    assert done.code == 1
    assert "not over after 0.05 s" in done.err


def test_many_are_submitted_from_a_file_of_payloads(command, tmp_path):
    (tmp_path / "many.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n{"n": 3}')
    assert command("submit", "review", "--lines", "many.jsonl").out == "3 jobs submitted\n"
    done = command("submit", "review", "--lines", "-", "--json", text='{"n": 4}\n')
    assert done.json == {"submitted": 1, "duplicates": 0, "mismatches": 0}


def test_many_with_keys_can_be_submitted_again(command, tmp_path):
    lines = [{"payload": {"n": n}, "idempotency_key": f"k{n}", "priority": n, "delay": 60} for n in range(3)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert command("submit", "review", "--items", "items.jsonl").out == "3 jobs submitted\n"
    done = command("submit", "review", "--items", "items.jsonl")
    assert done.out == "0 jobs submitted; 3 lines had been submitted before\n"
    assert [job["priority"] for job in command("jobs", "list", "--json").json["jobs"]] == [2, 1, 0]
    lines[0]["payload"]["n"] = 9
    (tmp_path / "items.jsonl").write_text(json.dumps(lines[0]))
    done = command("submit", "review", "--items", "items.jsonl")
    assert done.out == "0 jobs submitted; 1 line had been submitted before, 1 of them with another payload\n"


@pytest.mark.parametrize(
    ("option", "line", "says"),
    [
        ("--lines", "{", "line 3 is not JSON: "),
        ("--lines", "[" * 100_000, "line 3 is not JSON: it is nested too deep"),
        ("--lines", "[]", "line 3: the payload of review does not fit dict"),
        ("--items", "[]", "line 3 is no item"),
        ("--items", '{"payload": {}, "keey": 1}', "line 3 is no item"),
        ("--items", '{"payload": {}, "subject": "x"}', "line 3: subject and version go together"),
        ("--items", '{"payload": {}, "idempotency_key": 5}', "line 3: idempotency_key must be a text"),
    ],
)
def test_a_line_that_is_wrong_is_told_by_its_number_and_nothing_is_submitted(command, tmp_path, option, line, says):
    good = '{"n": 1}' if option == "--lines" else '{"payload": {"n": 1}}'
    (tmp_path / "bad.jsonl").write_text(f"{good}\n\n{line}\n")
    command("db", "upgrade")
    done = command("submit", "review", option, "bad.jsonl")
    assert done.code == 2
    assert says in done.err
    assert "nothing was submitted" in done.err
    assert command("jobs", "list").out == "no jobs\n"


def test_lines_before_a_wrong_one_are_told_where_they_were_submitted(command, tmp_path, monkeypatch):
    monkeypatch.setattr("reprieve.faces.cli.bulk._AT_ONCE", 2)
    (tmp_path / "bad.jsonl").write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n5\n')
    done = command("submit", "review", "--lines", "bad.jsonl")
    assert done.code == 2
    assert "line 4: " in done.err
    assert "; 2 lines before it were submitted" in done.err
    assert len(command("jobs", "list", "--json").json["jobs"]) == 2


def test_a_line_that_the_database_refuses_does_not_hide_the_others(command, tmp_path):
    item = {"payload": {"n": 1}, "subject": "cl-1"}
    lines = [item | {"version": 2, "idempotency_key": "a"}, item | {"version": 1, "idempotency_key": "b"}]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = command("submit", "review", "--items", "items.jsonl")
    assert done.code == 2
    assert "version 1 is not above version 2" in done.err
    assert "other lines were submitted" in done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["revew", "{}"], "did you mean 'review'"),
        (["review"], "give the payload as JSON"),
        (["review", "{n: 1}"], "the payload is not JSON"),
        (["review", "[1]"], "does not fit dict"),
        (["review", "{}", "--subject", "x"], "subject and version go together"),
        (["review", "{}", "--delay", "soon"], "'soon' is no length of time"),
        (["review", "{}", "--lines", "x"], "stand alone"),
        (["review", "--lines", "x", "--key", "k"], "stand alone"),
        (["review", "--lines", "x", "--items", "y"], "stand alone"),
        (["review", "--lines", "none.jsonl"], "cannot read none.jsonl"),
        (["review", "--lines", "."], "cannot read ."),
        (["review", "{}", "--app", ""], "names no module"),
        (["review", "{}", "--app", "reviewss"], "no module 'reviewss'"),
        (["review", "{}", "--app", "reviews:revie"], "did you mean 'review'"),
        (["review", "{}", "--app", "reviews:reprieve.retry"], "holds no pipeline"),
    ],
)
def test_what_a_person_got_wrong_is_told_in_a_sentence(command, arguments, says):
    done = command("submit", *arguments)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_text_that_is_none_is_told(command, tmp_path):
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    done = command("submit", "review", "--lines", "bytes.jsonl")
    assert done.code == 2
    assert "not UTF-8 text" in done.err


def test_without_an_app_it_is_asked_for(command, monkeypatch):
    monkeypatch.delenv("REPRIEVE_APP")
    done = command("submit", "orders", "{}")
    assert done.code == 2
    assert "--app module:object" in done.err
