"""`reprieve analyze`, for people and for scripts."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from reprieve.testing import Stall, replies


def fine(kind="article"):
    return replies.openai.completion(json.dumps({"kind": kind}))


def test_urls_are_grouped_by_shape_and_each_shape_is_asked_about_once(analyze, flaky_http):
    flaky_http.always(fine())
    done = analyze("--json")
    assert done.json["summary"] == {
        "signatures": 3, "analyzed": 3, "cached": 0, "skipped": 0, "needs_review": 0, "active": 0, "left_out": 1,
        "usage": {"input_tokens": 3, "output_tokens": 3, "cost": None},
    }  # fmt: skip
    assert {each["signature"] for each in done.json["results"]} == {
        "shop.example/items/N", "shop.example/items/N?ref", "blog.example/DATE/hello",
    }  # fmt: skip
    assert "1 line left out, no URL with a host: 'not a url'" in done.err
    assert len(flaky_http.requests) == 3
    assert b"https://shop.example/items/3" in flaky_http.requests[0].body
    again = analyze()
    assert again.code == 0
    assert "3 signatures: 3 analyzed, 0 skipped, 0 for review, 0 left; 3 cached" in again.out
    assert len(flaky_http.requests) == 3


def test_a_batch_says_what_it_took(analyze, flaky_http):
    flaky_http.always(fine())
    assert "; 3 tokens in, 3 out\n" in analyze().out
    assert "tokens" not in analyze().out, "all of it was known"


def test_the_bar_says_how_many_are_analyzed_and_how_many_were_put_off(analyze, flaky_http, monkeypatch):
    flaky_http.next(503, 503, 503)
    flaky_http.always(fine())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    said = analyze().err
    assert "3/3" in said
    assert "2 analyzed, 0 skipped, 0 for review, 1 put off; 0 cached" in said


def test_what_is_left_to_do_is_told_by_the_exit_code_and_the_next_step(analyze, flaky_http):
    flaky_http.next(fine("nonsense"), fine("nonsense"), replies.openai.invalid_request())
    flaky_http.always(fine())
    done = analyze()
    assert done.code == 1
    assert "1 analyzed, 1 skipped, 1 for review" in done.out
    assert "next: reprieve reviews list" in done.out
    assert "reprieve reviews reset SIGNATURE --reason '...' has one asked again" in done.out


@pytest.mark.spec("LLM-7.1")
def test_whoever_is_to_hear_of_alerts_hears_of_a_refused_key_before_the_command_ends(analyze, flaky_http, monkeypatch):
    monkeypatch.setenv("REPRIEVE_ALERTS", flaky_http.url("/hook"))
    flaky_http.always(replies.openai.invalid_api_key(), path="/v1/chat/completions")
    assert analyze().code == 3
    (told,) = [each.json() for each in flaky_http.requests if each.path == "/hook"]
    assert (told["data"]["rule"], told["data"]["kind"]) == ("authentication", "raise")


def test_a_refused_key_stops_the_batch_with_an_exit_code_of_its_own_and_the_key_is_not_shown(analyze, flaky_http):
    flaky_http.always(replies.openai.invalid_api_key())
    done = analyze()
    assert done.code == 3
    assert "1 skipped, 0 for review, 2 left" in done.out
    assert "the batch was stopped: invalid_api_key" in done.err
    assert "reprieve reviews reset --error invalid_api_key --reason" in done.out.splitlines()[-1]
    assert "key-of-a-test" not in done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere.txt",), "cannot be read"),
        (("empty.txt",), "there is no URL in it"),
        (("urls.txt", "--schema", "urls.txt"), "is no JSON"),
        (("urls.txt", "--schema", "nofile.json"), "'nofile.json' cannot be read"),
        (("urls.txt", "--model", "what:is"), "no model is named"),
        (("urls.txt", "--profile", "nobodys"), "'nobodys'"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(command, tmp_path, arguments, problem):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "urls.txt").write_text("https://a.example/1\n")
    done = command("analyze", *arguments)
    assert done.code == 2
    assert problem in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "reprieve.db").exists()


def test_a_model_whose_package_is_not_there_is_told_in_a_sentence_before_a_database_is_made(command, tmp_path):
    (tmp_path / "urls.txt").write_text("https://a.example/1\n")
    program = (
        "import sys; sys.modules['openai'] = None; sys.argv = ['reprieve', 'analyze', 'urls.txt', '-m', 'openai:x']; "
        "from reprieve.faces.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "reprieve: OpenAI needs openai: pip install 'reprieve[openai]'\n")
    assert not (tmp_path / "reprieve.db").exists()


def test_a_byte_order_mark_is_no_part_of_the_first_url(analyze, command, flaky_http, tmp_path):
    flaky_http.always(fine())
    (tmp_path / "urls.txt").write_text("https://a.example/1\n", encoding="utf-8-sig")
    assert analyze("--json").json["summary"]["signatures"] == 1
    told = command("analyze", "-", "--model", "what:is", text="\ufeffhttps://a.example/1\n")
    assert "left out" not in told.err


def test_of_the_lines_that_are_left_out_the_first_few_are_named_in_short(analyze, flaky_http, tmp_path):
    flaky_http.always(fine())
    lines = ["https://a.example/1", "x" * 200, "write to ada@example.org", "third", "fourth"]
    (tmp_path / "urls.txt").write_text("\n".join(lines))
    done = analyze("--json")
    assert done.json["summary"]["left_out"] == 4
    assert f"4 lines left out, no URL with a host: '{'x' * 60}...', " in done.err
    assert "'third', ...\n" in done.err
    assert "fourth" not in done.err
    assert "ada@example.org" not in done.err


def test_questions_of_different_names_do_not_overwrite_each_other(analyze, command, flaky_http):
    flaky_http.always(fine())
    assert analyze().code == 0
    named = analyze("--name", "language", "--json")
    assert {each["signature"] for each in named.json["results"]} == {
        "language:shop.example/items/N", "language:shop.example/items/N?ref", "language:blog.example/DATE/hello",
    }  # fmt: skip
    assert len(flaky_http.requests) == 6
    assert analyze("--json").json["summary"]["cached"] == 3
    flaky_http.always(replies.openai.invalid_api_key())
    analyze("--name", "owner")
    assert [each["source"] for each in command("alerts", "list", "--json").json] == ["owner"]


def test_a_profile_of_ones_own_says_how_often_it_is_tried(analyze, flaky_http, tmp_path):
    (tmp_path / "mine.toml").write_text('[mine]\nextends = "analysis"\nmax_attempts = 1\n')
    flaky_http.always(503)
    assert analyze("--profile", "mine", "--profiles", "mine.toml").code == 1
    assert len(flaky_http.requests) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_told_to_stop_gives_back_what_was_being_asked_and_says_how_far_it_came(
    analyze, command, flaky_http, number
):
    flaky_http.next(fine())
    flaky_http.always(Stall())
    analyze_apart = [sys.executable, "-m", "reprieve", "analyze", "urls.txt", "--schema", "schema.json", "-c", "1"]
    with subprocess.Popen(
        [*analyze_apart, "--model", f"openai+{flaky_http.url('/v1')}#m"], stderr=subprocess.PIPE, text=True
    ) as process:
        flaky_http.wait_for_requests(2, within=60)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name}; 1 of 3 done: 1 analyzed, 0 skipped, 0 for review, 0 put off; 0 cached." in said
    assert "Traceback" not in said
    with closing(sqlite3.connect("reprieve.db")) as database:
        assert database.execute("SELECT count(*), count(leased_by) FROM analysis_cache").fetchone() == (2, 0)
    flaky_http.always(fine())
    assert analyze("--json").json["summary"]["cached"] == 1
