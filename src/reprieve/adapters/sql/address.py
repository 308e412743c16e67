"""Where a database is, read from a URL as users write it; what is shown of it holds no password."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from reprieve.errors import StoreAddressError, StoreError, StoreUnavailableError

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_POSTGRES: Final = frozenset({"postgresql", "postgres", "postgresql+psycopg"})
_WRONG: Final = re.compile(
    r'(?:database|role) ".*" (?:does not exist|is not permitted to log in)|authentication failed|no password supplied'
    r"|no pg_hba\.conf entry|permission denied for database"
    r"|(?:failed to resolve host|could not translate host name)(?!.*(?:Temporary failure|Errno -3))"
)
"""What libpq says where the URL is wrong: it keeps the SQLSTATE of a connection that was refused to itself."""
_HOW: Final = "write sqlite:///file.db, sqlite:////absolute/file.db or postgresql://user@host/database"


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A file, or nothing but memory."""

    path: str | None

    @property
    def shown(self) -> str:
        """For messages."""
        return "the SQLite database in memory" if self.path is None else f"the SQLite file {self.path!r}"


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A server, as libpq takes it."""

    url: str
    shown: str
    """For messages."""
    password: str | None = None

    def __repr__(self) -> str:
        """Keep the password out of tracebacks too."""
        return f"PostgresAddress({self.shown})"

    def clean(self, text: str) -> str:
        """A driver's message in one line and without the password."""
        line = " ".join(text.split())
        return line.replace(self.password, "***") if self.password else line

    def unreachable(self, text: str) -> StoreUnavailableError:
        """What a driver's message about a connection that could not be made, or broke, means to a caller."""
        line = self.clean(text)
        kind = StoreAddressError if _WRONG.search(line) else StoreUnavailableError
        return kind(f"{self.shown} cannot be reached: {line}")


Address = SqliteAddress | PostgresAddress


def parse(url: str) -> Address:
    """Read a URL; what cannot be read is refused without repeating it."""
    found = _SCHEME.match(url)
    if found is None:
        raise StoreError(f"this is not the URL of a database: {_HOW}")
    scheme, rest = found[1].lower(), url[found.end() :]
    if scheme in _POSTGRES:
        return _postgres(f"postgresql://{rest}")
    if scheme == "sqlite":
        return _sqlite(rest)
    raise StoreError(f"{scheme}:// is not a database that Reprieve can use: {_HOW}")


def _sqlite(rest: str) -> SqliteAddress:
    if rest in {"", "/", "/:memory:"}:
        return SqliteAddress(None)
    if not rest.startswith("/"):
        raise StoreError("the path of a SQLite file begins after a third slash: write sqlite:///file.db")
    if "\0" in rest:
        raise StoreError("a file's name cannot hold a NUL character")
    if "?" in rest:
        raise StoreError("a SQLite URL takes no options after a '?'")
    return SqliteAddress(rest[1:])


def _postgres(url: str) -> PostgresAddress:
    try:
        from psycopg import ProgrammingError  # noqa: PLC0415 - an extra; SQLite does without
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - the same
    except ImportError:
        raise StoreError("PostgreSQL needs the driver psycopg: pip install 'reprieve[postgres]'") from None
    unreadable = (
        "the PostgreSQL URL cannot be read; in user names and passwords write @ : / ? # % as %40 %3A %2F %3F %23 %25"
    )
    read: dict[str, Any] | None = None
    with suppress(ProgrammingError):  # libpq quotes what it could not read: it may be the password
        read = conninfo_to_dict(url)
    if read is None:
        raise StoreError(unreadable)
    values = {key: str(value) for key, value in read.items() if value is not None}
    host, port, database = values.get("host", ""), values.get("port", ""), values.get("dbname", "")
    # A password that was not escaped ends up in these, and from there in the driver's messages.
    if not re.fullmatch(r"[0-9,]*", port) or "@" in host or "@" in database:
        raise StoreError(unreadable)
    user = f"{quote(values['user'])}@" if "user" in values else ""
    place = f"{host}:{port}" if port else host
    shown = f"postgresql://{user}{place}/{database}"
    return PostgresAddress(url, shown, values.get("password"))
