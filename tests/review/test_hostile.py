"""What a repository, a payload or an author holds runs no program, writes no file, and chooses neither its readers nor what is read."""

import asyncio
import subprocess

import pytest

import reprieve
from reprieve.review.changes import Change, Kind, change_of, repository_at
from reprieve.review.diffs import Limits
from reprieve.review.fetching import Concern, Fetcher
from reprieve.review.git import Git
from reprieve.review.github import Hub
from reprieve.review.recipients import recipients_of
from reprieve.senders import Maildir, Slack, Webhook
from reprieve.testing.sample import Commit, commit, make_repository

HISTORY = (Commit("Ada", "one", {"a.py": "1\n"}), Commit("Ada", "two", {"a.py": "2\n"}))
SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\n"


def run(folder, *arguments, given=None):
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True, input=given
    ).stdout.strip()


def change(git, folder, revision):
    return asyncio.run(change_of(git, repository_at(str(folder)), revision))


def fetched(git, found, **concern):
    fetcher = Fetcher(
        git=git, hub=None, routes={"mailto": Maildir("mail")}, concern=Concern(people={}, **concern), limits=Limits()
    )
    return asyncio.run(fetcher.fetch(found))


def program(folder, name):
    """A program that leaves a mark where it was run."""
    path, mark = folder / f"{name}.sh", folder / f"{name} was run"
    path.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    path.chmod(0o755)
    return path, mark


def test_a_signed_commit_runs_no_program_that_its_repository_names(git, tmp_path):
    folder = tmp_path / "signed"
    make_repository(folder, HISTORY)
    tree, who = run(folder, "rev-parse", "HEAD^{tree}"), "Ada <ada@shop.example> 1767254400 +0000"
    signed = f"tree {tree}\nauthor {who}\ncommitter {who}\n{SIGNATURE}\nhello\n"
    name = run(folder, "hash-object", "-t", "commit", "-w", "--stdin", given=signed)
    path, mark = program(tmp_path, "gpg")
    run(folder, "config", "log.showSignature", "true")
    run(folder, "config", "gpg.program", str(path))
    found = change(git, folder, name)
    fetched(git, found)
    assert found.title == "hello"
    assert not mark.exists()


def test_a_part_that_is_missing_is_not_fetched_by_a_program_that_the_repository_names(git, tmp_path):
    folder = tmp_path / "partial"
    make_repository(folder, HISTORY)
    blob = run(folder, "rev-parse", "HEAD:a.py")
    (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    (folder / "a.py").unlink()
    path, mark = program(tmp_path, "upload")
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(folder),
        "remote.origin.uploadpack": str(path),
    }.items():
        run(folder, "config", name, value)
    found = change(git, folder, "HEAD")
    with pytest.raises((reprieve.Permanent, reprieve.Retryable)):
        fetched(git, found)
    assert not mark.exists()


def test_a_repository_of_another_user_is_asked_only_if_the_settings_trust_it(tmp_path):
    folder, other = tmp_path / "foreign", tmp_path / "other git"
    make_repository(folder, HISTORY)
    other.write_text('#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec git "$@"\n')
    other.chmod(0o755)
    with pytest.raises(reprieve.Permanent, match=r"dubious ownership.*trusted") as caught:
        change(Git(tmp_path / "mirrors", program=str(other)), folder, "HEAD")
    assert caught.value.error_class == "PERMISSION_DENIED"
    assert change(Git(tmp_path / "mirrors", program=str(other), trusted=(str(folder),)), folder, "HEAD").title == "two"


@pytest.mark.parametrize("strange", ["--output=owned", "HEAD", "a" * 39, "a" * 41, "A" * 40, "a" * 39 + "\n", ""])
@pytest.mark.parametrize("end", ["base", "head"])
@pytest.mark.parametrize("kind", [Kind.GIT, Kind.PULL])
def test_a_payload_names_commits_by_their_whole_names_only(kind, end, strange):
    ends = {"base": "a" * 40, "head": "b" * 64} | {end: strange}
    with pytest.raises(reprieve.UsageError, match="whole name of a commit"):
        Change(changelist_id="x", kind=kind, repository="o/r", number=1, **ends)


def test_authors_and_owners_are_reached_by_mail_or_as_the_settings_say_and_choose_no_other_channel(tmp_path):
    routes = {"mailto": Maildir(tmp_path), "https": Webhook(secret="whsec_" + "QUJD" * 10), "slack": Slack("xoxb-1")}
    strange = [
        "https://evil.example/steal",
        "slack:C0GENERAL",
        "https://evil.example/h?@x",
        "mailto:x@y.org",
        "a@b@c",
        "a@b?cc=d",
    ]
    found = recipients_of((), [*strange, "@ada", "bo@shop.example"], people={"@ada": "slack:C024BE91L"}, routes=routes)
    assert found.told == ("slack:C024BE91L", "mailto:bo@shop.example")
    assert found.unknown == len(strange)


def test_no_change_writes_to_everybody_in_the_world(tmp_path):
    crowd = [f"p{number}@shop.example" for number in range(1000)]
    found = recipients_of(["boss@shop.example"], crowd, people={}, routes={"mailto": Maildir(tmp_path)})
    assert found.told[:2] == ("mailto:boss@shop.example", "mailto:p0@shop.example")
    assert (len(found.told), found.unknown) == (101, 900)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost.evil.example",
        "http://127.0.0.1@evil.example",
        "http://127.0.0.1.evil.example",
        "https://user:word@api.example.org",
        "https://",
        "https://[x",
        "ftp://localhost",
    ],
)
def test_a_token_goes_nowhere_but_to_the_host_that_was_meant(url):
    with pytest.raises(reprieve.UsageError, match="https"):
        Hub(url, token="t")


@pytest.mark.parametrize(
    "url", ["https://git.example.org/api/v3/", "http://127.0.0.1:81", "http://localhost:8", "http://[::1]:8"]
)
def test_an_api_of_ones_own_is_asked(url):
    assert Hub(url, token="t")


def test_a_change_that_brings_owners_along_does_not_choose_its_readers(git, tmp_path):
    folder = tmp_path / "owned"
    first, _ = make_repository(folder, HISTORY)
    last = commit(folder, Commit("Ada", "three", {"a.py": "3\n", "CODEOWNERS": "* boss@evil.example\n"}), 3)
    assert fetched(git, change(git, folder, last), authors=False).recipients == ()
    assert fetched(git, change(git, folder, f"{first}..{last}"), authors=False).recipients == ()


def test_a_first_commit_has_the_owners_that_it_names(git, tmp_path):
    first, *_ = make_repository(tmp_path / "new", (Commit("Ada", "one", {"CODEOWNERS": "* bo@shop.example\n"}),))
    assert fetched(git, change(git, tmp_path / "new", first), authors=False).recipients == ("mailto:bo@shop.example",)


def test_a_change_does_not_hide_itself_by_calling_itself_generated(git, tmp_path):
    folder = tmp_path / "hiding"
    make_repository(folder, HISTORY)
    last = commit(folder, Commit("Ada", "x", {"a.py": "3\n", ".gitattributes": "* linguist-generated\n"}), 3)
    assert [each.path for each in fetched(git, change(git, folder, last)).files] == [".gitattributes", "a.py"]
    later = commit(folder, Commit("Ada", "y", {"a.py": "4\n"}), 4)
    assert fetched(git, change(git, folder, later)).left_out.generated == 1
