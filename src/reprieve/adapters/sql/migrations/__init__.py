"""The steps of the schema. schema.py runs those that a database lacks, in one transaction."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULES: Final = {
    "0001": "r0001_jobs",
    "0002": "r0002_dead_letters",
    "0003": "r0003_deliveries",
    "0004": "r0004_analysis",
    "0005": "r0005_alerts",
    "0006": "r0006_told",
}
REVISIONS: Final = tuple(_MODULES)
"""All steps that there are, the oldest first."""


class _Step(Protocol):
    def statements(self, dialect: str) -> Iterator[str]: ...


def statements_after(revision: str | None, dialect: str) -> Iterator[str]:
    """Yield the statements of all steps after a revision, or of all steps where there is none."""
    first = 0 if revision is None else REVISIONS.index(revision) + 1
    for step in REVISIONS[first:]:
        module = cast("_Step", import_module(f"{__name__}.versions.{_MODULES[step]}"))
        yield from module.statements(dialect)
