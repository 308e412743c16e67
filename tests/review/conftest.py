"""A repository, settings in a folder of the test's own, and a model that answers what it is told to."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reprieve.models import Finish, Prompt, Reply
from reprieve.review import settings as review_settings
from reprieve.review.git import Git
from reprieve.review.parts import parts_of
from reprieve.review.pipeline import make
from reprieve.testing.sample import make_repository
from support import programs
from support.shop import HISTORY

sys.path.insert(0, str(Path(__file__).parent / "lab"))


class Critic:
    """A model that finds what it is told to find, and fails as it is told to."""

    def __init__(self, *fails, findings=(), severity="low", summary="It may be wrong."):
        self.name, self.asked, self.fails = "stand-in", [], list(fails)
        self.answer = {"summary": summary, "severity": severity, "findings": list(findings)}

    async def ask(self, prompt: Prompt, *, schema=None, timeout=60.0):  # noqa: ASYNC109 - as a model is asked
        self.asked.append(prompt.turns[-1].text)
        if self.fails and (failure := self.fails.pop(0)) is not None:
            raise failure
        return Reply(text=json.dumps(self.answer), finish=Finish.COMPLETE, model=self.name)

    async def close(self):
        pass


@pytest.fixture(autouse=True, scope="session")
def _git_is_installed():
    programs.require("git")


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """The sample repository and its commits, the oldest first; nobody writes to it."""
    folder = tmp_path_factory.mktemp("sample") / "shop"
    return folder, make_repository(folder, HISTORY)


@pytest.fixture
def git(tmp_path):
    return Git(tmp_path / "mirrors")


@pytest.fixture
def reviewing(tmp_path, monkeypatch):
    """Makes a pipeline with this model and without rules, and settings in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def made(model, **said):
        everyone = {"owners": True, "authors": True}
        said = {"model": {"name": "openai:stand-in"}, "facts": False} | said
        found = review_settings.load(
            **said | {"notify": everyone | said.get("notify", {})}, folder=tmp_path / "state", mail={"folder": "mail"}
        )
        monkeypatch.setenv("OPENAI_API_KEY", "sk-no-key-of-anybody")
        parts = replace(parts_of(found), model=model)
        return make(found, parts), parts

    return made


@pytest.fixture
def critic():
    return Critic
