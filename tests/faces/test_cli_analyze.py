"""`reprieve analyze`, for people and for scripts."""

import json

import pytest

from reprieve.testing import replies


def fine(kind="article"):
    return replies.openai.completion(json.dumps({"kind": kind}))


def test_urls_are_grouped_by_shape_and_each_shape_is_asked_about_once(analyze, flaky_http):
    flaky_http.always(fine())
    done = analyze("--json")
    assert done.json["summary"] == {
        "signatures": 3, "analyzed": 3, "cached": 0, "skipped": 0, "needs_review": 0, "active": 0,
        "usage": {"input_tokens": 3, "output_tokens": 3, "cost": None},
    }  # fmt: skip
    assert {each["signature"] for each in done.json["results"]} == {
        "shop.example/items/N", "shop.example/items/N?ref", "blog.example/DATE/hello",
    }  # fmt: skip
    assert "1 line left out" in done.err
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


def test_what_is_left_to_do_is_told_by_the_exit_code_and_the_next_step(analyze, flaky_http):
    flaky_http.next(fine("nonsense"), fine("nonsense"), replies.openai.invalid_request())
    flaky_http.always(fine())
    done = analyze()
    assert done.code == 1
    assert "1 analyzed, 1 skipped, 1 for review" in done.out
    assert "next: reprieve reviews list" in done.out


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
    assert "key-of-a-test" not in done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere.txt",), "cannot be read"),
        (("empty.txt",), "there is no URL in it"),
        (("urls.txt", "--schema", "urls.txt"), "is no JSON"),
        (("urls.txt", "--schema", "nofile.json"), "'nofile.json' cannot be read"),
        (("urls.txt", "--model", "what:is"), "no model is named"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(command, tmp_path, arguments, problem):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "urls.txt").write_text("https://a.example/1\n")
    done = command("analyze", *arguments)
    assert done.code == 2
    assert problem in done.err
    assert "Traceback" not in done.err
