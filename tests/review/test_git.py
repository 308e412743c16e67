"""Git is asked without a shell, a prompt or anybody's configuration, and nothing from outside becomes an option."""

import asyncio
import gc
import re
import subprocess
import time
import warnings
from pathlib import Path

import pytest

import reprieve
from reprieve.review.changes import change_of, patch_of, repository_at
from reprieve.review.diffs import Limits
from reprieve.review.fetching import Concern, Fetcher
from reprieve.review.git import Git, check_revision, without_credentials
from reprieve.testing.sample import Commit, commit, make_repository
from support.shop import HISTORY

PATCH = "--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,1 @@\n+one\n"


def change(git, folder, revision, **options):
    return asyncio.run(change_of(git, repository_at(str(folder)), revision, **options))


@pytest.mark.parametrize(
    "address",
    [
        "--upload-pack=touch owned",
        "-c core.sshCommand=touch",
        "ext::sh -c touch%20owned",
        "fd::17",
        "ext://sh",
        "https://-oProxyCommand=touch/x",
        "ssh://-oProxyCommand=touch/x",
        "transport::https://example.org/x",
        "a\nb",
        "",
    ],
)
def test_an_address_that_would_be_an_option_or_a_command_is_refused(address):
    with pytest.raises(reprieve.UsageError):
        repository_at(address)


@pytest.mark.parametrize("revision", ["--output=/tmp/owned", "-h", "HEAD\n--all", "HEAD:secret", "", "x" * 600])
def test_a_revision_that_would_be_something_else_is_refused(revision):
    with pytest.raises(reprieve.UsageError):
        check_revision(revision)


@pytest.mark.parametrize("name", ["-p", "--help", "'; touch owned; '", "$(touch owned)", 'quo"te', "tab\tbed", "ü"])
def test_files_with_hostile_names_are_read_as_files(git, tmp_path, name, shop):
    folder = tmp_path / "hostile"
    _, last = make_repository(folder, (Commit("Ada", "first", {"a.py": "1\n"}), Commit("Ada", "second", {name: "2\n"})))
    found = change(git, folder, last)
    fetcher = Fetcher(
        git=git, hub=None, routes={}, concern=Concern(people={}, owners=False, authors=False), limits=Limits()
    )
    diff = asyncio.run(fetcher.fetch(found))
    assert [each.path for each in diff.files] == [name]
    assert not list(tmp_path.rglob("owned"))


def test_what_a_repository_or_a_home_configures_is_not_run(git, tmp_path, monkeypatch):
    folder, mark = tmp_path / "armed", tmp_path / "owned"
    _, last = make_repository(
        folder,
        (
            Commit("Ada", "one", {"a.py": "1\n"}),
            Commit("Ada", "two", {"a.py": "2\n", ".gitattributes": "*.py diff=evil\n"}),
        ),
    )
    run = f"touch {mark}"
    for name in (
        "core.fsmonitor",
        "core.sshCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "core.pager",
        "core.askPass",
    ):
        subprocess.run(["git", "config", name, run], cwd=folder, check=True)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[core]\n\tpager = "{run}"\n[diff]\n\texternal = "{run}"\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", run)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    found = change(git, folder, last)
    said = asyncio.run(
        git.ask(folder, "diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", found.base, found.head)
    )
    assert b"+2" in said
    assert not mark.exists()


def test_a_commit_a_range_and_a_first_commit_are_changes(git, shop):
    folder, commits = shop
    one = change(git, folder, commits[1])
    assert (one.base, one.head, one.title) == (commits[0], commits[1], "Carts know their total")
    assert change(git, folder, f"{commits[0]}..{commits[3]}").base == commits[0]
    assert change(git, folder, f"{commits[0]}...main").head == commits[-1]
    first = change(git, folder, commits[0])
    assert first.base == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_a_change_id_names_the_changelist_through_amends(git, tmp_path):
    folder = tmp_path / "amended"
    trail = "\n\nChange-Id: I0123456789abcdef0123456789abcdef01234567"
    _, before = make_repository(folder, (Commit("Ada", "x", {"a": "1\n"}), Commit("Ada", f"y{trail}", {"a": "2\n"})))
    after = commit(folder, Commit("Ada", f"y again{trail}", {"a": "3\n"}), 5)
    old, new = change(git, folder, before), change(git, folder, after)
    assert old.changelist_id == new.changelist_id
    assert re.fullmatch(r"amended-[0-9a-f]{8}:I0123456789abcdef0123456789abcdef01234567", old.changelist_id)
    assert old.content != new.content


def test_repositories_of_the_same_name_have_changelists_of_their_own(git, tmp_path):
    for place in ("a", "b"):
        make_repository(
            tmp_path / place / "api", (Commit("Ada", "x", {"a/b.py": "1\n"}), Commit("Ada", "y", {"c": "2\n"}))
        )
    one, other = (change(git, tmp_path / place / "api", "main~1...main").changelist_id for place in ("a", "b"))
    assert one != other
    assert {name.partition("-")[0] for name in (one, other)} == {"api"}
    assert change(git, tmp_path / "a" / "api" / "a", "main~1...main").changelist_id == one


def test_a_url_names_the_same_changelist_whoever_asks(git, tmp_path):
    make_repository(tmp_path / "far", HISTORY)
    assert (
        change(git, f"file://{tmp_path}/far", "main").changelist_id
        == change(git, f"file://{tmp_path}/far/", "main").changelist_id
    )


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n"]
)
def test_a_patch_without_a_single_hunk_is_refused(text):
    with pytest.raises(reprieve.UsageError, match=r"'g\.patch' holds no change"):
        patch_of("g.patch", text)


def test_what_changes_nothing_is_refused(git, tmp_path):
    folder = tmp_path / "still"
    make_repository(folder, (Commit("Ada", "x", {"a": "1\n"}), Commit("Ada", "again", {})))
    for revision in ("main..main", "main", "main~1...main"):
        with pytest.raises(reprieve.UsageError, match="changes nothing"):
            change(git, folder, revision)


def test_what_is_not_there_is_permanent_and_says_so(git, shop, tmp_path):
    with pytest.raises(reprieve.Permanent) as caught:
        change(git, shop[0], "no-such-branch")
    assert caught.value.error_class == "NOT_FOUND"
    assert "'no-such-branch'" in str(caught.value)
    with pytest.raises(reprieve.Permanent, match="no repository"):
        change(git, tmp_path / "nowhere", "HEAD")


def test_a_repository_that_is_elsewhere_is_mirrored_and_brought_up_to_date(git, tmp_path):
    folder = tmp_path / "far"
    make_repository(folder, HISTORY)
    url = f"file://{folder}"
    before = change(git, url, "main")
    later = commit(folder, Commit("Bo", "later", {"late.py": "1\n"}), 9)
    assert change(git, url, "main").head == later != before.head


def test_credentials_in_a_url_are_not_shown_nor_on_the_command_line(git, tmp_path, monkeypatch):
    url = "http://ada:s3cr3t-of-ada@127.0.0.1:1/x.git"
    assert repository_at(url).shown == "http://127.0.0.1:1/x.git" == without_credentials(url)
    seen = tmp_path / "seen"
    program = tmp_path / "git"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {seen}\nexec /usr/bin/env git "$@"\n')
    program.chmod(0o755)
    with pytest.raises((reprieve.Permanent, reprieve.Retryable)) as caught:
        asyncio.run(Git(tmp_path / "mirrors", program=str(program)).folder_of(repository_at(url)))
    assert "s3cr3t-of-ada" not in seen.read_text() + str(caught.value)


def test_git_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nsleep 300 &\necho $! > child\nwait\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(reprieve.Retryable) as caught:
        asyncio.run(Git(tmp_path, program=str(program), seconds=1.0).version())
    assert caught.value.error_class == "NETWORK_TIMEOUT"
    state = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    for _ in range(600):
        try:
            if state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail("it left a process behind")


def test_without_git_it_says_so(tmp_path):
    with pytest.raises(reprieve.Permanent, match="not installed"):
        asyncio.run(Git(tmp_path, program="no-git-of-anybody").version())


def test_a_patch_is_the_same_content_whatever_its_name():
    assert patch_of("a.patch", PATCH).content == patch_of("b.patch", PATCH).content
    assert patch_of("a.patch", PATCH).content != patch_of("a.patch", f"{PATCH}+more\n".replace("+1,1", "+1,2")).content


def test_patches_of_the_same_name_are_versions_of_one_changelist_only_where_they_are_one_file():
    one, other = (patch_of("c.patch", PATCH, place=place).changelist_id for place in ("/x/c.patch", "/y/c.patch"))
    assert one != other
    assert patch_of("c.patch", PATCH.replace("one", "two"), place="/x/c.patch").changelist_id == one


def test_git_that_says_too_much_leaves_no_pipe_open(git, tmp_path):
    folder = tmp_path / "large"
    make_repository(folder, (Commit("Ada <ada@example.org>", "Add a file", {"large.txt": "0123456789\n" * 200_000}),))

    async def main():
        with pytest.raises(reprieve.Permanent, match="more than 10 bytes"):
            await git.ask(folder, "cat-file", "blob", "HEAD:large.txt", most=10)

    asyncio.run(main())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(each.message) for each in told if "unclosed" in str(each.message)] == []
