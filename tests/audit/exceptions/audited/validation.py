"""Data that does not fit, tokens that do not verify, and web sockets that close."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Final

import jsonschema
import jwt
import pydantic
import websockets
import websockets.sync.client
import yaml
from cryptography import exceptions as crypto
from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import BaseModel, Field

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    POLICY,
    RATE_LIMIT,
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

EITHER: Final = CONFIGURATION | VALIDATION
KEY: Final = secret("an-audit-", "signing-key-", "of-32-bytes-or-more")


class Change(BaseModel):
    """A model with a few demands."""

    number: int = Field(gt=0)
    author: str


def _schema_error(instance: object, schema: dict[str, object]) -> Callable[[Lab], object]:
    return lambda _: jsonschema.validate(instance, schema)


def cases() -> Iterator[Case]:
    """All of them."""
    yield stop(
        "pydantic",
        "pydantic missing field",
        lambda _: Change(number=1),
        VALIDATION,
        "CRIT-1.5",
        error_class="SCHEMA_INVALID",
    )
    yield stop("pydantic", "pydantic wrong type", lambda _: Change(number="x", author=1), VALIDATION, "CRIT-1.5")
    yield stop("pydantic", "pydantic JSON", lambda _: Change.model_validate_json("{"), VALIDATION, "CRIT-1.5")
    yield stop(
        "pydantic",
        "pydantic that quotes a rate limit",
        lambda _: Change(number="429 rate limit timeout", author="a"),
        VALIDATION,
        "decision 1",
    )
    yield stop(
        "pydantic",
        "pydantic TypeAdapter",
        lambda _: pydantic.TypeAdapter(list[int]).validate_python("x"),
        VALIDATION,
        "CRIT-1.5",
    )
    yield stop(
        "pydantic",
        "pydantic PydanticUserError",
        lambda _: type("M", (BaseModel,), {"x": 1}),
        CONFIGURATION | VALIDATION,
        "a bug",
    )
    yield stop(
        "pydantic",
        "pydantic PydanticSchemaGenerationError",
        lambda _: pydantic.TypeAdapter(object.__new__),
        EITHER,
        "a bug",
    )
    yield from _documents()


def _documents() -> Iterator[Case]:
    yield stop(
        "jsonschema",
        "jsonschema required",
        _schema_error({}, {"required": ["a"]}),
        VALIDATION,
        "CRIT-1.5",
        error_class="SCHEMA_INVALID",
    )
    yield stop("jsonschema", "jsonschema type", _schema_error("timeout", {"type": "number"}), VALIDATION, "CRIT-1.5")
    yield stop("jsonschema", "jsonschema SchemaError", _schema_error(1, {"type": "nonsense"}), EITHER, "a wrong schema")
    yield stop(
        "jsonschema",
        "jsonschema unresolvable",
        _schema_error(1, {"$ref": "#/nowhere"}),
        EITHER | NOT_FOUND,
        "a wrong schema",
    )
    yield stop("yaml", "yaml ScannerError", lambda _: yaml.safe_load("a: 'b"), VALIDATION, "malformed: CRIT-1.5")
    yield stop("yaml", "yaml ParserError", lambda _: yaml.safe_load("[a"), VALIDATION, "malformed: CRIT-1.5")
    yield stop(
        "yaml",
        "yaml ConstructorError",
        lambda _: yaml.safe_load("!!python/object:os.system {}"),
        VALIDATION,
        "CRIT-1.5",
    )
    yield stop("yaml", "yaml ComposerError", lambda _: yaml.safe_load("*nobody"), VALIDATION, "CRIT-1.5")
    yield stop("yaml", "yaml RepresenterError", lambda _: yaml.safe_dump(object()), EITHER, "a bug")
    yield from _tokens()
    yield from _crypto()
    yield from _sockets()


def _token(**claims: object) -> str:
    return jwt.encode(claims, KEY, algorithm="HS256")


def _tokens() -> Iterator[Case]:
    past = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    rows: tuple[tuple[str, Callable[[], object]], ...] = (
        ("expired", lambda: jwt.decode(_token(exp=past), KEY, algorithms=["HS256"])),
        ("signature", lambda: jwt.decode(_token(a=1), KEY[::-1], algorithms=["HS256"])),
        ("audience", lambda: jwt.decode(_token(aud="x"), KEY, algorithms=["HS256"], audience="y")),
        ("issuer", lambda: jwt.decode(_token(iss="x"), KEY, algorithms=["HS256"], issuer="y")),
        ("algorithm", lambda: jwt.decode(_token(a=1), KEY, algorithms=["HS512"])),
    )
    for label, call in rows:
        yield stop("jwt", f"jwt {label}", lambda _, call=call: call(), AUTH | VALIDATION, "CRIT-1.6", secrets=(KEY,))
    yield stop(
        "jwt",
        "jwt malformed",
        lambda _: jwt.decode("not.a.token", KEY, algorithms=["HS256"]),
        AUTH | VALIDATION,
        "CRIT-1.5",
    )
    yield stop(
        "jwt",
        "jwt missing claim",
        lambda _: jwt.decode(_token(a=1), KEY, algorithms=["HS256"], options={"require": ["exp"]}),
        AUTH | VALIDATION,
        "CRIT-1.5",
    )
    yield retry(
        "jwt", "jwt JWKS cannot be fetched", lambda lab: jwt.PyJWKClient(lab.refused).get_jwk_set(), NETWORK, "CRIT-1.1"
    )
    yield retry(
        "jwt", "jwt JWKS answers 503", lambda lab: jwt.PyJWKClient(lab.http.url(503)).get_jwk_set(), AWAY, "CRIT-1.1"
    )


def _crypto() -> Iterator[Case]:
    bad = AUTH | VALIDATION | CONFIGURATION
    yield stop(
        "cryptography",
        "Fernet InvalidToken",
        lambda _: Fernet(Fernet.generate_key()).decrypt(b"nonsense"),
        bad,
        "it stays invalid",
    )
    yield stop(
        "cryptography",
        "AESGCM InvalidTag",
        lambda _: AESGCM(b"0" * 16).decrypt(b"1" * 12, b"x" * 32, None),
        bad,
        "it stays invalid",
    )
    yield stop(
        "cryptography", "a broken certificate", lambda _: x509.load_pem_x509_certificate(b"no pem"), bad, "a ValueError"
    )
    yield stop(
        "cryptography", "a broken private key", lambda _: load_pem_private_key(b"no pem", None), bad, "a ValueError"
    )
    yield stop("cryptography", "InvalidSignature", lambda _: crypto.InvalidSignature(), bad, "it stays invalid")
    yield stop(
        "cryptography",
        "UnsupportedAlgorithm",
        lambda _: crypto.UnsupportedAlgorithm("no such cipher"),
        bad,
        "a wrong deployment",
    )


async def _closing(lab: Lab, code: int, reason: str = "") -> object:
    async def handler(connection: websockets.ServerConnection) -> None:
        await connection.close(code, reason)

    async with websockets.serve(handler, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with websockets.connect(f"ws://127.0.0.1:{port}", proxy=None) as connection:
            await asyncio.sleep(0.01)
            return await connection.recv()


async def _dropped(lab: Lab) -> object:
    async def handler(connection: websockets.ServerConnection) -> None:
        connection.transport.abort()

    async with websockets.serve(handler, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with websockets.connect(f"ws://127.0.0.1:{port}", proxy=None) as connection:
            return await connection.recv()


async def _shake(url: str, **options: object) -> object:
    async with websockets.connect(url, proxy=None, **options):
        return None


def _sockets() -> Iterator[Case]:
    rows = (
        (1001, True, AWAY, "going away"),
        (1011, True, UPSTREAM | NETWORK, "an internal error"),
        (1012, True, AWAY, "a restart"),
        (1013, True, AWAY | RATE_LIMIT, "try again later"),
        (1007, False, VALIDATION, "invalid data"),
        (1009, False, VALIDATION, "too large"),
        (1008, False, POLICY | AUTH | VALIDATION, "a policy"),
        (1002, False, VALIDATION | CONFIGURATION | NETWORK, "a protocol error"),
    )
    for code, retryable, categories, reason in rows:
        make = retry if retryable else stop
        yield make(
            "websockets", f"websockets closed with {code}", lambda lab, code=code: _closing(lab, code), categories, reason,
            arguable=code == 1002,
        )  # fmt: skip
    yield retry(
        "websockets",
        "websockets closed with 1000",
        lambda lab: _closing(lab, 1000),
        AWAY,
        "closed in peace",
        arguable=True,
    )
    yield retry("websockets", "websockets dropped", _dropped, NETWORK, "CRIT-1.1")
    statuses = (
        (401, False, AUTH),
        (403, False, AUTH),
        (404, False, NOT_FOUND),
        (429, True, RATE_LIMIT),
        (503, True, AWAY),
        (500, True, UPSTREAM),
    )
    for status, retryable, categories in statuses:
        make = retry if retryable else stop
        yield make(
            "websockets", f"websockets handshake answered {status}",
            lambda lab, status=status: _shake(
                lab.http.url(status, {"Retry-After": "6"} if status in {429, 503} else {}).replace("http", "ws", 1)
            ),
            categories, "as the status", retry_after=6.0 if status in {429, 503} else None,
        )  # fmt: skip
    yield retry(
        "websockets", "websockets refused", lambda lab: _shake(lab.refused.replace("http", "ws")), NETWORK, "CRIT-1.1"
    )
    yield retry(
        "websockets", "websockets handshake timeout",
        lambda lab: _shake(lab.http.broken("silent").replace("http", "ws", 1), open_timeout=0.05), NETWORK, "CRIT-1.1",
    )  # fmt: skip
    yield stop(
        "websockets", "websockets wrong address", lambda _: _shake("http://127.0.0.1/"), EITHER, "a wrong address"
    )
    yield stop(
        "websockets", "websockets untrusted certificate", lambda lab: _shake(lab.untrusted.replace("https", "wss")), CONFIGURATION,
        "notes: permanent",
    )  # fmt: skip
    yield stop("websockets", "websockets double use", _two_readers, CONFIGURATION | CONFLICT, "illegal state: CRIT-1.9")


async def _two_readers(lab: Lab) -> object:
    async def handler(connection: websockets.ServerConnection) -> None:
        await connection.wait_closed()

    async with websockets.serve(handler, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with websockets.connect(f"ws://127.0.0.1:{port}", proxy=None) as connection:
            first = asyncio.ensure_future(connection.recv())
            await asyncio.sleep(0.01)
            try:
                return await connection.recv()
            finally:
                first.cancel()
