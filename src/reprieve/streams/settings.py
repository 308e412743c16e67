"""The section `[streams]` of reprieve.toml: which Redis, which queues, which groups. Nothing has to be set.

    [streams]
    url = "redis://localhost:6379/0"
    queues = ["engineering:queue", "deploy:queue"]
    groups = ["workers"]

REPRIEVE_STREAMS_URL, REPRIEVE_STREAMS_QUEUES and REPRIEVE_STREAMS_GROUPS (names separated by commas) go
before the file.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from reprieve.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = "reprieve.toml"
SECTION: Final = "streams"
PREFIX: Final = "REPRIEVE_STREAMS_"


class StreamSettings(BaseModel):
    """Settings of the commands for streams."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: SecretStr | None = None
    """The Redis: redis://host:6379/0, rediss://, unix:///path or redis+sentinel://. It may hold a password."""
    queues: list[str] = []
    """The queues that commands look at where none is named."""
    groups: list[str] = []
    """The groups that `status`, `pause` and `resume` are about; all that a queue has by default."""


def load_stream_settings(file: Path | None = None, environment: Mapping[str, str] | None = None) -> StreamSettings:
    """Read the settings; a file that is named has to exist, reprieve.toml in this folder does not."""
    path = Path(FILE) if file is None else file
    if file is not None and not file.is_file():
        raise UsageError(f"there is no settings file {str(file)!r}")
    found: dict[str, object] = dict(_section(path)) if path.is_file() else {}
    variables = os.environ if environment is None else environment
    if url := variables.get(f"{PREFIX}URL"):
        found["url"] = url
    for name in ("queues", "groups"):
        if (text := variables.get(f"{PREFIX}{name.upper()}")) is not None:
            found[name] = [each.strip() for each in text.split(",") if each.strip()]
    try:
        if isinstance(found.get("url"), str):
            found["url"] = SecretStr(str(found["url"]))
        return StreamSettings.model_validate(found)
    except ValidationError as error:
        raise UsageError(_describe(error, path)) from None


def _section(path: Path) -> Mapping[str, object]:
    try:
        section = tomllib.loads(path.read_text(encoding="utf-8")).get(SECTION, {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if not isinstance(section, dict):
        raise UsageError(f'{path}: streams is a section: write [streams], then url = "redis://..."')
    return section


def _describe(error: ValidationError, path: Path) -> str:
    """Say where a setting is wrong; its value may hold a secret."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        what = f"there is no such setting{did_you_mean(name, StreamSettings.model_fields)}"
    else:
        what = first["msg"]
    return f"setting {SECTION}.{name}, in {path} or as {PREFIX}{name.upper()}: {what}"
