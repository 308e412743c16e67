"""A real PostgreSQL's SQLSTATEs through psycopg, asyncpg and SQLAlchemy, and the ways a connection dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    POLICY,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    secret,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from audited.lab import Lab

PASSWORD: Final = secret("correct", "-horse-", "battery", "9Zq")
LOCKED: Final = UPSTREAM | CONFLICT | NETWORK
CODE: Final = CONFIGURATION | VALIDATION

SQLSTATES: Final[dict[str, tuple[bool, Any, str]]] = {
    "08000": (True, NETWORK, "notes: 08* retry"),
    "08003": (True, NETWORK, "notes: 08* retry"),
    "08006": (True, NETWORK, "notes: 08* retry"),
    "22001": (False, VALIDATION, "notes: 22* permanent"),
    "22007": (False, VALIDATION, "notes: 22* permanent"),
    "22P02": (False, VALIDATION, "notes: 22* permanent"),
    "22012": (False, CODE, "notes: 22* permanent"),
    "22021": (False, VALIDATION, "a NUL that PostgreSQL refuses"),
    "23502": (False, VALIDATION, "notes: other 23* permanent"),
    "23503": (False, VALIDATION, "notes: other 23* permanent"),
    "23514": (False, VALIDATION, "notes: other 23* permanent"),
    "23P01": (False, VALIDATION | CONFLICT, "notes: other 23* permanent"),
    "23505": (True, CONFLICT, "decision 4"),
    "25006": (True, AWAY, "notes: a failover, retry"),
    "28000": (False, AUTH, "notes: 28* auth"),
    "28P01": (False, AUTH, "notes: 28* auth"),
    "3D000": (False, CONFIGURATION | NOT_FOUND | VALIDATION, "a database that is not there"),
    "40001": (True, CONFLICT, "notes: the whole transaction again"),
    "40P01": (True, CONFLICT, "notes: the whole transaction again"),
    "42501": (False, AUTH, "permission denied: CRIT-1.6"),
    "42601": (False, CODE, "notes: 42* permanent"),
    "42703": (False, CODE, "notes: 42* permanent"),
    "42P01": (False, CODE | NOT_FOUND, "notes: 42* permanent"),
    "42883": (False, CODE, "notes: 42* permanent"),
    "53100": (True, AWAY, "notes: 53* retry"),
    "53200": (True, AWAY, "notes: 53* retry"),
    "53300": (True, AWAY, "notes: 53* retry"),
    "55P03": (True, LOCKED, "notes: 55P03 retry"),
    "57P01": (True, AWAY, "notes: 57P01 to 57P03 retry"),
    "57P02": (True, AWAY, "notes: 57P01 to 57P03 retry"),
    "57P03": (True, AWAY, "notes: 57P01 to 57P03 retry"),
    "XX001": (False, CONFIGURATION, "corrupted: no retry will mend it"),
}
OPEN: Final[dict[str, tuple[bool, Any, str]]] = {
    "08P01": (True, NETWORK, "08* by the letter, yet a broken protocol stays broken"),
    "0A000": (False, CODE, "not supported here"),
    "25P02": (False, CONFIGURATION, "the first failure of the transaction is the real one"),
    "40003": (True, CONFLICT | AWAY, "the outcome is unknown"),
    "57014": (True, AWAY, "statement_timeout, or a person's cancel"),
    "P0001": (False, POLICY | VALIDATION | CONFIGURATION, "a rule of the database's own"),
    "XX000": (True, UPSTREAM | CONFIGURATION, "internal error"),
}


def raising(code: str) -> str:
    """A statement that fails with this SQLSTATE."""
    return f"DO $$ BEGIN RAISE EXCEPTION 'as asked' USING ERRCODE = '{code}'; END $$"


def by_psycopg(lab: Lab, *statements: str) -> object:
    """Run these by psycopg."""
    with psycopg.connect(lab.postgres) as connection:
        for statement in statements:
            connection.execute(statement)
    return None


async def by_asyncpg(lab: Lab, *statements: str) -> object:
    """Run these by asyncpg."""
    connection = await asyncpg.connect(lab.postgres)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def by_sqlalchemy(lab: Lab, *statements: str) -> object:
    """Run these by SQLAlchemy over psycopg."""
    url = lab.postgres.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    return None


async def by_sqlalchemy_async(lab: Lab, *statements: str) -> object:
    """Run these by SQLAlchemy over asyncpg."""
    url = lab.postgres.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement)
    finally:
        await engine.dispose()


DRIVERS: Final[dict[str, tuple[str, Callable[..., object]]]] = {
    "psycopg": ("psycopg", by_psycopg),
    "asyncpg": ("asyncpg", by_asyncpg),
    "SQLAlchemy psycopg": ("sqlalchemy", by_sqlalchemy),
    "SQLAlchemy asyncpg": ("sqlalchemy", by_sqlalchemy_async),
}


def cases() -> Iterator[Case]:
    """All of them."""
    for name, (library, run) in DRIVERS.items():
        for code, (retryable, categories, reason) in SQLSTATES.items():
            yield Case(
                label=f"{name} {code}",
                library=library,
                provoke=lambda lab, run=run, code=code: run(lab, raising(code)),
                retryable=retryable,
                categories=categories,
                reason=reason,
            )
        yield from _natural(name, library, run)
        yield from _dead(name, library)
    for code, (retryable, categories, reason) in OPEN.items():
        yield Case(
            label=f"psycopg {code}",
            library="psycopg",
            provoke=lambda lab, code=code: by_psycopg(lab, raising(code)),
            retryable=retryable,
            categories=categories,
            reason=reason,
            arguable=True,
        )
    yield from _misuse()


def _natural(name: str, library: str, run: Callable[..., object]) -> Iterator[Case]:
    table = "CREATE TEMP TABLE t (id int PRIMARY KEY, name text NOT NULL CHECK (name <> ''))"
    rows = (
        (
            "really unique",
            (table, "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'b')"),
            True,
            CONFLICT,
            {},
        ),
        ("really not null", (table, "INSERT INTO t VALUES (1, NULL)"), False, VALIDATION, {}),
        ("really checked", (table, "INSERT INTO t VALUES (1, '')"), False, VALIDATION, {}),
        ("really divided by zero", ("SELECT 1/0",), False, CODE, {}),
        ("really no table", ("SELECT * FROM nowhere",), False, CODE | NOT_FOUND, {}),
        ("really no syntax", ("SELEKT 1",), False, CODE, {}),
        ("really bad number", ("SELECT 'x'::int",), False, VALIDATION, {}),
        ("really read-only", ("SET transaction_read_only = on; CREATE TABLE no (id int)",), True, AWAY, {}),
        ("really timed out", ("SET statement_timeout = 20; SELECT pg_sleep(5)",), True, AWAY, {"arguable": True}),
        ("really terminated", ("SELECT pg_terminate_backend(pg_backend_pid())",), True, AWAY, {}),
    )
    for label, statements, retryable, categories, more in rows:
        # asyncpg alone runs each call in a transaction of its own
        parts = statements if name == "asyncpg" else tuple("; ".join(statements).split("; "))
        yield Case(
            label=f"{name} {label}",
            library=library,
            provoke=lambda lab, run=run, parts=parts: run(lab, *parts),
            retryable=retryable,
            categories=categories,
            reason="as its SQLSTATE",
            **more,
        )


def connect(name: str, dsn: str) -> object:
    """Open a connection by this driver and nothing else."""
    match name:
        case "psycopg":
            return psycopg.connect(dsn, connect_timeout=2)
        case "asyncpg":
            return asyncpg.connect(dsn, timeout=0.3)
        case "SQLAlchemy psycopg":
            return sqlalchemy.create_engine(dsn.replace("://", "+psycopg://"), poolclass=NullPool).connect()
        case _:
            return _connect_async(dsn.replace("://", "+asyncpg://"))


async def _connect_async(url: str) -> object:
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.connect():
            return None
    finally:
        await engine.dispose()


def _dead(name: str, library: str) -> Iterator[Case]:
    yield retry(
        library,
        f"{name} refused",
        lambda lab: connect(name, f"postgresql://u:{PASSWORD}@127.0.0.1:{lab.closed_port}/d"),
        NETWORK,
        "notes: connect failures have no SQLSTATE",
        secrets=(PASSWORD,),
    )
    yield stop(
        library,
        f"{name} no such database",
        lambda lab: connect(name, lab.postgres.replace("/postgres?", "/nowhere?")),
        CONFIGURATION | NOT_FOUND | VALIDATION,
        "3D000 while connecting, which psycopg gives without a SQLSTATE",
        arguable=name != "asyncpg",
    )
    yield stop(
        library,
        f"{name} no such role",
        lambda lab: connect(name, lab.postgres.replace("://postgres", "://nobody")),
        AUTH,
        "28000 while connecting, which psycopg gives without a SQLSTATE",
        arguable=name != "asyncpg",
    )
    yield stop(
        library,
        f"{name} wrong password",
        lambda lab: connect(name, _locked_out(lab)),
        AUTH,
        "28P01 while connecting; ING-1.6 where only the words say so",
        secrets=(PASSWORD,),
    )


def _locked_out(lab: Lab) -> str:
    """The address of a role whose password is another one than we give."""
    if not hasattr(lab, "locked_out"):
        rules = lab.folder / "pg" / "pg_hba.conf"
        rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
        other = secret("the", "-right-", "one-1Xy")
        by_psycopg(lab, f"CREATE ROLE locked LOGIN PASSWORD '{other}'")
        by_psycopg(lab, "SELECT pg_reload_conf()")
        by_psycopg(lab, "SELECT pg_sleep(0.1)")
        lab.locked_out = lab.postgres.replace("://postgres:", f"://locked:{PASSWORD}")
    return str(lab.locked_out)


def _closed(lab: Lab) -> object:
    connection = psycopg.connect(lab.postgres)
    connection.close()
    return connection.execute("SELECT 1")


def _misuse() -> Iterator[Case]:
    yield retry(
        "asyncpg",
        "asyncpg connect timeout",
        lambda lab: asyncpg.connect(f"postgresql://u@127.0.0.1:{lab.silent_port}/d", timeout=0.05, ssl=False),
        NETWORK,
        "CRIT-1.1",
    )
    yield retry(
        "asyncpg",
        "asyncpg command timeout",
        _command_timeout,
        AWAY,
        "a timeout: CRIT-1.1",
    )
    yield retry(
        "psycopg",
        "psycopg connect timeout",
        lambda _: psycopg.errors.ConnectionTimeout("connection timeout expired"),  # it waits two seconds at least
        NETWORK,
        "CRIT-1.1",
    )
    yield stop(
        "psycopg", "psycopg unreadable DSN", lambda _: psycopg.connect("nonsense nonsense"), CODE, "a wrong address"
    )
    yield stop("psycopg", "psycopg wrong placeholders", _placeholders, CODE, "a bug: CRIT-1.9")
    yield stop("psycopg", "psycopg cannot adapt a type", _adapt, CODE, "a bug: CRIT-1.9")
    yield stop("psycopg", "psycopg NUL in a text", _nul, VALIDATION | CONFIGURATION, "data")
    yield retry(
        "psycopg",
        "psycopg use of a closed connection",
        _closed,
        NETWORK | CONFIGURATION,
        "ours or theirs",
        arguable=True,
    )
    yield stop("asyncpg", "asyncpg wrong argument type", _bad_argument, CODE, "data")
    yield stop("asyncpg", "asyncpg two queries at once", _two_at_once, CONFIGURATION, "illegal state: CRIT-1.9")


async def _command_timeout(lab: Lab) -> object:
    connection = await asyncpg.connect(lab.postgres)
    try:
        return await connection.execute("SELECT pg_sleep(5)", timeout=0.05)
    finally:
        await connection.close()


def _placeholders(lab: Lab) -> object:
    with psycopg.connect(lab.postgres) as connection:
        return connection.execute("SELECT %s, %s", (1,))


def _adapt(lab: Lab) -> object:
    with psycopg.connect(lab.postgres) as connection:
        return connection.execute("SELECT %s", (object(),))


def _nul(lab: Lab) -> object:
    with psycopg.connect(lab.postgres) as connection:
        return connection.execute("SELECT %s::text", ("a\x00b",))


async def _bad_argument(lab: Lab) -> object:
    connection = await asyncpg.connect(lab.postgres)
    try:
        return await connection.fetch("SELECT $1::int", "seven")
    finally:
        await connection.close()


async def _two_at_once(lab: Lab) -> object:
    import asyncio  # noqa: PLC0415 - beside its one use

    connection = await asyncpg.connect(lab.postgres)
    try:
        first = asyncio.ensure_future(connection.fetch("SELECT pg_sleep(0.1)"))
        await asyncio.sleep(0.02)
        try:
            return await connection.fetch("SELECT 1")
        finally:
            await first
    finally:
        await connection.close()
