"""Real tracebacks, provoked from the standard library and from what the tests have installed."""

import ast
import asyncio
import base64
import binascii
import configparser
import decimal
import enum
import ftplib
import gzip
import http.client
import importlib
import io
import ipaddress
import json
import pickle
import re
import socket
import sqlite3
import string
import struct
import subprocess
import sys
import threading
import tomllib
import traceback
import urllib.request
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree as ET


async def _timed_out() -> None:
    async with asyncio.timeout(0.001):
        await asyncio.sleep(1)


def tracebacks() -> Iterator[str]:
    """Real ones, provoked."""
    for provoke in _PROVOCATIONS:
        try:
            provoke()
        except Exception:  # noqa: BLE001 - whatever it is, it is what was asked for
            yield traceback.format_exc()


def _chained() -> None:
    try:
        json.loads('{"a": 1,}')
    except ValueError as error:
        raise RuntimeError("could not read the job") from error


def _no_such_table() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("select password from users")


_PROVOCATIONS: tuple[Callable[[], object], ...] = (
    lambda: json.loads("{'a': 1}"),
    lambda: {}["access_token"],
    lambda: int("twelve"),
    lambda: Path("/nonexistent/token.txt").read_text(encoding="utf-8"),
    lambda: importlib.import_module("no_such_module"),
    lambda: re.compile("(unclosed"),
    lambda: json.dumps(object()),
    lambda: compile("password = = 1", "settings.py", "exec"),
    lambda: None.token,
    lambda: "{:d}".format("x"),
    b"\xff".decode,
    lambda: ().index(3),
    lambda: dict(["abc"]),
    lambda: importlib.import_module("httpx").get("http://127.0.0.1:9/v1/jobs"),
    lambda: importlib.import_module("requests").get("http://127.0.0.1:9/v1/jobs?page=2", timeout=1),
    lambda: importlib.import_module("httpx").get("ftp://example.com/file"),
    lambda: importlib.import_module("jwt").decode("not-a-token", options={"verify_signature": False}),
    _no_such_table,
    lambda: importlib.import_module("openai").OpenAI(api_key=None),
    lambda: importlib.import_module("smtplib").SMTP("127.0.0.1", 9, timeout=1),
    lambda: importlib.import_module("subprocess").run(["false"], check=True),
    _chained,
    lambda: uuid.UUID("not-a-uuid"),
    lambda: datetime.fromisoformat("yesterday"),
    lambda: decimal.Decimal("many"),
    lambda: ipaddress.ip_address("300.1.1.1"),
    lambda: ast.parse("def login(user, password:\n    return token"),
    lambda: tomllib.loads("[auth\ntoken = 3"),
    lambda: configparser.ConfigParser().read_string("password without a section"),
    lambda: ET.fromstring("<login><password></login>"),
    lambda: struct.unpack("<I", b"abc"),
    lambda: zipfile.ZipFile(io.BytesIO(b"not a zip")),
    lambda: gzip.decompress(b"not gzipped"),
    lambda: zlib.decompress(b"garbage"),
    lambda: pickle.loads(b"\x80\x04garbage"),
    lambda: base64.b64decode("abc", validate=True),
    lambda: binascii.unhexlify("xyz"),
    lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    lambda: urllib.request.urlopen("http://127.0.0.1:9/oauth/token", timeout=1),
    lambda: http.client.HTTPConnection("127.0.0.1", 9, timeout=1).request("GET", "/login"),
    lambda: ftplib.FTP().connect("127.0.0.1", 9, timeout=1),
    lambda: subprocess.run(["no-such-program", "--password-file", "/run/secrets/db"], check=False),
    lambda: subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=True),
    lambda: asyncio.run(_timed_out()),
    lambda: threading.Thread().join(),
    lambda: next(Path("/nonexistent/secrets").iterdir()),
    lambda: enum.Enum("State", "A B")("C"),
    lambda: re.sub("(", "", "x"),
    lambda: string.Template("$token").substitute(),
    lambda: object().api_key,
    lambda: importlib.import_module("jwt").decode("a.b.c", "", algorithms=["HS256"]),
    lambda: importlib.import_module("jinja2").Template("{{ password").render(),
    lambda: importlib.import_module("yaml").safe_load("password: [unclosed"),
    lambda: importlib.import_module("jsonschema").validate({"max_tokens": "x"}, {"type": "array"}),
    lambda: importlib.import_module("redis").Redis(port=9, socket_connect_timeout=1).ping(),
)
