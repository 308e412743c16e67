"""The tutorial, typed in by a reader with a repository of six commits."""

import pytest

from reprieve.testing.sample import make_repository
from support import programs
from support.shop import HISTORY


@pytest.fixture
def with_repository(reader, tmp_path):
    """A reader in the folder of a repository, without a setting."""
    programs.require("git")
    make_repository(tmp_path / "shop", HISTORY)
    reader.folder = tmp_path / "shop"
    return reader


def test_every_command_of_the_tutorial_runs(page, with_repository):
    commands = page("docs/tutorial.md").commands
    assert len(commands) == 10
    said = with_repository.types_all(commands)
    assert "Scope: " in said["reprieve review HEAD"]
    assert "nothing is done twice" in said["reprieve review HEAD --jobs"]
    assert "ada@example.org" in said["reprieve deliveries list"]
    assert "succeeded" in said["reprieve jobs list"]
    assert (with_repository.folder / "reprieve.toml").is_file()
    assert not (with_repository.folder / "reprieve.db").exists()
