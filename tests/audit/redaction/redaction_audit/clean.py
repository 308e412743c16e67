"""Clean text by the megabyte: sources, documents, logs, manifests and real tracebacks with nothing to hide."""

import importlib
import importlib.metadata
import importlib.util
import json
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from redaction_audit import talk
from redaction_audit.draw import Draw
from redaction_audit.provoked import tracebacks

_STANDARD = (
    "argparse", "asyncio/base_events", "asyncio/tasks", "bdb", "cmd", "code", "codecs", "collections/__init__",
    "concurrent/futures/process", "configparser", "csv", "dataclasses", "datetime", "difflib", "dis", "doctest",
    "email/message", "enum", "ftplib", "functools", "getpass", "gettext", "glob", "gzip", "hashlib", "heapq",
    "hmac", "html/parser", "http/client", "http/cookiejar", "http/cookies", "http/server", "imaplib", "inspect",
    "json/decoder", "logging/__init__", "logging/config", "mailbox", "netrc", "optparse", "pathlib", "pdb",
    "pickle", "poplib", "pprint", "queue", "random", "secrets", "selectors", "shlex", "shutil", "smtplib", "socket",
    "sqlite3/dbapi2", "ssl", "statistics", "string", "subprocess", "tarfile", "tempfile", "textwrap", "threading",
    "token", "tokenize", "traceback", "turtle", "types", "typing", "unittest/mock", "urllib/parse",
    "urllib/request", "uuid", "venv/__init__", "warnings", "weakref", "xml/dom/minidom", "zipfile",
)  # fmt: skip
_PACKAGES = (
    "httpx", "requests", "urllib3", "click", "typer", "jwt", "aiosmtplib", "redis", "psycopg", "sqlalchemy",
    "botocore", "pydantic", "httpcore", "h11", "rich", "aiohttp", "slack_sdk", "anyio", "pytest", "hypothesis",
)  # fmt: skip
_PER_PACKAGE = 5
_CHATTY = {"openai", "anthropic", "google-genai", "litellm", "instructor"}
"""Distributions whose description quotes chats."""
_LONGEST = 14_000
_SECRET_NAME = r"(?:passw|pwd|passphrase|secret|token|api[-_ ]?key|private|credential|auth|cookie|session|\bkey)"
# A line with a literal beside such a name, an address or a number of someone's is open to argument: it is left out.
_ARGUABLE = re.compile(
    r"[\w.+-]+(?:@|%40)[\w$-]+[.{]\w|\+\d{10}|://[^/\s\"']*@|PRIVATE KEY|\beyJ|\bAKIA|\+\d{1,3}[ (-]\d|\d{3}-\d{2}-\d{4}|\(\d{3}\) ?\d{3}"
    rf"|{_SECRET_NAME}\w*[\"'\]]*\s*[:=,]\s*(?:[bru]*[\"'`<]|\w*\d)"
    rf"|{_SECRET_NAME}\w* (?:is |was )?[\"'`]"
    r"|(?:prompts?|contents?|instructions|input|text|message|system|user|name|address|phone|birth\w*)[\"']?\s*[:=]\s*[bruf]*[\"']"
    r"|cookie: \w+=|(?:Basic|Bearer) [\w+/=-]{8}|passw\S* \S*\d|login \S+ passw"
    r"|AUTH|LOGIN|\bPASS\b|IDENTIFIED",
    re.IGNORECASE,
)


def _without_arguable(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not _ARGUABLE.search(line))


def standard_library() -> Iterator[str]:
    """Modules as they are installed."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for name in _STANDARD:
        path = root / f"{name}.py"
        if path.exists():
            yield _without_arguable(path.read_text(encoding="utf-8")[:_LONGEST])


def libraries() -> Iterator[str]:
    """Sources of what the tests have installed, the largest files of each package."""
    for name in _PACKAGES:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            continue
        folder = Path(found.origin).parent
        for path in sorted(folder.glob("*.py"), key=lambda file: -file.stat().st_size)[:_PER_PACKAGE]:
            yield _without_arguable(path.read_text(encoding="utf-8")[:_LONGEST])


def documents() -> Iterator[str]:
    """The descriptions of installed distributions: Markdown and reStructuredText."""
    for distribution in sorted(importlib.metadata.distributions(), key=lambda found: str(found.metadata["Name"])):
        if distribution.metadata["Name"] in _CHATTY:
            continue
        text = distribution.read_text("METADATA") or ""
        _, _, description = text.partition("\n\n")
        yield _without_arguable(description[: _LONGEST // 2])


def digests() -> Iterator[str]:
    """Lists of installed files with their digests, as a lock file has them."""
    for distribution in sorted(importlib.metadata.distributions(), key=lambda found: str(found.metadata["Name"])):
        yield (distribution.read_text("RECORD") or "")[: _LONGEST // 8]


def generated(seed: int) -> Iterator[tuple[str, str]]:
    """Logs, diffs, manifests and reports, with fresh ids in them."""
    draw = Draw(seed + 5)
    yield "json-log", "\n".join(_json_log(draw) for _ in range(700))
    yield "access-log", "\n".join(_access_log(draw) for _ in range(900))
    yield "git-log", "\n".join(_commit(draw) for _ in range(250))
    yield "diff", "\n".join(_diff(draw) for _ in range(120))
    yield "sql", "\n".join(_statement(draw) for _ in range(300))
    yield "manifest", "\n---\n".join(_manifest(draw) for _ in range(90))
    yield "test-output", "\n".join(_test_line(draw) for _ in range(600))
    yield (
        "lock-file",
        "\n".join(
            draw.fill("package-{L6}=={d1}.{d2}.{d1} \\\n    --hash=sha256:{h64} \\\n    --hash=sha256:{h64}")
            for _ in range(250)
        ),
    )
    yield (
        "npm-lock",
        "\n".join(
            draw.fill('"integrity": "sha512-{b86}==", "version": "{d1}.{d1}.{d2}", "resolved": "{L9}.tgz"')
            for _ in range(300)
        ),
    )
    yield (
        "ids",
        "\n".join(draw.fill("{h8}-{h4}-4{h3}-a{h3}-{h12} {h40} {d10} 0x7f{h10} req_011C{a20}") for _ in range(400)),
    )


def _json_log(draw: Draw) -> str:
    return json.dumps(
        {
            "timestamp": draw.fill("2024-05-1{d1}T0{d1}:1{d1}:2{d1}.{d6}Z"),
            "level": draw.choice(("info", "warning", "error")),
            "logger": draw.choice(("app.auth.tokens", "app.mail", "app.llm.prompts", "app.jobs")),
            "event": draw.choice(
                ("token refreshed", "password changed", "prompt too long", "retrying", "login failed")
            ),
            "request_id": draw.fill("{h8}-{h4}-4{h3}-9{h3}-{h12}"),
            "trace_id": draw.some("h", 32),
            "user_id": int(draw.fill("4{d6}")),
            "prompt_tokens": draw.randint(1, 9000),
            "content_length": draw.randint(1, 9000),
            "duration_ms": draw.randint(1, 900),
            "path": f"/v1/users/{draw.randint(1, 999)}/password",
            "payload_sha256": draw.some("h", 64),
        }
    )


def _access_log(draw: Draw) -> str:
    path = draw.choice(
        ("/login", "/api/v1/tokens?page=2&sort=-created", "/password/reset", "/static/app.{h8}.js", "/jobs/{h24}")
    )
    return draw.fill(
        f'10.{{d2}}.{{d2}}.{{d1}} - - [1{{d1}}/May/2024:1{{d1}}:2{{d1}}:3{{d1}} +0000] "GET {path} HTTP/1.1" 200 {{d4}} "-" "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/127.0"'
    )


def _commit(draw: Draw) -> str:
    title = draw.choice(
        (
            "Rotate tokens nightly",
            "Never log the password",
            "Ask for the API key once",
            "Fix key order",
            "Speed up prompts",
        )
    )
    return draw.fill(
        f"commit {{h40}}\nAuthor: the platform team\nDate:   Tue May 1{{d1}} 1{{d1}}:2{{d1}}:33 2024 +0200\n\n    {title}\n\n    Closes 1{{d3}}.\n"
    )


def _diff(draw: Draw) -> str:
    return draw.fill(
        "diff --git a/app/auth.py b/app/auth.py\nindex {h7}..{h7} 100644\n--- a/app/auth.py\n+++ b/app/auth.py\n@@ -{d2},7 +{d2},9 @@ def login(user, password):\n"
        "-    token = issue(user, password)\n+    token = issue(user, password, ttl=settings.token_ttl)\n+    if token is None:\n"
        "+        raise LoginFailed(user)\n     return token\n"
    )  # fmt: skip


def _statement(draw: Draw) -> str:
    return draw.choice(
        (
            draw.fill(
                "UPDATE jobs SET state = 'failed', attempts = {d1}, last_error_at = '2024-05-1{d1} 10:00:00+00' WHERE id = {d7};"
            ),
            draw.fill(
                "SELECT u.id, u.password_hash, t.token_id FROM users u JOIN tokens t ON t.user_id = u.id WHERE u.id = {d6} LIMIT {d2};"
            ),
            draw.fill(
                "INSERT INTO deliveries (id, key, attempt) VALUES ('{h8}-{h4}-4{h3}-8{h3}-{h12}', 'cl-{d4}@2', {d1});"
            ),
            "CREATE INDEX ix_tokens_expiry ON tokens (expires_at) WHERE revoked_at IS NULL;",
        )
    )


def _manifest(draw: Draw) -> str:
    return draw.fill(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: checkout-{h9}-{L5}\n  uid: {h8}-{h4}-4{h3}-a{h3}-{h12}\n  resourceVersion: '{d9}'\n"
        "spec:\n  serviceAccountName: checkout\n  containers:\n  - image: registry.example.com/checkout@sha256:{h64}\n    ports:\n    - containerPort: 8080\n"
        "    env:\n    - name: DB_PASSWORD\n      valueFrom:\n        secretKeyRef:\n          name: db-credentials\n          key: password\n"
        "    - name: TOKEN_TTL\n      value: '3600'\n  volumes:\n  - name: token\n    projected:\n      sources:\n      - serviceAccountToken:\n          path: token"
    )  # fmt: skip


def _test_line(draw: Draw) -> str:
    name = draw.choice(("password_is_hashed", "token_expires", "prompt_fits", "api_key_is_required", "secret_rotation"))
    return draw.fill(f"tests/auth/test_{name}.py::test_{name}[case{{d2}}] PASSED [ {{d2}}%] in 0.{{d2}}s")


def clean_texts(seed: int) -> Iterator[tuple[str, str]]:
    """All of it, each text with the name of its source."""
    yield "talk", talk.LINES
    yield from (("traceback", text) for text in tracebacks())
    yield from generated(seed)
    yield from (("standard-library", text) for text in standard_library())
    yield from (("library", text) for text in libraries())
    yield from (("document", text) for text in documents())
    yield from (("digests", text) for text in digests())
