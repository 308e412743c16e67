"""Bugs, bad data and what the standard library makes of both."""

from __future__ import annotations

import ast
import asyncio
import base64
import concurrent.futures
import configparser
import copy
import csv
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import gzip
import importlib
import io
import ipaddress
import json
import lzma
import pickle
import plistlib
import re
import statistics
import string
import struct
import tarfile
import tomllib
import urllib.parse
import uuid
import xml.etree.ElementTree as ET
import zipfile
import zlib
import zoneinfo
from typing import TYPE_CHECKING, Any, Final

from audited.case import (
    AUTH,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    RATE_LIMIT,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUG: Final = CONFIGURATION
EITHER: Final = CONFIGURATION | VALIDATION


class Color(enum.Enum):
    """One of few."""

    RED = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Not to be changed."""

    x: int = 1


def _strip_nothing() -> object:
    nothing: Any = None
    return nothing.strip()


def _call_a_number() -> object:
    number: Any = 7
    return number()


def _recurse(n: int = 0) -> int:
    return _recurse(n + 1)


def _unbound() -> object:
    if not __name__:
        value = 1
    return value


def _assert() -> None:
    state = "closed"
    assert state == "open", "illegal state"


def _loop() -> object:
    async def inner() -> None:
        return None

    async def outer() -> None:
        coroutine = inner()
        try:
            asyncio.run(coroutine)
        finally:
            coroutine.close()

    return asyncio.run(outer())


def _raise(exc: BaseException) -> object:
    raise exc


def _read_closed() -> object:
    stream = io.StringIO()
    stream.close()
    return stream.read()


def _next() -> object:
    return next(iter(()))


def _mutated() -> object:
    table = {1: 1}
    for key in table:
        table[key + 1] = 1
    return table


def _set_twice() -> object:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.set_result(1)
    return future.set_result(2)


def _decimal() -> object:
    with decimal.localcontext() as context:
        context.traps[decimal.Inexact] = True
        return decimal.Decimal(1) / decimal.Decimal(3)


BUGS: Final[dict[str, Callable[[], object]]] = {
    "AttributeError on None": _strip_nothing,
    "AttributeError on a module": lambda: json.lods("{}"),
    "TypeError, not callable": _call_a_number,
    "TypeError, wrong arity": lambda: len(1, 2),
    "TypeError, str + int": lambda: "a" + 1,
    "KeyError": lambda: {"a": 1}["missing"],
    "IndexError": lambda: list("ab")[3],
    "NameError": lambda: undefined_name,  # noqa: F821 - that is the case
    "UnboundLocalError": _unbound,
    "ZeroDivisionError": lambda: 1 / 0,
    "AssertionError": _assert,
    "RecursionError": _recurse,
    "NotImplementedError": lambda: _raise(NotImplementedError("later")),
    "ImportError": lambda: exec("from json import nothing_of_the_kind"),
    "ModuleNotFoundError": lambda: importlib.import_module("no_such_module_at_all"),
    "SyntaxError": lambda: compile("def (", "settings.py", "exec"),
    "IndentationError": lambda: compile("if 1:\nx", "settings.py", "exec"),
    "MemoryError": lambda: _raise(MemoryError()),
    "OverflowError": lambda: 10.0**400,
    "StopIteration": _next,
    "BufferError": lambda: _raise(BufferError("existing exports of data")),
    "FrozenInstanceError": lambda: setattr(Frozen(), "x", 2),
    "FloatingPointError": lambda: _raise(FloatingPointError("underflow")),
    "string.Template without a value": lambda: string.Template("$a").substitute(),
    "format without a value": lambda: "{a}".format_map({}),
    "ReferenceError": lambda: _raise(ReferenceError("weakly-referenced object no longer exists")),
}
BAD_DATA: Final[dict[str, Callable[[], object]]] = {
    "UnicodeDecodeError": b"\xff\xfe\xfa".decode,
    "UnicodeEncodeError": lambda: "\u20ac".encode("ascii"),
    "int('x')": lambda: int("x"),
    "float('x')": lambda: float("x"),
    "datetime.fromisoformat": lambda: dt.datetime.fromisoformat("yesterday"),
    "strptime": lambda: dt.datetime.strptime("x", "%Y%z"),
    "uuid.UUID": lambda: uuid.UUID("not-a-uuid"),
    "ipaddress": lambda: ipaddress.ip_address("300.1.1.1"),
    "enum of an unknown value": lambda: Color(7),
    "base64": lambda: base64.b64decode("a", validate=True),
    "struct.error": lambda: struct.unpack("<I", b"ab"),
    "zlib.error": lambda: zlib.decompress(b"not compressed"),
    "gzip.BadGzipFile": lambda: gzip.decompress(b"not compressed"),
    "lzma.LZMAError": lambda: lzma.decompress(b"not compressed"),
    "zipfile.BadZipFile": lambda: zipfile.ZipFile(io.BytesIO(b"no zip")),
    "tarfile.ReadError": lambda: tarfile.TarFile(fileobj=io.BytesIO(b"no tar, and too short")),
    "csv.Error": lambda: list(csv.reader(["a\x00b", '"x'], strict=True)),
    "tomllib.TOMLDecodeError": lambda: tomllib.loads("a = "),
    "configparser.ParsingError": lambda: configparser.ConfigParser().read_string("[a]\n!!"),
    "configparser.MissingSectionHeaderError": lambda: configparser.ConfigParser().read_string("a = 1"),
    "xml ParseError": lambda: ET.fromstring("<a>"),
    "plistlib.InvalidFileException": lambda: plistlib.loads(b"no plist"),
    "pickle.UnpicklingError": lambda: pickle.loads(b"\x00junk"),
    "decimal.InvalidOperation": lambda: decimal.Decimal("x"),
    "Fraction of a word": lambda: fractions.Fraction("x"),
    "statistics.StatisticsError": lambda: statistics.mean([]),
    "ast.literal_eval": lambda: ast.literal_eval("import os"),
    "urlsplit of a bad address": lambda: urllib.parse.urlsplit("http://[::1"),
    "a bare ValueError": lambda: _raise(ValueError("Invalid project_id")),
    "a year out of range": lambda: dt.date(99999, 1, 1),
    "BinAscii": lambda: bytes.fromhex("zz"),
}
REST: Final[tuple[tuple[str, Callable[[], object], bool, Any, bool], ...]] = (
    ("configparser.NoSectionError", lambda: configparser.ConfigParser().get("a", "b"), False, EITHER | NOT_FOUND, False),
    ("configparser.NoOptionError", lambda: configparser.ConfigParser({"a": "1"}).get("DEFAULT", "b"), False, EITHER | NOT_FOUND, False),
    ("zoneinfo.ZoneInfoNotFoundError", lambda: zoneinfo.ZoneInfo("Mars/Olympus"), False, EITHER | NOT_FOUND, False),
    ("pickle.PicklingError", lambda: pickle.dumps(lambda: 1), False, EITHER, False),
    ("decimal.Inexact", _decimal, False, EITHER, False),
    ("decimal.DivisionByZero", lambda: decimal.Decimal(1) / 0, False, EITHER, False),
    ("read from a closed stream", _read_closed, False, EITHER, False),
    ("UnsupportedOperation", lambda: io.BytesIO().fileno(), False, EITHER, False),
    ("LookupError of a codec", lambda: b"x".decode("no-such-codec"), False, EITHER, False),
    ("JSONDecodeError", lambda: json.loads("{nope"), False, VALIDATION, False),
    ("JSONDecodeError, empty", lambda: json.loads(""), False, VALIDATION, False),
    ("re.error", lambda: re.compile("("), False, EITHER, False),
    ("copy.Error", lambda: _raise(copy.Error("un(shallow)copyable object")), False, EITHER | UNKNOWN, True),
    ("SystemError", lambda: _raise(SystemError("error return without exception set")), False, EITHER | UNKNOWN, True),
    ("RuntimeError, asyncio.run inside a loop", _loop, True, UNKNOWN, False),
    ("RuntimeError, dict changed while iterating", _mutated, True, UNKNOWN, False),
    ("InvalidStateError", _set_twice, False, EITHER | UNKNOWN, True),
    ("a bare RuntimeError", lambda: _raise(RuntimeError("it did not work")), True, UNKNOWN, False),
    ("a bare Exception", lambda: _raise(Exception("it did not work")), True, UNKNOWN, False),
    ("a bare OSError", lambda: _raise(OSError("it did not work")), True, UNKNOWN | NETWORK | UPSTREAM, False),
    ("a class that nobody knows", lambda: _raise(type("FrobnicationError", (Exception,), {})("no frob")), True, UNKNOWN, False),
    ("a bare ArithmeticError", lambda: _raise(ArithmeticError("sum")), False, EITHER, True),
    ("a bare LookupError", lambda: _raise(LookupError("gone")), False, EITHER | NOT_FOUND, True),
    ("PermissionError without errno", lambda: _raise(PermissionError("not yours")), False, AUTH | CONFIGURATION, False),
    ("FileExistsError", lambda: _raise(FileExistsError(17, "File exists")), False, CONFLICT | EITHER, True),
    ("ConnectionError without errno", lambda: _raise(ConnectionError("lost")), True, NETWORK, False),
    ("BlockingIOError", lambda: _raise(BlockingIOError(11, "again")), True, NETWORK | UPSTREAM, False),
    ("a Warning raised", lambda: _raise(DeprecationWarning("old")), False, EITHER | UNKNOWN, True),
    ("SystemExit in a class's name", lambda: _raise(type("SystemExitError", (RuntimeError,), {})(401)), True, UNKNOWN, False),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for label, call in BUGS.items():
        yield stop("stdlib", label, lambda _, call=call: call(), BUG, "decision 5: CRIT-1.9")
    for label, call in BAD_DATA.items():
        yield stop("stdlib", label, lambda _, call=call: call(), EITHER, "decision 5: CRIT-1.5 or CRIT-1.9")
    for label, call, retryable, categories, arguable in REST:
        make = retry if retryable else stop
        yield make("stdlib", label, lambda _, call=call: call(), categories, "decision 5", arguable=arguable)
    words = (
        ("rate limit in the words only", "Rate limit exceeded, slow down", True, RATE_LIMIT),
        ("too many requests in the words only", "429 Too Many Requests", True, RATE_LIMIT),
        ("ECONNRESET in the words only", "read ECONNRESET", True, NETWORK),
        ("ENOTFOUND in the words only", "getaddrinfo ENOTFOUND api.example", True, NETWORK),
        ("timeout in the words only", "Navigation timeout of 30000 ms exceeded", True, NETWORK),
        ("unauthorized in the words only", "Unauthorized", False, AUTH),
        ("malformed in the words only", "malformed payload", False, VALIDATION),
    )
    for label, message, retryable, categories in words:
        make = retry if retryable else stop
        yield make(
            "stdlib",
            f"RuntimeError: {label}",
            lambda _, message=message: _raise(RuntimeError(message)),
            categories | UNKNOWN,
            "decision 1: ING's words are the last resort; decision 5: a bare RuntimeError is unknown",
            arguable=True,
        )
