"""Texts to measure redaction on: varied Python tracebacks without secrets, and inputs made to hurt."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARIES = [
    "httpx",
    "httpcore",
    "sqlalchemy",
    "psycopg",
    "asyncio",
    "pydantic",
    "redis",
    "botocore",
    "uvicorn",
    "anyio",
]
_MODULES = ["client", "pool", "base", "engine", "session", "worker", "transport", "protocol", "runner", "connection"]
_FUNCTIONS = ["send", "handle_request", "_execute", "fetch_one", "run_until_complete", "dispatch", "read", "__call__"]
_LINES = [
    "response = await self._send_handling_auth(request, auth=auth, follow_redirects=follow)",
    "return self._execute_context(dialect, constructor, statement, parameters, execution_options)",
    "raise mapped_exc(message) from exc",
    "result = context.run(func, *args)",
    'logger.debug("claimed %d jobs in %.3f s", len(jobs), elapsed)',
    "self.loop.call_soon(self._on_readable, fileno)",
    "for row in cursor.execute(statement, {'id': job_id, 'state': state}):",
    'assert stream.status == "open", f"stream {stream.id} is {stream.status}"',
    "with attempt: part = await job.remember(path, lambda: ask(model, diff[path]))",
    "return json.loads(body.decode(encoding), parse_float=Decimal)",
    "yield from super().iter_chunks(size=CHUNK_SIZE, offset=offset)",
    "hashed = hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]",
]
_MESSAGES: list[Callable[[random.Random], str]] = [
    lambda r: f"ConnectionResetError: [Errno 104] Connection reset by peer after {r.randrange(9000)} ms",
    lambda r: f"KeyError: 'changelist-{r.randrange(10**6)}'",
    lambda r: (
        f"TimeoutError: no answer from https://review{r.randrange(9)}.example.org/api/v2/changes/{r.randrange(10**5)}"
    ),
    lambda r: f"psycopg.errors.SerializationFailure: could not serialize access, relation jobs_{r.randrange(99)}",
    lambda r: (
        f"pydantic_core.ValidationError: {r.randrange(1, 9)} validation errors for Review\nsummary\n  Field required"
    ),
    lambda r: (
        f"httpx.HTTPStatusError: Server error '503 Service Unavailable' for url 'https://host{r.randrange(99)}/v1/run'"
    ),
    lambda r: f"ValueError: invalid literal for int() with base 10: '{r.randrange(10**4)}x'",
    lambda r: f"AssertionError: digest {r.getrandbits(256):064x} of shard {r.randrange(64)} does not match",
    lambda r: (
        f"RuntimeError: job {_uuid(r)} lost its lease at 2026-03-{r.randrange(1, 29):02d}T11:42:{r.randrange(60):02d}Z"
    ),
    lambda r: f"TypeError: <Worker object at 0x7f{r.getrandbits(40):010x}> is not awaitable",
]


def _uuid(source: random.Random) -> str:
    digits = f"{source.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def clean_traces(size: int, seed: int = 7) -> str:
    """Tracebacks of that many characters in all; none holds a secret, an address or a person."""
    source = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < size:
        part = _traceback(source)
        parts.append(part)
        length += len(part)
    return "".join(parts)[:size]


def _traceback(source: random.Random) -> str:
    lines = ["Traceback (most recent call last):"]
    for _ in range(source.randrange(4, 16)):
        library, module, function = (source.choice(names) for names in (_LIBRARIES, _MODULES, _FUNCTIONS))
        place = f"/srv/app/lib/python3.11/site-packages/{library}/{module}.py"
        lines += [
            f'  File "{place}", line {source.randrange(1, 2400)}, in {function}',
            f"    {source.choice(_LINES)}",
            f"    {'^' * source.randrange(8, 60)}",
        ]
    lines += [source.choice(_MESSAGES)(source), "", ""]
    return "\n".join(lines)


def hostile(size: int) -> dict[str, str]:
    """Inputs on which careless patterns take quadratic time or worse, each of about that many characters."""
    seeds = {
        "one letter": "a",
        "digits": "4",
        "assignments": "password=",
        "quotes": '"',
        "backslashes": "\\",
        "escaped quotes": '\\"',
        "key headers": "-----BEGIN " + "PRIVATE KEY-----\n",
        "web tokens": "eyJhbGciOi.",
        "addresses": "a@a.",
        "urls": "https://u:",
        "cards": "4111-",
        "spaces": "token " + " " * 50,
        "open braces": '{"content": [',
        "a hit in every hundred bytes": "AK" + "IA" + "Z" * 16 + " " + "x" * 79,
    }
    return {name: (seed * (size // len(seed) + 1))[:size] for name, seed in seeds.items()}
