"""`reprieve reviews` and `reprieve analyze`, for people and for scripts."""

import json
import shlex

import pytest

from reprieve.testing import replies

KINDS = {"type": "object", "properties": {"kind": {"enum": ["article", "product"]}}, "required": ["kind"]}
URLS = """
https://shop.example/items/1
https://shop.example/items/2?ref=a
https://shop.example/items/3
not a url
https://blog.example/2024/05/17/hello
"""


@pytest.fixture
def analyze(command, flaky_http, tmp_path, monkeypatch):
    """Runs `reprieve analyze` over the list above."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test-0004")
    (tmp_path / "urls.txt").write_text(URLS)
    (tmp_path / "schema.json").write_text(json.dumps(KINDS))
    model = f"openai+{flaky_http.url('/v1')}#m"

    def run(*options):
        return command("analyze", "urls.txt", "--model", model, "--schema", "schema.json", "-c", 1, *options)

    return run


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
    (tmp_path / "urls.txt").write_text(URLS)
    done = command("analyze", *arguments)
    assert done.code == 2
    assert problem in done.err
    assert "Traceback" not in done.err


@pytest.fixture
def waiting(analyze, command, flaky_http):
    """The same, with one signature that waits for a person: review 1."""
    flaky_http.next(fine("nonsense"), fine("nonsense"))
    flaky_http.always(fine())
    analyze()
    return command


@pytest.mark.spec("LLM-8.1", "LLM-8.2", "LLM-8.3")
def test_a_person_finds_claims_and_verifies_what_waits_and_the_model_is_never_asked_again(waiting, analyze, flaky_http):
    listed = waiting("reviews", "list")
    assert "shop.example/items/N" in listed.out
    assert "next: reprieve reviews show 1" in listed.out
    shown = waiting("reviews", "show", 1)
    for words in (
        "https://shop.example/items/1",
        "nonsense",
        "wrong: at kind",
        "schema: ",
        "next: reprieve reviews claim 1",
    ):
        assert words in shown.out
    assert waiting("reviews", "claim", 1, "--actor", "ada").code == 0
    refused = waiting("reviews", "verify", 1, '{"kind": "nonsense"}', "--actor", "ada")
    assert (refused.code, "does not fit the schema" in refused.err) == (2, True)
    taken = waiting("reviews", "verify", 1, '{"kind": "product"}', "--actor", "bob")
    assert (taken.code, "ada is at it" in taken.err) == (1, True)
    assert waiting("reviews", "verify", 1, '{"kind": "product"}', "--actor", "ada").code == 0
    asked = len(flaky_http.requests)
    found = {each["signature"]: each for each in analyze("--json").json["results"]}
    assert found["shop.example/items/N"]["value"] == {"kind": "product"}
    assert found["shop.example/items/N"]["is_human_verified"] is True
    assert len(flaky_http.requests) == asked
    assert waiting("reviews", "list").out == "nothing waits for a person\n"


def test_reject_and_undo_are_entries_of_one_history(waiting):
    waiting("reviews", "reject", 1, "--reason", "gone", "--actor", "ada")
    waiting("reviews", "undo", 1, "--reason", "not gone", "--actor", "bob")
    shown = waiting("reviews", "show", 1, "--json").json
    assert shown["state"] == "open"
    assert [(entry["actor"], entry["event"], entry["note"]) for entry in shown["history"][1:]] == [
        ("ada", "reject", "gone"),
        ("bob", "undo", "not gone"),
    ]


def test_a_skipped_signature_is_reset_and_one_that_is_not_skipped_is_told(waiting, analyze, flaky_http):
    waiting("reviews", "reject", 1, "--reason", "gone")
    skipped = waiting("reviews", "signatures", "--status", "skipped", "--json").json
    assert [each["url_signature"] for each in skipped] == ["shop.example/items/N"]
    done = waiting("reviews", "reset", "shop.example/items/N", "blog.example/DATE/hello", "--reason", "back")
    assert (done.code, "1 signature will be asked again" in done.out) == (1, True)
    assert analyze().code == 0


def test_the_next_page_of_signatures_is_asked_for_in_words_that_a_shell_takes_as_one(
    analyze, command, flaky_http, tmp_path
):
    flaky_http.always(fine())
    analyze()
    (tmp_path / "urls.txt").write_text("https://a.example/it's;ls\n")
    analyze()
    (found,) = command("reviews", "signatures", "-n", 1, "--json").json
    assert "'" in found["url_signature"]
    more = command("reviews", "signatures", "-n", 1).out.splitlines()[-1]
    assert shlex.split(more) == ["more:", "--after", found["url_signature"]]


def test_what_is_private_in_samples_and_answers_is_shown_only_where_it_is_asked_for(analyze, command, flaky_http):
    flaky_http.next(fine("ada@example.org"), fine("ada@example.org"))
    flaky_http.always(fine())
    analyze()
    for options in ((), ("--json",)):
        assert "ada@example.org" not in command("reviews", "show", 1, *options).out
        assert "ada@example.org" in command("reviews", "show", 1, "--as-given", *options).out


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("show", 99), 1, "no review is named '99'"),
        (("verify", 99, "{}"), 1, "no review is named '99'"),
        (("verify", 1, "{oops"), 2, "the answer is JSON"),
        (("verify", 1, "@nowhere.json"), 2, "cannot be read from 'nowhere.json'"),
        (("undo", 1, "--reason", "x"), 1, "a review that is open cannot undo"),
        (("reject", 1, "--reason", " "), 2, "say why"),
    ],
)
def test_a_mistake_is_told_in_a_sentence_and_changes_nothing(waiting, arguments, code, problem):
    done = waiting("reviews", *arguments)
    assert (done.code, problem in done.err) == (code, True)
    assert waiting("reviews", "show", 1, "--json").json["state"] == "open"


def test_a_job_in_review_is_in_the_same_queue_and_its_answer_ends_it(worked):
    (review,) = worked("reviews", "list", "--json").json
    assert (review["job_id"], review["pipeline"], review["stage"]) == (3, "review", "llm")
    assert "job 3 at review/llm" in worked("reviews", "list").out
    done = worked("reviews", "verify", review["review_id"], '"by hand"', "--actor", "ada")
    assert done.code == 0
    assert worked("jobs", "show", 3, "--json").json["status"] == "succeeded"


def test_what_was_closed_long_ago_is_pruned_and_says_so_and_cannot_be_taken_back(waiting):
    waiting("reviews", "verify", 1, '{"kind": "product"}', "--actor", "ada")
    assert waiting("reviews", "prune", "--older-than", "90d").out.startswith("0 reviews reduced")
    dry = waiting("reviews", "prune", "--older-than", "0s", "--dry-run", "--json")
    assert dry.json == {"reviews": 1, "dry_run": True}
    done = waiting("reviews", "prune", "--older-than", "0s", "--actor", "kim")
    assert (done.code, done.out) == (0, "1 review reduced to who decided what, and when\n")
    shown = waiting("reviews", "show", 1)
    assert "https://shop.example/items/1" not in shown.out
    assert "ada" in shown.out
    assert "next: nothing: what it was decided by was pruned" in shown.out
    assert waiting("reviews", "show", 1, "--json").json["is_pruned"] is True
    back = waiting("reviews", "undo", 1, "--reason", "a mistake")
    assert (back.code, "review 1 was pruned" in back.err) == (1, True)


def test_an_erased_signature_is_asked_about_anew(waiting, analyze, flaky_http):
    asked = len(flaky_http.requests)
    done = waiting("reviews", "erase", "shop.example/items/N", "--yes")
    assert (done.code, done.out) == (0, "all that was known of 1 signature erased\n")
    assert waiting("reviews", "list").out == "nothing waits for a person\n"
    assert analyze().code == 0
    assert len(flaky_http.requests) == asked + 1
    assert waiting("reviews", "erase", "shop.example/items/N", "--yes", "--json").json == {
        "erased": ["shop.example/items/N"]
    }


def test_what_cannot_be_erased_or_pruned_is_told_in_a_sentence(waiting):
    again = waiting("reviews", "erase", "nowhere.example", "--yes")
    assert (again.code, "nothing is known of 1 signature" in again.err) == (1, True)
    assert again.out == ""
    unsure = waiting("reviews", "erase", "shop.example/items/N")
    assert (unsure.code, "say --yes" in unsure.err) == (2, True)
    assert waiting("reviews", "show", 1, "--json").json["state"] == "open"
    assert waiting("reviews", "prune", "--older-than", "soon").code == 2
