"""The command line, run in this process, over a database and pipelines of a test's own."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import reprieve
from reprieve.testing import replies
from support.command_line import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reprieve.testing import FlakyHTTP, Reply

REVIEWS = """
import reprieve

review = reprieve.Pipeline("review")


@review.stage
async def fetch(job: reprieve.Job[dict]) -> int:
    return job.payload["n"]


@review.stage
async def llm(job: reprieve.Job[dict], n: int) -> str:
    if n == 13:
        raise reprieve.Permanent("thirteen")
    if n == 14:
        raise reprieve.NeedsReview("fourteen")
    return f"reviewed {n}"
"""

KINDS = {"type": "object", "properties": {"kind": {"enum": ["article", "product"]}}, "required": ["kind"]}
URLS = """
https://shop.example/items/1
https://shop.example/items/2?ref=a
https://shop.example/items/3
not a url
https://blog.example/2024/05/17/hello
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """`reprieve work` in this process says how much is logged; that is for it alone."""
    ours = logging.getLogger("reprieve")
    level = ours.level
    yield
    ours.setLevel(level)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs `reprieve ...` in a folder with a module `reviews`, whose database is `reprieve.db`."""
    (tmp_path / "reviews.py").write_text(REVIEWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "reviews", raising=False)
    for name in ("REPRIEVE_URL", "REPRIEVE_ACTOR", "REPRIEVE_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REPRIEVE_APP", "reviews")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("reprieve.faces.cli.common._WAITS", (0.0, 0.0, 0.0))

    def run(*arguments: object, text: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["reprieve", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        capsys.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def worked(command: Callable[..., Done]) -> Callable[..., Done]:
    """The same, with jobs: 1 succeeded, 2 dead-lettered, 3 for review, 4 put off for an hour."""
    from reviews import review  # noqa: PLC0415 - there only now

    async def run() -> None:
        async with reprieve.connect("sqlite:///reprieve.db") as app:
            await app.submit(review, {"n": 1, "note": "private"}, idempotency_key="cl-1@1", subject="cl-1", version=1)
            await app.submit(review, {"n": 13})
            await app.submit(review, {"n": 14})
            await app.work(review, until_idle=True)
            await app.submit(review, {"n": 4}, idempotency_key="later", subject="cl-4", version=1, delay=3600)

    asyncio.run(run())
    return command


def _fine(kind: str = "article") -> Reply:
    return replies.openai.completion(json.dumps({"kind": kind}))


@pytest.fixture
def analyze(
    command: Callable[..., Done], flaky_http: FlakyHTTP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Runs `reprieve analyze` over the list above."""
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test-0004")
    (tmp_path / "urls.txt").write_text(URLS)
    (tmp_path / "schema.json").write_text(json.dumps(KINDS))
    model = f"openai+{flaky_http.url('/v1')}#m"

    def run(*options: object) -> Done:
        return command("analyze", "urls.txt", "--model", model, "--schema", "schema.json", "-c", 1, *options)

    return run


@pytest.fixture
def waiting(analyze: Callable[..., Done], command: Callable[..., Done], flaky_http: FlakyHTTP) -> Callable[..., Done]:
    """The same, with one signature that waits for a person: review 1."""
    flaky_http.next(_fine("nonsense"), _fine("nonsense"))
    flaky_http.always(_fine())
    analyze()
    return command
