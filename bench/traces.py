"""Texts to measure redaction on: varied Python tracebacks without secrets, and inputs made to hurt."""

from __future__ import annotations

import os
import pathlib
import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGES = (
    "asyncio",
    "concurrent/futures",
    "email",
    "http",
    "importlib",
    "json",
    "logging",
    "multiprocessing",
    "sqlite3",
    "xml/dom",
)
_SENSITIVE = re.compile(r"(?i)passw|secret|token|key|auth|cookie|credential|@|content|message|prompt|\d\.\d+\.\d")
_DEFINITION = re.compile(r"\s*(?:async )?def (\w+)")

Frame = tuple[str, int, str, str]
"""File, line, function and the line's text."""


def _frames() -> list[Frame]:
    """Lines of the standard library's own functions, without those that speak of secrets."""
    found: list[Frame] = []
    for package in _PACKAGES:
        for file in sorted((pathlib.Path(os.__file__).parent / package).glob("*.py")):
            function = ""
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if definition := _DEFINITION.match(line):
                    function = definition[1]
                text = line.strip()
                if function and len(text) > 12 and text[0] not in "#\"'" and not _SENSITIVE.search(text):  # noqa: PLR2004 - statements
                    found.append((f"/usr/lib/python3/{package}/{file.name}", number, function, text))
    return found


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
    source, frames = random.Random(seed), _frames()
    parts: list[str] = []
    length = 0
    while length < size:
        part = _traceback(source, frames)
        parts.append(part)
        length += len(part)
    return "".join(parts)[:size]


def _traceback(source: random.Random, frames: list[Frame]) -> str:
    lines = ["Traceback (most recent call last):"]
    for file, number, function, text in source.choices(frames, k=source.randrange(4, 16)):
        lines += [f'  File "{file}", line {number}, in {function}', f"    {text}"]
        if source.random() < 0.5:  # noqa: PLR2004 - about half of the lines are underlined
            lines.append(f"    {'^' * source.randrange(4, len(text) + 1)}")
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
        "sheets": "password,email\n",
        "query strings": "?email=x",
        "a hit in every hundred bytes": "password=hunter2" + " x" * 42,
    }
    return {name: (seed * (size // len(seed) + 1))[:size] for name, seed in seeds.items()}
