"""What can be set: in reprieve.toml, or in the environment as REPRIEVE_REVIEW_...; nothing has to be."""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from reprieve import UsageError
from reprieve.review.critic.suppression import CriticSettings
from reprieve.review.forge import check_forge
from reprieve.review.state import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

EMBEDDED: Final = "local"
"""The name of the model that comes in a Python package."""
FILE: Final = "reprieve.toml"
PREFIX: Final = "REPRIEVE_REVIEW_"
OF_OTHER_PROGRAMS: Final = ("streams", "supervisor")
"""Sections of the settings file that the review does not read."""
NOT_FROM_FOLDER: Final = frozenset({"facts", "parts", "chaos", "trusted"})
"""Settings that reprieve.toml in the current folder cannot make: it may be part of the change that is reviewed."""
_FOLDER: Final = "the settings file of the current folder"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(_Section):
    """Who is asked."""

    name: str | None = None
    """`openai:gpt-5-mini`, `anthropic:claude-haiku-4-5`, `http://host/v1#name`, the path of a GGUF file, or `local` for the embedded toy; none by default."""
    prompt: Path | None = None
    """A text with $diff in it, in place of the one that comes along."""
    answer_tokens: int | None = Field(default=None, ge=20, le=100_000)
    """At most so many in an answer; by default 80 of the embedded model, 1000 of others."""
    part_characters: int | None = Field(default=None, ge=200, le=1_000_000)
    """A diff that is longer is split by file; by default 1500 and 12000."""
    findings: int | None = Field(default=None, ge=0, le=100)
    """At most so many in one answer; by default 20."""
    characters: int | None = Field(default=None, ge=20, le=10_000)
    """At most so many in a summary or a comment; by default 100 and 1000."""
    seconds: float = Field(default=120.0, gt=0, le=3600)
    """How long one answer may take."""
    at_once: int = Field(default=4, ge=1, le=100)
    """Questions about one change at a time."""


class NotifySettings(_Section):
    """Who is told."""

    recipients: tuple[str, ...] = ()
    """Always: addresses, or URIs such as `slack:C024BE91L` and `https://example.org/hook`."""
    owners: bool = False
    """Those whom CODEOWNERS names for the files."""
    authors: bool = False
    """Those who wrote the commits."""
    people: dict[str, str] = Field(default_factory=dict)
    """How the names of CODEOWNERS are reached: "@ada" = "ada@example.org"."""
    forge: str = ""
    """The page of the repository that messages link to, where it does not follow from the remote `origin`:
    `https://git.example.org/team/shop`, or `gitea+https://...` to link to lines of files too."""

    @field_validator("forge")
    @classmethod
    def _is_a_page(cls, value: str) -> str:
        return check_forge(value)

    @property
    def is_on(self) -> bool:
        """Whether reviews are sent at all."""
        return bool(self.recipients) or self.owners or self.authors


class MailSettings(_Section):
    """How mail goes out: into a folder, unless a server is named."""

    folder: Path | None = None
    """A Maildir for each recipient is made here; by default `mail` in the state folder."""
    sender: str = "Reprieve <reprieve@localhost>"
    host: str | None = None
    port: int = Field(default=587, ge=1, le=65_535)
    security: Literal["starttls", "implicit", "none"] = "starttls"
    username: str | None = None
    password: SecretStr | None = None
    journal: str | None = None
    """The address of a mailbox that gets a copy of each message, and can be looked into over IMAP."""
    journal_host: str | None = None
    journal_port: int = Field(default=993, ge=1, le=65_535)
    journal_security: Literal["starttls", "implicit", "none"] = "implicit"
    journal_password: SecretStr | None = None
    journal_copy: bool = True
    """Whether we send the copy; not where the server itself puts one there."""
    journal_lag: float = Field(default=30.0, ge=0, le=86_400)
    """How many seconds a copy may take to show up: "not there" leads to another send."""


class SlackSettings(_Section):
    """A bot's token; without one nobody is reached by Slack."""

    token: SecretStr | None = None


class WebhookSettings(_Section):
    """The secret that webhooks are signed with; without one none is called."""

    secret: SecretStr | None = None


class GithubSettings(_Section):
    """Where pull requests are."""

    url: str = "https://api.github.com"
    token: SecretStr | None = None


class LimitSettings(_Section):
    """How much of a change is looked at."""

    diff_bytes: int = Field(default=2_000_000, ge=1000, le=10_000_000)
    file_bytes: int = Field(default=200_000, ge=1000, le=10_000_000)
    files: int = Field(default=1_000, ge=1, le=10_000)


class Settings(BaseSettings):
    """All of it."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    database: str = ""
    """Where jobs are kept; by default `reviews.db` in the state folder; `postgresql://user@host/name` where one process is not enough."""
    repository: str = "."
    """Which repository is meant where none is named."""
    folder: Path | None = None
    """The state folder: mirrors of repositories and what else is kept; by default `.git/reprieve` of the repository, or
    `$XDG_STATE_HOME/reprieve` where the repository is a URL."""
    facts: bool = True
    """Whether the rules review."""
    critic: CriticSettings | None = None
    """Settings of the rules in place of those in the reprieve.toml of each base."""
    trusted: tuple[str, ...] = ()
    """Repositories that belong to other users of this machine and may be asked all the same."""
    parts: str | None = None
    """`module:function` that is given the parts of the pipeline and the settings, and returns the parts to use."""
    chaos: int | None = Field(default=None, ge=0)
    """A number for trouble on purpose, the same for the same number: for trying things, never for work."""
    model: ModelSettings = ModelSettings()
    notify: NotifySettings = NotifySettings()
    mail: MailSettings = MailSettings()
    slack: SlackSettings = SlackSettings()
    webhook: WebhookSettings = WebhookSettings()
    github: GithubSettings = GithubSettings()
    limits: LimitSettings = LimitSettings()

    @field_validator("model", mode="before")
    @classmethod
    def _model_by_name(cls, value: object) -> object:
        """`model = "openai:gpt-5-mini"` is short for a section with this name."""
        return {"name": value} if isinstance(value, str) else value

    @property
    def state(self) -> Path:
        """The state folder, as `load` settled it."""
        if self.folder is None:
            raise UsageError("the state folder is not settled: make settings with `load`")
        return self.folder

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is said at the call, then the environment, then the file."""
        _ = dotenv_settings, file_secret_settings
        file = TomlConfigSettingsSource(settings_cls)
        for section in OF_OTHER_PROGRAMS:
            file.init_kwargs.pop(section, None)
        if settings_cls.model_config.get("title") == _FOLDER:
            file.init_kwargs.pop("critic", None)  # read from the base of each change
            refused = sorted(NOT_FROM_FOLDER & set(file.init_kwargs))
            if refused:
                raise UsageError(
                    f"{FILE} in the current folder sets {', '.join(refused)}, and may be part of the change that is "
                    f"reviewed: name it with --settings {FILE}, or set {PREFIX}{refused[0].upper()}"
                )
        return init_settings, env_settings, file


def load(file: Path | None = None, **said: Any) -> Settings:  # noqa: ANN401 - whatever can be set
    """The settings; a file that is named has to be there, reprieve.toml in this folder need not."""
    path = Path(FILE) if file is None else file
    if file is not None and not file.is_file():
        raise UsageError(f"there is no settings file {str(file)!r}: `reprieve init` writes one")
    config = SettingsConfigDict(toml_file=path, title=_FOLDER if file is None else None)
    made = type("Settings", (Settings,), {"model_config": config, "__doc__": Settings.__doc__})
    _require_known(os.environ)
    try:
        found: Settings = made(**said)
    except ValidationError as error:
        raise UsageError(_told(error, path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    return _located(found)


def _located(settings: Settings) -> Settings:
    """The settings with the places that they leave open."""
    folder = settings.folder or state_folder(settings.repository)
    mail = settings.mail.model_copy(update={"folder": settings.mail.folder or folder / "mail"})
    database = settings.database or f"sqlite:///{folder / 'reviews.db'}"
    return settings.model_copy(update={"folder": folder, "database": database, "mail": mail})


def _require_known(names: Iterable[str]) -> None:
    """A variable that sets nothing is a slip."""
    known = list(Settings.model_fields)
    for name in names:
        first = name[len(PREFIX) :].partition("__")[0].lower()
        if name.upper().startswith(PREFIX) and first not in known:
            near = difflib.get_close_matches(first, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"{name} sets nothing: there is no setting {first!r}{hint}")


def _told(error: ValidationError, path: Path) -> str:
    """Where it is wrong and what would be right; the value itself may be a secret."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(each) for each in first["loc"])
    what = "there is no such setting" if first["type"] == "extra_forbidden" else first["msg"]
    variable = PREFIX + place.upper().replace(".", "__")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"setting {place}, in {path} or as {variable}: {what}{more}"
