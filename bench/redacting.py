"""Redaction of clean traces beside plain patterns and a scanner, and its growth on hostile input."""

from __future__ import annotations

import importlib
import math
import pathlib
import re
import tempfile
from functools import partial
from importlib.metadata import version
from time import process_time
from typing import TYPE_CHECKING, Any

from harness import Effort, Figure, medians, take_turns
from reprieve import redact
from sample import median_costs
from traces import clean_traces, hostile

if TYPE_CHECKING:
    from collections.abc import Callable

    from sample import SampleOptions

CLEAN_SIZE = 200_000
SIZES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
QUICK_SIZES = (16 << 10, 64 << 10)
SAMPLE_SIZE = 64 << 10
"""Of each hostile input: a pattern that has become quadratic shows at this size."""
PATIENCE = 20.0
"""Seconds for one text, after which larger ones of its kind are not tried."""
FIVE_TIMES = 5.0
NEARLY_LINEAR = 1.15

PATTERNS = {
    "aws key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "github token": r"\bgh[pousr]_[A-Za-z0-9]{36,}\b",
    "slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "openai key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "stripe key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "google key": r"\bAIza[A-Za-z0-9_-]{35}",
    "web token": r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
    "bearer": r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{12,}",
    "url password": r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@",
    "assignment": r"(?i)\b(?:password|passwd|secret|token|api_?key)\b[\"']?\s*[:=]\s*[\"']?[^\s\"',;]{4,}",
    "email": r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b",
    "ipv4": r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
    "card": r"\b(?:\d[ -]?){13,16}\b",
    "ssn": r"\b\d{3}-\d{2}-\d{4}\b",
}


def plain_patterns() -> Callable[[str], str]:
    """What is written first: one `sub` after the other."""
    compiled = [re.compile(pattern) for pattern in PATTERNS.values()]

    def scrub(text: str) -> str:
        for pattern in compiled:
            text = pattern.sub("[redacted]", text)
        return text

    return scrub


def detect_secrets(text: str, folder: str) -> Callable[[str], object] | None:
    """The scanner with its default plugins over a file that holds the text, its faster way; None if not installed."""
    try:
        collection: Any = importlib.import_module("detect_secrets.core.secrets_collection")
        settings: Any = importlib.import_module("detect_secrets.settings")
    except ModuleNotFoundError:
        return None
    file = pathlib.Path(folder) / "traces.txt"
    file.write_text(text, encoding="utf-8")

    def search(_: str) -> object:
        found = collection.SecretsCollection()
        with settings.default_settings():
            found.scan_file(str(file))
        return found

    return search


def seconds(function: Callable[[str], object], text: str) -> float:
    """Time one pass."""
    began = process_time()
    function(text)
    return process_time() - began


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return the nanoseconds of a character: of clean text, and of each hostile input."""
    texts = {"redact, clean tracebacks": clean_traces(asked.scale(CLEAN_SIZE, CLEAN_SIZE // 10))}
    for name, text in hostile(asked.scale(SAMPLE_SIZE, 1 << 10)).items():
        texts[f"redact, {name}"] = text
    return median_costs({name: partial(_cost, text) for name, text in texts.items()}, asked.seconds)


def _cost(text: str) -> float:
    return seconds(redact, text) / len(text) * 1e9


def run(effort: Effort) -> list[Figure]:
    """Measure speed on clean text, then growth."""
    quick = effort.calls < Effort().calls
    return [*_clean(effort, CLEAN_SIZE // 10 if quick else CLEAN_SIZE), *_growth(QUICK_SIZES if quick else SIZES)]


def _clean(effort: Effort, size: int) -> list[Figure]:
    text = clean_traces(size)
    functions: dict[str, Callable[[str], object]] = {"ours": redact, "re": plain_patterns()}
    with tempfile.TemporaryDirectory() as folder:
        if (scanner := detect_secrets(text, folder)) is not None:
            functions["detect-secrets"] = scanner
        candidates = {name: lambda function=function: seconds(function, text) for name, function in functions.items()}
        take_turns(candidates, 1)  # warm up: rules are compiled
        speed = {name: size / taken / 1e6 for name, taken in medians(take_turns(candidates, effort.rounds)).items()}
    versions = {"re": "15 `re` patterns"}
    figures = [
        Figure(
            name="redact, clean tracebacks",
            value=speed["ours"],
            unit="MB/s",
            peer=versions.get(peer) or f"{peer} {version(peer)}",
            peer_value=speed[peer],
            at_least=FIVE_TIMES if peer == "re" else None,
        )
        for peer in speed
        if peer != "ours"
    ]
    changed = sum(before != after for before, after in zip(text.splitlines(), redact(text).splitlines(), strict=False))
    return [*figures, Figure(name="redact, lines of the clean tracebacks that it changed", value=changed, unit="lines")]


def _growth(sizes: tuple[int, ...]) -> list[Figure]:
    figures = []
    for name in hostile(1):
        taken: list[tuple[int, float]] = []
        for size in sizes:
            text = hostile(size)[name]
            best = min(seconds(redact, text) for _ in range(2))
            taken.append((size, best))
            if best > PATIENCE:
                break
        figures.append(
            Figure(
                name=f"redact, growth on {name}",
                value=_exponent(taken),
                unit=f"exponent to {taken[-1][0] >> 10} KB",
                peer="linear",
                peer_value=1.0,
                at_most=NEARLY_LINEAR,
            )
        )
        figures.append(Figure(name=f"redact, speed on {name}", value=taken[-1][0] / taken[-1][1] / 1e6, unit="MB/s"))
    return figures


def _exponent(taken: list[tuple[int, float]]) -> float:
    """The slope of time over size on logarithmic axes: 1 is linear, 2 quadratic."""
    (small, quick), (large, slow) = taken[0], taken[-1]
    return math.log(slow / quick) / math.log(large / small) if large > small else math.nan
