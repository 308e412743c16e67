"""The five-minute tutorial, typed in by somebody with a repository of two commits; the model is the embedded one."""

import json

import pytest

from reprieve.testing.sample import make_repository
from support import programs
from support.shop import HISTORY


@pytest.fixture
def with_repository(reader, tmp_path):
    """A reader in a folder with a repository; answers are short, so that it is quick."""
    programs.require("git")
    make_repository(tmp_path / "shop", HISTORY)
    reader.folder = tmp_path / "shop"
    reader.environment["REPRIEVE_REVIEW_MODEL__ANSWER_TOKENS"] = "60"
    return reader


def test_every_command_of_the_tutorial_runs(page, with_repository):
    commands = page("docs/tutorial.md").commands
    assert len(commands) == 10
    said = [with_repository.types(line) for line in commands]
    (first, again, rerun) = [output for line, output in zip(commands, said, strict=True) if "review HEAD" in line][:3]
    assert "version 1" in first
    assert "nothing is done twice" in again
    assert "nothing is done twice" not in rerun
    jobs = json.loads(with_repository.types("reprieve jobs list --json"))
    assert len(jobs["jobs"]) == 3
    assert (with_repository.folder / "reprieve.toml").is_file()
