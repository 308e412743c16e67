"""Exceptions that carry a credential or a person's data where libraries really put them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import psycopg
import redis
import sqlalchemy
import sqlalchemy.exc
import yaml
from pydantic import BaseModel

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    secret,
    stop,
)
from audited.cloud_aws import KEY, KEY_ID
from audited.http_clients import by_aiohttp, by_httpx, by_httpx2, by_requests, by_urllib3
from audited.mail import by_aiosmtplib, by_smtplib, letter
from audited.models_anthropic import KEY as ANTHROPIC
from audited.models_google import KEY as GOOGLE
from audited.models_openai import KEY as OPENAI
from audited.services import SENDGRID, SLACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

WORD: Final = secret("Tr0ub4dor", "&3-", "staple")
TOKEN: Final = secret("glp", "at-", "Zx9Yw8Vu7Ts6Rq5Po4Nm")
MAIL: Final = secret("grace.hopper", "@", "navy.example.com")
CARD: Final = secret("4111 1111", " 1111 1111")
EITHER: Final = CONFIGURATION | VALIDATION
BASIC: Final = base64.b64encode(f"ci:{WORD}".encode()).decode()


class Login(BaseModel):
    """What a form sends."""

    user: int
    password: int


def keep(value: str) -> dict[str, Any]:
    """Say that this must not come back."""
    return {"secrets": (value,)}


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _addresses()
    yield from _databases()
    yield from _data()
    yield from _people()
    yield from _words()


def _addresses() -> Iterator[Case]:
    for name, call in (("httpx", by_httpx), ("httpx2", by_httpx2), ("requests", by_requests), ("aiohttp", by_aiohttp)):
        yield stop(
            name, f"{name} key in the query", lambda lab, call=call: call(f"{lab.http.url(404)}?key={GOOGLE}&page=2"), NOT_FOUND,
            "CRIT-4.4", **keep(GOOGLE),
        )  # fmt: skip
        yield stop(
            name, f"{name} password in the address",
            lambda lab, call=call: call(lab.http.url(403).replace("://", f"://ci:{TOKEN}@")), AUTH, "CRIT-4.4", **keep(TOKEN),
        )  # fmt: skip
    yield retry(
        "requests", "requests refused, key in the query", lambda lab: by_requests(f"{lab.refused}?api_key={TOKEN}"), NETWORK,
        "CRIT-4.4", **keep(TOKEN),
    )  # fmt: skip
    yield retry(
        "urllib3", "urllib3 refused, key in the path", lambda lab: by_urllib3(f"{lab.refused}bot{SLACK}/send", retries=1), NETWORK,
        "CRIT-4.4", **keep(SLACK),
    )  # fmt: skip
    yield stop(
        "requests",
        "requests without a scheme, with a password",
        lambda _: by_requests(f"ci:{TOKEN}@host/x"),
        EITHER,
        "CRIT-4.4",
        **keep(TOKEN),
    )


def _insert(_: Lab) -> object:
    engine = sqlalchemy.create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE account (name TEXT UNIQUE, password TEXT)")
            statement = sqlalchemy.text("INSERT INTO account VALUES (:name, :password)")
            connection.execute(statement, {"name": MAIL, "password": WORD})
            connection.execute(statement, {"name": MAIL, "password": WORD})
    finally:
        engine.dispose()
    return None


def _detail(lab: Lab) -> object:
    with psycopg.connect(lab.postgres) as connection:
        connection.execute("CREATE TEMP TABLE account (mail text PRIMARY KEY)")
        for _ in range(2):
            connection.execute("INSERT INTO account VALUES (%s)", (MAIL,))
    return None


def _literal(lab: Lab) -> object:
    with psycopg.connect(lab.postgres) as connection:
        return connection.execute(f"ALTER ROLE nobody_here PASSWORD '{WORD}' SUPERB")


def _databases() -> Iterator[Case]:
    yield retry(
        "sqlalchemy", "SQLAlchemy parameters hold a password", _insert, CONFLICT, "CRIT-4.4", secrets=(WORD, MAIL)
    )
    yield retry("psycopg", "psycopg detail holds an address", _detail, CONFLICT, "CRIT-4.4", **keep(MAIL))
    yield stop("psycopg", "psycopg statement holds a password", _literal, EITHER, "CRIT-4.4", **keep(WORD))
    yield stop(
        "sqlalchemy", "SQLAlchemy address holds a password", lambda _: sqlalchemy.create_engine(f"oracular://ci:{TOKEN}@h/d"),
        CONFIGURATION, "CRIT-4.4", **keep(TOKEN),
    )  # fmt: skip
    yield stop(
        "psycopg",
        "psycopg DSN that cannot be read",
        lambda _: psycopg.connect(f"password={TOKEN} nonsense"),
        EITHER,
        "CRIT-4.4",
        **keep(TOKEN),
    )
    yield stop(
        "redis",
        "redis address holds a password",
        lambda _: redis.Redis.from_url(f"http://:{TOKEN}@h/0"),
        EITHER,
        "CRIT-4.4",
        **keep(TOKEN),
    )


def _data() -> Iterator[Case]:
    yield stop(
        "pydantic",
        "pydantic quotes the input",
        lambda _: Login(user=1, password=TOKEN),
        VALIDATION,
        "CRIT-4.4",
        **keep(TOKEN),
    )
    yield stop(
        "jsonschema",
        "jsonschema quotes the input",
        lambda _: jsonschema.validate({"token": TOKEN}, {"properties": {"token": {"type": "number"}}}),
        VALIDATION,
        "CRIT-4.4",
        **keep(TOKEN),
    )
    yield stop(
        "yaml",
        "yaml quotes the line",
        lambda _: yaml.safe_load(f"api_key: '{TOKEN}"),
        VALIDATION,
        "CRIT-4.4",
        **keep(TOKEN),
    )
    yield stop("stdlib", "int() quotes the input", lambda _: int(TOKEN), EITHER, "CRIT-4.4", **keep(TOKEN))
    yield stop(
        "stdlib",
        "JSON whose document holds a key",
        lambda _: json.loads('{"key": "' + OPENAI),
        VALIDATION,
        "CRIT-4.4",
        **keep(OPENAI),
    )
    yield stop(
        "stdlib",
        "UnicodeDecodeError over a key",
        lambda _: (OPENAI.encode() + b"\xff").decode(),
        EITHER,
        "CRIT-4.4",
        **keep(OPENAI),
    )
    yield stop("stdlib", "an assertion that shows headers", _assert_headers, CONFIGURATION, "CRIT-4.4", **keep(TOKEN))
    yield stop(
        "stdlib",
        "TypeError over a credential tuple",
        lambda _: TypeError(f"cannot use ('{KEY_ID}', '{KEY}')"),
        CONFIGURATION,
        "CRIT-4.4",
        secrets=(KEY_ID, KEY),
    )


def _assert_headers(_: Lab) -> object:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert not headers, headers


def _program(*arguments: str) -> object:
    return subprocess.run([sys.executable, "-S", "-c", "raise SystemExit(3)", *arguments], check=True)


def _people() -> Iterator[Case]:
    nobody = NOT_FOUND | VALIDATION
    who = secret("unknown.hopper", "@", "navy.example.com")
    for name, send in (("smtplib", by_smtplib), ("aiosmtplib", by_aiosmtplib)):
        yield stop(
            name,
            f"{name} refused a person",
            lambda lab, send=send: send(lab, letter(to=who)),
            nobody,
            "raw PII: CRIT-4.4",
            **keep(who),
        )
    yield stop(
        "stdlib",
        "a card number in the words",
        lambda _: ValueError(f"card {CARD} was declined"),
        EITHER,
        "raw PII: CRIT-4.4",
        **keep(CARD),
    )
    yield stop(
        "stdlib", "a mail address in the words", lambda _: KeyError(MAIL), EITHER, "raw PII: CRIT-4.4", **keep(MAIL)
    )


def _words() -> Iterator[Case]:
    anyhow = UNKNOWN | UPSTREAM | CONFIGURATION
    yield retry(
        "subprocess",
        "a token on the command line",
        lambda _: _program("git", "clone", f"https://ci:{TOKEN}@git.example/x"),
        anyhow,
        "CRIT-4.4",
        arguable=True,
        **keep(TOKEN),
    )
    yield retry(
        "subprocess",
        "a password flag on the command line",
        lambda _: _program("--password", WORD),
        anyhow,
        "CRIT-4.4",
        arguable=True,
        **keep(WORD),
    )
    yield retry(
        "subprocess",
        "a basic credential on the command line",
        lambda _: _program("curl", "-H", f"Authorization: Basic {BASIC}"),
        anyhow,
        "CRIT-4.4",
        arguable=True,
        **keep(BASIC),
    )
    for name, key in (
        ("openai", OPENAI),
        ("anthropic", ANTHROPIC),
        ("google", GOOGLE),
        ("sendgrid", SENDGRID),
        ("slack", SLACK),
        ("gitlab", TOKEN),
        ("aws", KEY_ID),
    ):
        yield retry(
            "chain",
            f"{name}'s key, then a full stop",
            lambda _, key=key: RuntimeError(f"the upstream did not like {key}."),
            UNKNOWN,
            "CRIT-4.4",
            **keep(key),
        )
    yield from _longer_words()


def _longer_words() -> Iterator[Case]:
    yield retry(
        "chain",
        "doubly escaped JSON",
        lambda _: RuntimeError(json.dumps(json.dumps({"password": WORD}))),
        UNKNOWN,
        "CRIT-4.4",
        **keep(WORD),
    )
    yield retry(
        "chain",
        "a connection string",
        lambda _: ConnectionError(f"lost postgresql://app:{WORD}@db.example/app"),
        NETWORK,
        "CRIT-4.4",
        **keep(WORD),
    )
    yield retry(
        "chain",
        "a key cut by the length",
        lambda _: RuntimeError("x " * 480 + f"Authorization: Bearer {TOKEN} and more"),
        UNKNOWN,
        "sanitized before it is cut",
        secrets=(TOKEN, TOKEN[:14]),
    )
    yield retry(
        "chain", "a private key", lambda _: RuntimeError(_pem()), UNKNOWN, "CRIT-4.4", **keep("MIIEvQIBADANBgkqh")
    )
    yield retry(
        "sqlalchemy",
        "a statement's own words",
        lambda _: sqlalchemy.exc.OperationalError("SELECT 1", {"token": TOKEN}, TimeoutError("slow")),
        AWAY | UNKNOWN,
        "CRIT-4.4",
        **keep(TOKEN),
    )


def _pem() -> str:
    kind = "PRIVATE" + " KEY"
    return f"cannot load -----BEGIN {kind}-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASCBKcwggSj\n-----END {kind}----- here"
