"""Links to the website of a repository follow from the name of its host or from the settings."""

import asyncio
import subprocess

import pytest

import reprieve
from reprieve.review.changes import Change, Kind, change_of, repository_at
from reprieve.review.diffs import Limits
from reprieve.review.fetching import Concern, Fetcher
from reprieve.review.forge import check_forge, commit_url, forge_of, line_url
from reprieve.review.git import Git
from reprieve.review.github import Hub
from reprieve.review.settings import load
from reprieve.review.work_tree import change_of_work_tree
from reprieve.testing.sample import Commit, make_repository

COMMIT = "a" * 40
OWN = "github+https://git.example.org"


@pytest.mark.parametrize(
    ("remote", "forge"),
    [
        ("https://github.com/shop/till.git", "https://github.com/shop/till"),
        ("https://github.com/shop/till/", "https://github.com/shop/till"),
        ("https://ada:ghp_secret@GitHub.com/shop/till.git", "https://github.com/shop/till"),
        ("git@github.com:shop/till.git", "https://github.com/shop/till"),
        ("ssh://git@github.com/shop/till.git", "https://github.com/shop/till"),
        ("ssh://git@ssh.github.com:443/shop/till.git", "https://github.com/shop/till"),
        ("https://gitlab.com/shop/team/inner/till.git", "https://gitlab.com/shop/team/inner/till"),
        ("git@codeberg.org:shop/till.git", "https://codeberg.org/shop/till"),
        ("git@bitbucket.org:shop/till.git", "https://bitbucket.org/shop/till"),
        ("https://git.example.org/shop/till.git", ""),
        ("https://github.com.evil.example/shop/till.git", ""),
        ("https://evil.example/github.com/shop/till", ""),
        ("https://github.com/shop", ""),
        ("https://github.com/shop/../till", ""),
        ('https://github.com/shop/"><script>', ""),
        ("https://github.com/shop/till\n", ""),
        ("https://[github.com/shop/till", ""),
        ("file:///srv/github.com/shop/till", ""),
        ("/srv/till", ""),
        ("C:\\till", ""),
        ("", ""),
    ],
)
def test_a_remote_has_the_page_of_a_host_that_is_known(remote, forge):
    assert forge_of(remote) == forge


@pytest.mark.parametrize(
    ("forge", "commit", "line"),
    [
        ("https://github.com/s/t", f"/commit/{COMMIT}", f"/blob/{COMMIT}/a/b.py#L9"),
        ("https://gitlab.com/s/t", f"/-/commit/{COMMIT}", f"/-/blob/{COMMIT}/a/b.py#L9"),
        ("https://codeberg.org/s/t", f"/commit/{COMMIT}", f"/src/commit/{COMMIT}/a/b.py#L9"),
        ("https://bitbucket.org/s/t", f"/commits/{COMMIT}", f"/src/{COMMIT}/a/b.py#lines-9"),
    ],
)
def test_commits_and_lines_have_the_addresses_of_their_forge(forge, commit, line):
    assert commit_url(forge, COMMIT) == forge + commit
    assert line_url(forge, COMMIT, "a/b.py", 9) == forge + line
    assert line_url(forge, COMMIT, "a/b.py") == (forge + line).partition("#")[0]


def test_a_file_that_is_shown_rendered_is_linked_to_its_source():
    assert line_url("https://github.com/s/t", COMMIT, "README.md", 2).endswith("/README.md?plain=1#L2")


def test_a_path_cannot_leave_the_link():
    strange = 'a b/"><img src=x>?q#L1)`.py'
    url = line_url("https://github.com/s/t", COMMIT, strange, 3)
    assert url == f"https://github.com/s/t/blob/{COMMIT}/a%20b/%22%3E%3Cimg%20src%3Dx%3E%3Fq%23L1%29%60.py#L3"
    for path in ("../../x", "/etc/passwd", ""):
        assert line_url("https://github.com/s/t", COMMIT, path, 3) == ""


def test_without_a_forge_or_a_commit_there_is_no_link():
    for forge, commit in (("https://github.com/s/t", "main?x"), ("https://github.com/s/t", ""), ("", COMMIT)):
        assert commit_url(forge, commit) == line_url(forge, commit, "a.py", 1) == ""


def test_a_host_that_is_not_known_is_linked_as_the_settings_say():
    plain, named = (
        check_forge("https://git.example.org/shop/till.git/"),
        check_forge("gitea+https://git.example.org/s/t"),
    )
    assert commit_url(plain, COMMIT) == f"https://git.example.org/shop/till/commit/{COMMIT}"
    assert line_url(plain, COMMIT, "a.py", 9) == "", "GitLab and Gitea have other addresses for files"
    assert line_url(named, COMMIT, "a.py", 9) == f"https://git.example.org/s/t/src/commit/{COMMIT}/a.py#L9"
    assert check_forge("") == ""


@pytest.mark.parametrize(
    "text",
    [
        "git.example.org/s/t",
        "javascript://git.example.org/s/t",
        "https://ada:word-word@git.example.org/s/t",
        "https://git.example.org",
        "https://git.example.org/s/t?x",
        "subversion+https://git.example.org/s/t",
        'https://git.example.org"onclick=/s/t',
        "https://git.example.org/s/../t",
    ],
)
def test_settings_that_name_no_page_are_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(reprieve.UsageError, match=r"notify\.forge"):
        load(notify={"forge": text})


@pytest.fixture
def folder(tmp_path):
    history = (Commit("Ada", "one", {"a.py": "1\n"}), Commit("Ada", "two", {"a.py": "2\n"}))
    make_repository(tmp_path / "shop", history)
    return tmp_path / "shop"


def fetcher(git, forge="", hub=None):
    concern = Concern(people={}, owners=False, authors=False)
    return Fetcher(git=git, hub=hub, routes={}, concern=concern, limits=Limits(), forge=forge)


def found(git, folder, forge=""):
    change = asyncio.run(change_of(git, repository_at(str(folder)), "HEAD"))
    diff = asyncio.run(fetcher(git, forge).fetch(change))
    return diff.forge, diff.commit == change.head


def set_origin(folder, url):
    subprocess.run(["git", "config", "remote.origin.url", url], cwd=folder, check=True)


def test_a_fetched_change_knows_its_page_by_its_origin_or_by_the_settings(tmp_path, folder):
    git = Git(tmp_path / "mirrors")
    assert found(git, folder) == ("", False)
    set_origin(folder, "https://ada:ghp_secret@github.com/shop/till.git")
    assert found(git, folder) == ("https://github.com/shop/till", True)
    named = "https://git.example.org/s/t"
    assert found(git, folder, named) == (named, True)


def test_a_work_tree_has_no_commit_to_link_to(tmp_path, folder):
    set_origin(folder, "git@github.com:shop/till.git")
    (folder / "a.py").write_text("3\n")
    git = Git(tmp_path / "mirrors", objects=tmp_path / "objects")
    change = asyncio.run(change_of_work_tree(git, str(folder), staged=False))
    diff = asyncio.run(fetcher(git).fetch(change))
    assert (diff.forge, diff.commit) == ("https://github.com/shop/till", "")


class _HubOf(Hub):
    """An API that answers nothing but an empty diff."""

    async def diff(self, repository, base, head, *, most):
        return ""

    async def file(self, repository, revision, path):
        return None


@pytest.mark.parametrize(
    ("api", "forge", "page"),
    [
        ("https://api.github.com", "", "https://github.com/o/r"),
        ("https://git.example.org/api/v3", "", ""),
        ("https://git.example.org/api/v3", f"{OWN}/o/r", f"{OWN}/o/r"),
        ("https://git.example.org/api/v3", f"{OWN}/o/other", ""),
    ],
)
def test_a_pull_request_has_the_page_of_its_own_repository(api, forge, page):
    ends = {"base": "b" * 40, "head": COMMIT}
    change = Change(changelist_id="o/r#1", kind=Kind.PULL, repository="o/r", number=1, **ends)
    diff = asyncio.run(fetcher(None, forge, _HubOf(api)).fetch(change))
    assert (diff.forge, diff.commit) == (page, COMMIT if page else "")
