"""`reprieve review | serve | init | doctor` as a person runs them, over a model behind a loopback port."""

import json
import mailbox
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reprieve.faces.cli.review_views import jobs_hint
from reprieve.testing import FlakyHTTP, replies
from reprieve.testing.sample import Commit, make_repository
from support.command_line import main

OPINION = {
    "summary": "Shared by all.",
    "severity": "high",
    "findings": [{"file": "shop/cart.py", "line": 2, "comment": "Shared."}],
}


@pytest.fixture
def upstream():
    """A model that always finds the same."""
    with FlakyHTTP() as made:
        made.always(replies.openai.completion(json.dumps(OPINION)))
        yield made


@pytest.fixture
def reprieve(tmp_path, upstream, shop, monkeypatch, capsys):
    """Runs `reprieve ...` in a folder of its own, with nobody's home and nobody's configuration."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("REPRIEVE_", "GIT_"))]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path, upstream, shop).items():
        monkeypatch.setenv(name, value)

    def run(*arguments, code=0, **variables):
        with monkeypatch.context() as here:
            here.setattr(sys, "argv", ["reprieve", *map(str, arguments)])
            for name, value in variables.items():
                here.setenv(name, value)
            ended = 0
            try:
                main()
            except SystemExit as left:
                ended = left.code or 0
        said = "".join(capsys.readouterr())
        assert ended == code, said
        return said

    return run


def environment(folder, upstream, shop):
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder / "nowhere"),
        "REPRIEVE_REVIEW_MODEL__NAME": f"{upstream.url('/v1')}#stand-in", "REPRIEVE_REVIEW_REPOSITORY": str(shop[0]),
        "REPRIEVE_REVIEW_FACTS": "false", "REPRIEVE_REVIEW_NOTIFY__OWNERS": "true", "REPRIEVE_REVIEW_NOTIFY__AUTHORS": "true",
        "REPRIEVE_REVIEW_DATABASE": "sqlite:///reprieve.db", "REPRIEVE_REVIEW_FOLDER": str(folder / "state"),
        "REPRIEVE_REVIEW_MAIL__FOLDER": "mail",
    }  # fmt: skip


def mails(folder):
    boxes = sorted((folder / "mail").iterdir())
    return {box.name: [str(each["subject"]) for each in mailbox.Maildir(box, create=False)] for box in boxes}


def test_a_commit_is_reviewed_in_one_command_and_once(reprieve, tmp_path, shop):
    said = reprieve("review", shop[1][1], "--jobs")
    assert "1 change in" in said
    assert "1 done" in said
    assert "1 finding, high" in said
    assert "Nothing failed." in said
    assert "sent to mailto:bo@shop.example (mail: mail)" in said
    again = reprieve("review", shop[1][1])
    assert "was reviewed before; --again reviews it anew" in again
    assert mails(tmp_path) == {"bo@shop.example": ["Review of Carts know their total: 1 finding, high"]}
    assert "version 2" in reprieve("review", shop[1][1], "--version", 2, "--jobs")
    assert len(mails(tmp_path)["bo@shop.example"]) == 2


def test_it_works_on_postgresql_too(reprieve, tmp_path, shop, postgres_url):
    assert "2 done" in reprieve("review", *shop[1][1:3], "--jobs", "--url", postgres_url)
    assert {who: len(found) for who, found in mails(tmp_path).items()} == {"ada@shop.example": 1, "bo@shop.example": 2}


def test_with_trouble_there_are_retries_a_dead_letter_a_replay_and_still_one_mail(reprieve, tmp_path, shop):
    said = reprieve("review", *shop[1], "--jobs", "--chaos", "--seed", 7)
    assert "6 done" in said
    assert "retried" in said
    assert "so it is replayed" in said
    assert re.search(r"\d deliver(y|ies) broke off half-way and was looked up", said)
    assert re.search(r"replayed and closed: \d dead letter", said)
    assert {who: len(set(found)) == len(found) for who, found in mails(tmp_path).items()} == {
        "ada@shop.example": True,
        "bo@shop.example": True,
    }
    assert {who: len(found) for who, found in mails(tmp_path).items()} == {"ada@shop.example": 3, "bo@shop.example": 5}
    assert "resolved" in reprieve("dead", "show", 1)


PATCH = "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1,1 +1,2 @@\n one\n+two\n"


def test_a_patch_is_reviewed_and_somebody_is_told_besides(reprieve, tmp_path):
    (tmp_path / "fix.patch").write_text(PATCH)
    said = reprieve("review", "fix.patch", "--notify", "maildir:archive", "--id", "fix-1", "--jobs")
    assert "fix-1 version 1" in said
    assert list(mails(tmp_path)) == ["archive"]


def test_the_author_of_a_mailed_patch_is_told_and_the_review_can_be_read_on_the_spot(reprieve, tmp_path):
    head = "From 0123 Mon Sep 17 00:00:00 2001\nFrom: =?utf-8?q?Ad=C3=A4?= <ada@shop.example>\nSubject: [PATCH] Fix\n\n---\n"
    (tmp_path / "0001-fix.patch").write_text(head + PATCH)
    said = reprieve("review", "0001-fix.patch")
    assert list(mails(tmp_path)) == ["ada@shop.example"]
    assert "Shared by all." in said
    assert re.search(r"shop/cart.py:2 .*Shared\.", said)


def test_a_review_is_printed_and_sent_to_nobody_unless_it_is_asked_for(reprieve, tmp_path, shop):
    quiet = {"REPRIEVE_REVIEW_NOTIFY__OWNERS": "false", "REPRIEVE_REVIEW_NOTIFY__AUTHORS": "false"}
    assert "Shared." in reprieve("review", shop[1][1], **quiet)
    assert not (tmp_path / "mail").exists()
    assert "sent to" in reprieve("review", shop[1][1], "--notify", "cy@shop.example", **quiet)
    assert list(mails(tmp_path)) == ["cy@shop.example"]


def test_owners_without_an_address_are_counted(reprieve, tmp_path):
    history = (Commit("Ada", "x", {"CODEOWNERS": "*.py @bo\n"}), Commit("Ada", "y", {"shop/cart.py": "1\n2\n"}))
    make_repository(tmp_path / "owned", history)
    said = reprieve("review", "HEAD", "-r", "owned")
    assert "job 1: 1 owner or author has no known address; [notify.people] names it" in said


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["review", "no-such-branch"], 2, "there is no commit 'no-such-branch' in "),
        (["review", "x#y"], 2, "there is no commit 'x#y' in "),
        (["review", "--upload-pack=x"], 2, "No such option"),
        (["review", "--", "--upload-pack=x"], 2, "is no revision"),
        (["review", "HEAD", "-r", "ext::sh"], 2, "would run a program"),
        (["review", "HEAD", "HEAD~1", "--version", "3"], 2, "one at a time"),
        (["review", "HEAD", "--settings", "none.toml"], 2, "reprieve init"),
        (["review", "HEAD", "--notify", "@nobody"], 2, "nobody knows how to reach"),
        (["review", "HEAD", "--notify", "slack:C1"], 2, "nobody is set up to reach slack"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(reprieve, arguments, code, why):
    assert re.search(why, reprieve(*arguments, code=code))


def test_a_pull_request_that_cannot_be_had_is_told_in_a_sentence(reprieve, upstream):
    upstream.always(replies.github.not_found(), path="/repos/o/r/pulls/12")
    said = reprieve("review", "o/r#12", code=2, REPRIEVE_REVIEW_GITHUB__URL=upstream.url("/").rstrip("/"))
    assert "o/r#12 cannot be fetched" in said
    assert "NOT_FOUND" in said
    assert "nobody expected" not in said


def test_what_is_refused_leaves_no_database_behind(reprieve, tmp_path):
    reprieve("review", "HEAD", "-r", tmp_path, code=2)
    assert not (tmp_path / "reprieve.db").exists()


def test_init_writes_a_file_once_and_doctor_looks_at_everything(reprieve, tmp_path):
    assert "written" in reprieve("init")
    assert "left as it is" in reprieve("init", code=1)
    said = reprieve("doctor", "--ask")
    for name in ("settings", "git", "repository", "database", "model", "mail"):
        assert f"well     {name}" in said
    assert "TO DO    model" in reprieve("doctor", code=1, REPRIEVE_REVIEW_MODEL__NAME="nonsense")
    assert "TO DO    mail" in reprieve(
        "doctor", code=1, REPRIEVE_REVIEW_MAIL__HOST="127.0.0.1", REPRIEVE_REVIEW_MAIL__PORT="1"
    )
    assert "TO DO    repository" in reprieve("doctor", code=1, REPRIEVE_REVIEW_REPOSITORY=str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("NOTIFY__RECIPIENTS", '["nobody"]', "nobody knows how to reach 'nobody'"),
        ("NOTIFY__RECIPIENTS", '["slack:C1"]', "nobody is set up to reach slack"),
        ("NOTIFY__RECIPIENTS", '["http://127.0.0.1/x"]', "nobody is set up to reach http"),
        ("MODEL__PROMPT", "nothere.txt", "'nothere.txt' cannot be read"),
        ("PARTS", "nomod:f", "'nomod:f' cannot be used"),
    ],
)
def test_doctor_finds_what_a_review_would_stumble_over(reprieve, name, value, why):
    said = reprieve("doctor", code=1, **{f"REPRIEVE_REVIEW_{name}": value})
    assert "TO DO    pipeline" in said
    assert why in said


WRONG = [
    ('off = ["no-such-rule"]', "critic.off: there is no rule 'no-such-rule'; `reprieve review --rules` lists them"),
    (
        'severity = {"debug-leftover" = "dire"}',
        "critic.severity.debug-leftover: Input should be 'none', 'low', 'medium' or",
    ),
    ('of = ["debug-leftover"]', "critic.of: there is no such setting"),
    ("off = [", "is not TOML"),
]


@pytest.fixture
def rules_file(tmp_path):
    """Writes the reprieve.toml of a repository of its own, committed or not; gives the variable that names the repository."""
    folder = tmp_path / "toys"
    folder.mkdir()

    def git(*arguments):
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@shop.example", *arguments]
        subprocess.run(command, cwd=folder, check=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "Start")

    def write(text, *, is_committed=False):
        (folder / "reprieve.toml").write_text(f"[critic]\n{text}\n")
        if is_committed:
            git("add", "reprieve.toml")
            git("commit", "--quiet", "--message", "Set up the rules")
            (folder / "reprieve.toml").unlink()
        return {"REPRIEVE_REVIEW_REPOSITORY": str(folder), "REPRIEVE_REVIEW_FACTS": "true"}

    return write


@pytest.mark.parametrize(("text", "why"), WRONG)
@pytest.mark.parametrize("is_committed", [False, True])
def test_doctor_finds_wrong_settings_of_the_rules_in_the_repository(reprieve, rules_file, text, why, is_committed):
    said = reprieve("doctor", code=1, **rules_file(text, is_committed=is_committed))
    assert "TO DO    critic" in said
    assert f"reprieve.toml of {'HEAD' if is_committed else 'the work tree'}" in said
    assert why in said
    assert "a review switches nothing off" in said


def test_doctor_names_all_that_is_wrong(reprieve, rules_file):
    said = reprieve("doctor", code=1, **rules_file('of = []\noff = ["no-such-rule"]'))
    assert "critic.of: there is no such setting" in said
    assert "there is no rule 'no-such-rule'" in said


def test_doctor_says_where_the_settings_of_the_rules_are(reprieve, rules_file, tmp_path):
    assert "well     critic      no rules review" in reprieve("doctor")
    variables = rules_file("")
    assert "well     critic      every rule" in reprieve("doctor", **variables)
    rules_file('off = ["debug-leftover"]', is_committed=True)
    assert "well     critic      as reprieve.toml of HEAD sets it" in reprieve("doctor", **variables)
    (tmp_path / "own.toml").write_text('[critic]\noff = ["debug-leftover"]\n')
    assert "well     critic      as the settings set it" in reprieve("doctor", "--settings", "own.toml", **variables)


def test_doctor_follows_no_link_of_the_work_tree(reprieve, rules_file, tmp_path):
    variables = rules_file("")
    (tmp_path / "toys" / "reprieve.toml").unlink()
    (tmp_path / "toys" / "reprieve.toml").symlink_to("/dev/zero")
    assert "well     critic      every rule" in reprieve("doctor", **variables)


def test_a_variable_that_sets_nothing_is_told(reprieve):
    said = reprieve("doctor", code=2, REPRIEVE_REVIEW_MODL__NAME="x")
    assert "REPRIEVE_REVIEW_MODL__NAME sets nothing" in said
    assert "did you mean 'model'" in said


def test_a_key_that_is_missing_is_what_doctor_asks_for(reprieve, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said = reprieve("doctor", code=1, REPRIEVE_REVIEW_MODEL__NAME="openai:gpt-5-mini")
    assert "set its key" in said
    assert "reprieve[local]" not in said


HEEDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from reprieve.faces.cli import main; main()"
"""Whoever starts a process in the background may have it ignore Ctrl-C."""


def test_ctrl_c_says_that_the_jobs_are_kept_and_how_to_go_on(tmp_path, upstream, shop):
    upstream.always(503)
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", HEEDING, "review", "--jobs", shop[1][1]], cwd=tmp_path, env=environment(tmp_path, upstream, shop),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert any("at llm" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
    finally:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "`reprieve serve` goes on with them" in said
    assert "Traceback" not in said


def test_a_replay_of_a_review_says_who_works_on_it(reprieve, upstream, shop):
    upstream.always(replies.openai.invalid_api_key())
    reprieve("review", shop[1][1], code=3)
    said = reprieve("dead", "replay", 1, "--override", "a test")
    assert "no worker runs: reprieve serve starts one" in said


def test_serve_works_on_what_was_submitted_until_it_is_told_to_stop(reprieve, tmp_path, shop, upstream):
    assert "`reprieve serve` works on them" in reprieve("review", shop[1][1], "--submit-only")
    process = subprocess.Popen(
        [sys.executable, "-m", "reprieve", "serve"],
        cwd=tmp_path,
        env=environment(tmp_path, upstream, shop),
        stderr=subprocess.PIPE,
    )
    try:
        reprieve("jobs", "watch", "--until-done")
        said = reprieve("review", shop[1][2], "--jobs")
        assert "another process works on this database already" in said
        assert "1 done" in said
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert sorted(mails(tmp_path)) == ["ada@shop.example", "bo@shop.example"]


def test_a_review_that_waits_for_a_person_shows_what_was_asked_and_is_answered_without_saying_where_the_pipeline_is(
    reprieve, tmp_path, upstream, shop
):
    upstream.always(replies.openai.completion("I am a teapot."))
    said = reprieve("review", shop[1][1], code=3)
    assert "waits for a person" in said
    assert "reprieve reviews show 1" in said
    shown = reprieve("reviews", "show", 1)
    assert "+    def __init__(self, items=[]):" in shown.replace("  +", "+")
    assert "--app" not in shown
    reprieve("reviews", "verify", 1, json.dumps({"summary": "Fine.", "severity": "none", "findings": []}))
    assert "1 done" in reprieve("review", shop[1][1], "--jobs")
    (message,) = mailbox.Maildir(tmp_path / "mail" / "bo@shop.example", create=False)
    assert "Opinion of a person." in message.get_payload()[0].get_payload(decode=True).decode()
    assert "delivery 1 was sent, and is sent" in reprieve("deliveries", "reconcile", 1)
    assert "0 deliveries seen to" in reprieve("deliveries", "reconcile", "--app", "reprieve.review")
    assert "where your pipelines are" in reprieve("deliveries", "reconcile", code=2)
    reprieve("work", "review", "--until-idle")


def test_the_tour_leaves_a_folder_that_is_not_its_own_alone(tmp_path):
    (tmp_path / "precious").write_text("mine")
    done = subprocess.run(
        [sys.executable, "-m", "reprieve.testing.tour", "--once", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "not ours" in done.stderr
    assert Path(tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize(
    "url", ["postgresql://u:pa55@ss@h/db", "postgresql://h/db?password=pa55", "postgresql://h/pa55"]
)
def test_the_url_of_a_server_is_not_repeated(url):
    assert "pa55" not in jobs_hint(url)
    assert jobs_hint("sqlite:///a.db") == "`reprieve jobs list --url sqlite:///a.db`"
