"""`reprieve reviews`, for people and for scripts."""

import json

import pytest

from reprieve.testing import replies


def fine(kind="article"):
    return replies.openai.completion(json.dumps({"kind": kind}))


@pytest.mark.spec("LLM-8.2", "LLM-8.3")
def test_a_person_finds_claims_and_verifies_what_waits_and_the_model_is_never_asked_again(waiting, analyze, flaky_http):
    listed = waiting("reviews", "list")
    assert "shop.example/items/N" in listed.out
    assert "next: reprieve reviews show 1" in listed.out
    shown = waiting("reviews", "show", 1)
    for words in (
        "samples:\n  https://shop.example/items/1",
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


def test_what_does_not_wait_any_more_is_withdrawn_and_nothing_is_offered(worked):
    worked("jobs", "cancel", 3, "--reason", "nobody wants it")
    shown = worked("reviews", "show", 1)
    assert "next: nothing: it does not wait any more" in shown.out
    assert worked("reviews", "show", 1, "--json").json["state"] == "withdrawn"


def test_undo_is_offered_only_where_it_would_not_be_refused(worked, waiting):
    worked("reviews", "verify", 1, '"by hand"', "--actor", "ada")
    ended = worked("reviews", "show", 1)
    assert "undo" not in ended.out
    assert "next: nothing: what was said of it has been gone on with" in ended.out
    rejected = waiting("reviews", "reject", 2, "--reason", "gone")
    assert "next: nothing; reprieve reviews undo 2" in rejected.out
    waiting("reviews", "reset", "shop.example/items/N", "--reason", "back")
    assert "undo" not in waiting("reviews", "show", 2).out
    assert waiting("reviews", "undo", 2, "--reason", "a mistake").code == 1


def test_a_refusal_names_the_way_out_in_the_words_of_the_command_line(waiting):
    waiting("reviews", "claim", 1, "--actor", "ada")
    taken = waiting("reviews", "claim", 1, "--actor", "bob")
    assert taken.err == "reprieve: review 1: ada is at it: take it over if that is meant: --take-over\n"
    assert "--take-over" not in waiting("reviews", "undo", 1, "--reason", "x", "--actor", "bob").err
    waiting("reviews", "verify", 1, '{"kind": "product"}', "--actor", "ada")
    again = waiting("reviews", "verify", 1, '{"kind": "article"}', "--actor", "ada")
    assert (again.code, "reprieve reviews undo 1 --reason" in again.err) == (1, True)


def test_the_answer_of_a_job_whose_pipeline_is_not_there_says_how_to_name_it(worked, tmp_path):
    (tmp_path / "others.py").write_text(
        "import reprieve\n\nother = reprieve.Pipeline('other')\n\n\n@other.stage\nasync def one(job: reprieve.Job[int]) -> int:\n    return 1\n"
    )
    lost = worked("reviews", "verify", 1, '"by hand"', "--app", "others")
    assert (lost.code, "the pipeline 'review' is with --app module:object" in lost.err) == (2, True)
