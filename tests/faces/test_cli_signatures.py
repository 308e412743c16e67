"""`reprieve reviews signatures | reset | erase`."""

import json
import shlex

from reprieve.testing import replies


def fine(kind="article"):
    return replies.openai.completion(json.dumps({"kind": kind}))


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


def test_everything_that_is_known_of_one_signature_is_shown(waiting, analyze, flaky_http):
    waiting("reviews", "reject", 1, "--reason", "gone", "--actor", "ada")
    waiting("reviews", "reset", "shop.example/items/N", "--reason", "it is back", "--actor", "bob")
    analyze()
    shown = waiting("reviews", "signatures", "shop.example/items/N")
    for words in ("analyzed", '{"kind": "article"}', "tokens in", "question", "ada", "it is back"):
        assert words in shown.out
    found = waiting("reviews", "signatures", "shop.example/items/N", "--json").json
    assert (found["status"], found["answer"], found["input_tokens"]) == ("analyzed", {"kind": "article"}, 3)
    assert [(entry["event"], entry["actor"]) for entry in found["history"]] == [
        ("ask", "reprieve"),
        ("reject", "ada"),
        ("reset", "bob"),
    ]
    missing = waiting("reviews", "signatures", "nowhere.example")
    assert (missing.code, "no signature is named 'nowhere.example'" in missing.err) == (1, True)


def test_an_answer_is_shown_redacted_unless_it_is_asked_for_as_given(waiting, command, tmp_path):
    (tmp_path / "answer.json").write_text('{"kind": "product", "by": "ada@example.org"}')
    waiting("reviews", "verify", 1, "@answer.json")
    for options in ((), ("--json",)):
        shown = ("reviews", "signatures", "shop.example/items/N", *options)
        assert "ada@example.org" not in command(*shown).out
        assert "ada@example.org" in command(*shown, "--as-given").out


def test_what_comes_next_for_a_signature_is_a_command(waiting):
    assert (
        "reprieve reviews list --signature shop.example/items/N"
        in waiting("reviews", "signatures", "shop.example/items/N").out
    )
    waiting("reviews", "reject", 1, "--reason", "gone")
    assert (
        "reprieve reviews reset shop.example/items/N --reason"
        in waiting("reviews", "signatures", "shop.example/items/N").out
    )


def test_all_that_were_skipped_for_one_error_are_reset_at_once_but_for_what_a_person_rejected(
    analyze, command, flaky_http
):
    for _ in range(2):
        flaky_http.next(replies.openai.invalid_api_key())
        assert analyze().code == 3
    flaky_http.next(fine("nonsense"), fine("nonsense"))
    assert analyze().code == 1
    command("reviews", "reject", 1, "--reason", "gone")
    skipped = command("reviews", "signatures", "--status", "skipped", "--error", "invalid_api_key", "--json").json
    assert len(skipped) == 2
    done = command("reviews", "reset", "--error", "invalid_api_key", "--reason", "the key was wrong", "--actor", "kim")
    assert (done.code, done.out) == (0, "2 signatures will be asked again\n")
    for each in skipped:
        history = command("reviews", "signatures", each["url_signature"], "--json").json["history"]
        assert [(entry["event"], entry["actor"], entry["note"]) for entry in history] == [
            ("reset", "kim", "the key was wrong")
        ]
    nothing = command("reviews", "reset", "--error", "json_schema_error", "--reason", "another try", "--json")
    assert nothing.json == {"reset": [], "left": {}}


def test_a_reset_says_which_are_left_as_they_are_and_why(waiting):
    waiting("reviews", "reject", 1, "--reason", "gone")
    names = ("shop.example/items/N", "blog.example/DATE/hello", "nowhere.example")
    done = waiting("reviews", "reset", *names, "--reason", "back", "--json")
    assert json.loads(done.out) == {
        "reset": ["shop.example/items/N"],
        "left": {"blog.example/DATE/hello": "analyzed", "nowhere.example": None},
    }
    again = waiting("reviews", "reset", *names, "--reason", "back")
    assert (again.code, again.out) == (1, "0 signatures will be asked again\n")
    assert (
        "shop.example/items/N is to be asked anyway; blog.example/DATE/hello is analyzed; nowhere.example is not known"
        in again.err
    )


def test_a_reset_of_nothing_or_of_both_is_refused(waiting):
    for arguments in ((), ("shop.example/items/N", "--error", "invalid_api_key")):
        refused = waiting("reviews", "reset", *arguments, "--reason", "x")
        assert (refused.code, "which ones?" in refused.err) == (2, True)
    blank = waiting("reviews", "reset", "--error", "invalid_api_key", "--reason", " ")
    assert (blank.code, "say why" in blank.err) == (2, True)


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
