"""Uncommitted changes: the work tree and the index are reviewed, and the repository stays as it was."""

import asyncio
import os
import subprocess

import pytest

from reprieve import UsageError
from reprieve.review.changes import NothingToReviewError
from reprieve.review.git import Git
from reprieve.review.work_tree import change_of_work_tree


@pytest.fixture
def repository(tmp_path):
    """Runs git in a repository with one commit."""
    folder = tmp_path / "shop"
    folder.mkdir()

    def run(*arguments, **variables):
        command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@shop.example", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    run.folder = folder
    run("init", "--quiet")
    (folder / "cart.py").write_text("TOTAL = 1\n")
    (folder / ".gitignore").write_text("*.log\n")
    run("add", "--all")
    run("commit", "--quiet", "--message", "Start")
    return run


@pytest.fixture
def git(tmp_path):
    return Git(tmp_path / "state" / "mirrors", objects=tmp_path / "state" / "objects")


def changed(git, folder, *, staged=False):
    """The paths that the change touches, and their content in its tree."""

    async def read():
        change = await change_of_work_tree(git, str(folder), staged=staged)
        said = await git.ask(folder, "diff-tree", "-r", "--name-only", change.base, change.head)
        paths = said.decode().split()
        return change, {path: await git.file(folder, change.head, path) for path in paths}

    return asyncio.run(read())


def test_the_work_tree_holds_what_is_changed_staged_new_or_deleted_and_not_what_is_ignored(repository, git):
    folder = repository.folder
    (folder / "cart.py").write_text("TOTAL = 2\n")
    (folder / "new.py").write_text("NEW = 1\n")
    (folder / "staged.py").write_text("STAGED = 1\n")
    repository("add", "staged.py")
    (folder / "debug.log").write_text("noise\n")
    (folder / ".gitignore").unlink()
    (folder / ".gitignore").write_text("*.log\n*.tmp\n")
    _, files = changed(git, folder)
    assert files == {
        ".gitignore": "*.log\n*.tmp\n", "cart.py": "TOTAL = 2\n", "new.py": "NEW = 1\n", "staged.py": "STAGED = 1\n",
    }  # fmt: skip


def test_the_index_holds_what_is_staged_alone(repository, git):
    (repository.folder / "cart.py").write_text("TOTAL = 2\n")
    repository("add", "cart.py")
    (repository.folder / "cart.py").write_text("TOTAL = 3\n")
    (repository.folder / "new.py").write_text("NEW = 1\n")
    assert changed(git, repository.folder, staged=True)[1] == {"cart.py": "TOTAL = 2\n"}


def test_the_repository_is_as_it_was(repository, git):
    folder = repository.folder
    (folder / "cart.py").write_text("TOTAL = 2\n")
    (folder / "new.py").write_text("NEW = 1\n")

    def state():
        index = (folder / ".git" / "index").read_bytes()
        objects = sorted(path.name for path in (folder / ".git" / "objects").rglob("*"))
        return repository("--no-optional-locks", "status", "--porcelain"), index, objects

    before = state()
    changed(git, folder)
    changed(git, folder, staged=False)
    assert state() == before


def test_a_subfolder_names_the_whole_work_tree(repository, git):
    (repository.folder / "inner").mkdir()
    (repository.folder / "cart.py").write_text("TOTAL = 2\n")
    assert list(changed(git, repository.folder / "inner")[1]) == ["cart.py"]


def test_before_the_first_commit_all_files_are_new(tmp_path, git):
    folder = tmp_path / "fresh"
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / "a.py").write_text("A = 1\n")
    change, files = changed(git, folder)
    assert files == {"a.py": "A = 1\n"}
    assert change.notifies is False


def test_a_hook_of_a_partial_commit_reviews_the_index_that_git_names(repository, git, monkeypatch):
    """`git commit cart.py` commits that file alone, through an index of its own."""
    folder = repository.folder
    (folder / "other.py").write_text("OTHER = 1\n")
    repository("add", "other.py")
    (folder / "cart.py").write_text("TOTAL = 2\n")
    repository("read-tree", "HEAD", GIT_INDEX_FILE=".git/next-index")
    repository("add", "cart.py", GIT_INDEX_FILE=".git/next-index")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/next-index")
    assert changed(git, folder, staged=True)[1] == {"cart.py": "TOTAL = 2\n"}


@pytest.mark.parametrize("staged", [False, True])
def test_without_changes_there_is_nothing_to_review(repository, git, staged):
    with pytest.raises(NothingToReviewError, match="`reprieve review HEAD` reviews the last commit"):
        changed(git, repository.folder, staged=staged)


def test_a_filter_of_the_repository_is_not_run(repository, git, tmp_path):
    repository("config", "filter.spy.clean", f"touch {tmp_path / 'ran'}; cat")
    repository("config", "filter.spy.required", "true")
    (repository.folder / ".gitattributes").write_text("*.py filter=spy\n")
    (repository.folder / "cart.py").write_text("TOTAL = 2\n")
    (repository.folder / "new.py").write_text("NEW = 1\n")
    assert changed(git, repository.folder)[1]["cart.py"] == "TOTAL = 2\n"
    assert not (tmp_path / "ran").exists()


def test_a_large_file_that_git_does_not_track_is_left_out(repository, git):
    (repository.folder / "data.bin").write_bytes(b"\0" * 5_000_001)
    (repository.folder / "cart.py").write_text("TOTAL = 2\n")
    assert list(changed(git, repository.folder)[1]) == ["cart.py"]


def test_a_folder_outside_of_a_repository_is_refused_with_what_to_do(tmp_path, git):
    with pytest.raises(UsageError, match=r"--repository, a \.patch file, or owner/name#12"):
        changed(git, tmp_path)


def test_old_objects_are_removed(repository, git):
    (repository.folder / "cart.py").write_text("TOTAL = 2\n")
    changed(git, repository.folder)
    old = list(git.objects.glob("??/*"))
    for path in old:
        os.utime(path, (0, 0))
    (repository.folder / "cart.py").write_text("TOTAL = 3\n")
    changed(git, repository.folder)
    assert not [path for path in old if path.exists()]


def test_a_filter_of_a_submodule_is_not_run(repository, git, tmp_path):
    inner = tmp_path / "inner"
    subprocess.run(["git", "init", "--quiet", str(inner)], check=True)
    (inner / "part.py").write_text("PART = 1\n")
    run = ["git", "-C", str(inner), "-c", "user.name=Ada", "-c", "user.email=ada@shop.example"]
    subprocess.run([*run, "add", "--all"], check=True)
    subprocess.run([*run, "commit", "--quiet", "--message", "Start"], check=True)
    repository("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "part")
    repository("commit", "--quiet", "--message", "Add a part")
    part = repository.folder / "part"
    subprocess.run(["git", "-C", str(part), "config", "filter.spy.clean", f"touch {tmp_path / 'ran'}; cat"], check=True)
    (part / ".gitattributes").write_text("*.py filter=spy\n")
    (part / "part.py").write_text("PART = 2\n")
    (repository.folder / "cart.py").write_text("TOTAL = 2\n")
    assert list(changed(git, repository.folder)[1]) == ["cart.py"]
    assert not (tmp_path / "ran").exists()


def test_a_file_that_changes_in_the_moment_of_a_commit_is_seen(repository, git):
    """Of the same size and time as in the index: git compares the time of the index itself with that of the file."""
    for number in range(2, 8):
        (repository.folder / "cart.py").write_text(f"TOTAL = {number}\n")
        repository("add", "cart.py")
        (repository.folder / "cart.py").write_text(f"TOTAL = {number - 1}\n")
        if number > 2:
            assert changed(git, repository.folder)[1] == {"cart.py": f"TOTAL = {number - 1}\n"}


def test_a_deleted_file_is_a_deletion(repository, git):
    (repository.folder / "cart.py").unlink()
    assert changed(git, repository.folder)[1] == {"cart.py": None}
