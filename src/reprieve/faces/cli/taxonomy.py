"""`reprieve taxonomy`: the table of error classes, for people and for the documentation."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from reprieve.core.failure import TAXONOMY, Kind


def taxonomy(
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="As the documentation's page.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Show every error class: its category, whether it is retried and pages, and its remedy."""
    if as_json:
        print(json.dumps([{"error_class": name, **_row(kind)} for name, kind in TAXONOMY.items()], indent=2))  # noqa: T201
    elif markdown:
        print(page(), end="")  # noqa: T201
    else:
        _show(Console(highlight=False))


def _row(kind: Kind) -> dict[str, object]:
    return {
        "category": kind.category,
        "severity": kind.severity,
        "retryable": kind.retryable,
        "requires_idempotent": kind.requires_idempotent,
        "pages": kind.pages,
        "scope": kind.scope,
        "remedy": kind.remedy,
    }


def _show(console: Console) -> None:
    """Two lines a class, so that it can be read in any terminal."""
    for name, kind in TAXONOMY.items():
        pages = ", pages" if kind.pages else ""
        again = {"no": "not retried", "yes": "retried", "if idempotent": "retried if idempotent"}[retried(kind)]
        console.print(Text.assemble((f"{name:25}", "bold"), f"{kind.category}, {kind.severity}, {again}{pages}"))
        console.print(Padding(Text(kind.remedy, style="dim"), (0, 0, 0, 2)))


def retried(kind: Kind) -> str:
    """Whether a class is tried again, in a word or three."""
    if not kind.retryable:
        return "no"
    return "if idempotent" if kind.requires_idempotent else "yes"


def page() -> str:
    """The documentation's page, made from the table."""
    lines = [
        "# The taxonomy",
        "",
        "<!-- made by `make docs` from core/failure.py; a test keeps it true -->",
        "",
        "Every failure gets one of these classes. A class earns its place by a remedy of its own. *Severity* says how far the",
        "damage goes, *scope* what has to be done again for a retry to make sense. `retry_after`, a status or a provider's code",
        "can change the verdict on a single failure; its evidence says so.",
        "",
        "| class | category | severity | retried | pages | scope | remedy |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, kind in TAXONOMY.items():
        cells = (
            f"`{name}`",
            kind.category,
            kind.severity,
            retried(kind),
            "yes" if kind.pages else "no",
            kind.scope,
            kind.remedy,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
