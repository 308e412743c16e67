"""What a worker sees of the supervisor's environment: nothing that belongs to Reprieve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PREFIX: Final = "REPRIEVE_"
"""All settings of Reprieve: database and Redis URLs, credentials of sinks, SMTP and forges."""
_OF_CLIENTS: Final = frozenset({"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "REDISCLI_AUTH"})
"""What the database's and Redis's own clients read beside a URL."""
_SHORTEST_SECRET: Final = 8
"""Shorter values of ours (a port, a flag) are found in variables that have nothing to do with them."""


def build_worker_environment(
    environment: Mapping[str, str],
    names: Sequence[str] | None = None,
    *,
    own_values: Iterable[str] = (),
    in_container: bool = False,
) -> dict[str, str]:
    """Return the part of an environment that a worker gets.

    All of it without what belongs to Reprieve, or of that only `names`. A container gets nothing that is not named.
    `own_values` are URLs and secrets in use: a variable that has one of these values, or the password of one of these
    URLs, belongs to Reprieve under any name.
    """
    if names is not None:
        require_foreign_names(names)
    owned = {value for name, value in environment.items() if _is_own_name(name)} | set(own_values)
    owned |= {password for value in owned for password in _passwords_in(value)}
    owned = {value for value in owned if len(value) >= _SHORTEST_SECRET}
    wanted = names if names is not None else () if in_container else environment
    return {
        name: environment[name]
        for name in wanted
        if name in environment and not _is_own_name(name) and environment[name] not in owned
    }


def _passwords_in(value: str) -> list[str]:
    try:
        password = urlsplit(value).password if "://" in value else None
    except ValueError:  # not a URL after all
        return []
    return [] if password is None else [password, unquote(password)]


def require_foreign_names(names: Sequence[str]) -> None:
    """Refuse names that belong to Reprieve, and what is no name."""
    for name in names:
        if _is_own_name(name):
            raise UsageError(f"{name} belongs to Reprieve and is never handed to a worker: give it another name")
        if not name or "=" in name or "\0" in name:
            raise UsageError(f"env takes names of variables, as in env=['PATH'], not {name!r}")


def _is_own_name(name: str) -> bool:
    return name.startswith(_PREFIX) or name in _OF_CLIENTS
