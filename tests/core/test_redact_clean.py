"""Text that holds no secret keeps all but a thousandth of its characters: sources, tracebacks, logs."""

import asyncio
import difflib
import email.parser
import http.cookiejar
import json
import pathlib
import sysconfig
import traceback
import urllib.request

import pytest

from reprieve.core.redact import scan

LIBRARY = pathlib.Path(sysconfig.get_paths()["stdlib"])
MODULES = (
    "argparse", "ast", "asyncio/base_events", "asyncio/events", "asyncio/sslproto", "concurrent/futures/_base", "configparser", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions",
    "functools", "http/client", "http/server", "inspect", "json/decoder", "logging/__init__", "logging/config", "multiprocessing/managers", "platform", "pdb", "pickle", "queue", "random", "selectors", "shutil", "socket",
    "sqlite3/dump", "ssl", "statistics", "subprocess", "tarfile", "tempfile", "threading", "traceback", "typing", "unittest/case", "unittest/mock", "uuid", "weakref", "xml/dom/minidom", "zipapp",
)  # fmt: skip


def damage(text: str) -> int:
    """How many characters of the text are not in its redacted form."""
    clean, counts = scan(text)
    if not counts:
        return 0
    blocks = difflib.SequenceMatcher(None, text.splitlines(), clean.splitlines(), autojunk=False).get_opcodes()
    lines = text.splitlines()
    return sum(len("\n".join(lines[a:b])) for tag, a, b, _, _ in blocks if tag != "equal")


def test_the_sources_of_the_standard_library_stay_whole():
    texts = [(LIBRARY / f"{module}.py").read_text(encoding="utf-8") for module in MODULES]
    total = sum(map(len, texts))
    assert total > 2_000_000
    assert sum(map(damage, texts)) < total * 0.001


def provoked():
    """Tracebacks of real failures, as Python prints them."""
    calls = (
        lambda: json.loads("{"), lambda: int("x"), lambda: {}["missing"], lambda: ().index(1), lambda: pathlib.Path("/nonexistent/file").read_text(), lambda: asyncio.run(_late()),
        lambda: urllib.request.urlopen("http://127.0.0.1:1/jobs/42?page=2"), lambda: http.cookiejar.MozillaCookieJar("/nonexistent").load(), lambda: email.parser.Parser().parsestr(b"x"), lambda: __import__("no_such_module"),
        lambda: "x" + 1, lambda: None.attribute, lambda: (_ for _ in ()).throw(RuntimeError("job cl-42@3 failed in stage llm after 3 attempts")), lambda: sysconfig.get_path("no such scheme"),
    )  # fmt: skip
    for call in calls:
        try:
            call()
        except Exception as exc:  # noqa: BLE001 - any failure will do
            yield "".join(traceback.format_exception(exc))


async def _late():
    async with asyncio.timeout(0):
        await asyncio.sleep(1)


def test_real_tracebacks_stay_exactly_as_they_are():
    stacks = list(provoked())
    assert len(stacks) == 14
    for stack in stacks:
        assert scan(stack) == (stack, ())


LOGS = (
    '{"level": "error", "logger": "shop.sync", "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy", "message": "upstream answered 503", "attempt": 3, "trace_id": "5dac6d12cd2a4b66e949727d35c290a5", "elapsed_ms": 1523.7}',
    '10.0.0.7 - - [01/May/2024:10:20:30 +0000] "GET /v1/jobs/42?page=2&sort=asc HTTP/1.1" 200 5316 "-" "curl/8.4.0" rt=0.213',
    'ts=2024-05-01T10:20:30.123Z level=warn caller=worker.go:214 msg="lease lost" job=cl-42@3 fence=17 token_count=512 key=user:42:profile',
    "May  1 10:20:30 web-3 kernel: [12345.678901] Out of memory: Killed process 4242 (python) total-vm:8123456kB, anon-rss:4123456kB",
    "2024-05-01 10:20:30,123 INFO sqlalchemy.engine.Engine SELECT jobs.id, jobs.password_hash FROM jobs WHERE jobs.key = %(key_1)s LIMIT 10",
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709\n    Rotate the token after each login (#1234)\n\n diff --git a/x.py b/x.py\nindex 3f2a9c1..8b7d6e5 100644",
    "E       AssertionError: assert {'token': None, 'session': 'closed'} == {'token': None}\nE         Left contains 1 more item:",
    "kubectl get pods -n shop\nNAME                          READY   STATUS             RESTARTS   AGE\nshop-worker-7d9f8b6c5d-x2k4q   0/1     CrashLoopBackOff   7 (2m ago)   14m",
    "Successfully installed httpx-0.27.0 pydantic-2.7.1 tokenizers-0.19.1 (sha256:9b2a28eb47540823042a2ba401386845089bb7b62a9637d55816132c4c3c36eb)",
)  # fmt: skip


@pytest.mark.parametrize("text", LOGS)
def test_ordinary_logs_stay_exactly_as_they_are(text):
    assert scan(text) == (text, ())
