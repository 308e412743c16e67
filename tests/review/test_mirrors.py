"""Mirrors of repositories that are elsewhere: what they lack is fetched, whoever made them and whenever."""

import asyncio
import subprocess

import pytest

import reprieve
from reprieve.review.changes import change_of, repository_at
from reprieve.review.diffs import Limits
from reprieve.review.fetching import Concern, Fetcher
from reprieve.review.git import Git
from reprieve.testing.sample import Commit, commit, make_repository
from support.shop import HISTORY


@pytest.fixture
def far(tmp_path):
    """A repository that is elsewhere, and its URL."""
    folder = tmp_path / "far"
    make_repository(folder, HISTORY)
    return folder, f"file://{folder}"


def change(git, url, revision="main"):
    return asyncio.run(change_of(git, repository_at(url), revision))


def paths(git, found):
    concern = Concern(people={}, owners=False, authors=False)
    fetcher = Fetcher(git=git, hub=None, routes={}, concern=concern, limits=Limits())
    return [each.path for each in asyncio.run(fetcher.fetch(found)).files]


def test_a_worker_with_an_older_mirror_fetches_what_it_lacks(tmp_path, far):
    folder, url = far
    here, there = Git(tmp_path / "here"), Git(tmp_path / "there")
    change(there, url)
    commit(folder, Commit("Bo", "later", {"late.py": "1\n"}), 9)
    assert paths(there, change(here, url)) == ["late.py"]


def test_a_mirror_that_could_not_be_filled_is_filled_at_the_next_try(tmp_path, far):
    folder, url = far
    found, there = change(Git(tmp_path / "here"), url), Git(tmp_path / "there")
    folder.rename(tmp_path / "away")
    with pytest.raises((reprieve.Permanent, reprieve.Retryable)):
        paths(there, found)
    (tmp_path / "away").rename(folder)
    assert paths(there, found) == ["shop/pay.py"]


def test_a_mirror_that_has_everything_is_not_brought_up_to_date_for_each_job(tmp_path, git, far):
    folder, url = far
    found = change(git, url)
    folder.rename(tmp_path / "away")
    assert paths(git, found) == ["shop/pay.py"]


def test_a_branch_that_gives_way_to_a_folder_of_branches_does_not_break_the_mirror(git, far):
    folder, url = far
    subprocess.run(["git", "branch", "topic"], cwd=folder, check=True)
    change(git, url, "topic")
    subprocess.run(["git", "branch", "-m", "topic", "topic/x"], cwd=folder, check=True)
    assert change(git, url, "topic/x").title == "Payments are tried again"
    with pytest.raises(reprieve.Permanent):
        change(git, url, "topic")


@pytest.mark.parametrize("name", ["main", "trunk"])
def test_the_head_of_a_repository_that_is_elsewhere_is_the_head_there(git, far, name):
    folder, url = far
    if name != "main":
        change(git, url)
        subprocess.run(["git", "checkout", "--quiet", "-b", name], cwd=folder, check=True)
        commit(folder, Commit("Bo", "later", {"late.py": "1\n"}), 9)
    assert change(git, url, "HEAD") == change(git, url, name)
