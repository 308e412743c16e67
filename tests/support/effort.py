"""How much a test does: little in `make test`, its full size in `make campaign`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest

Size = TypeVar("Size")

CAMPAIGN = False
"""Whether this run is a campaign; set when pytest starts."""


def size(usual: Size, campaign: Size) -> Size:
    """Return the size of this run: `usual` in `make test`, `campaign` in `make campaign`."""
    return campaign if CAMPAIGN else usual


FAST = (
    "tests/core/", "tests/house/", "tests/app/test_", "tests/adapters/store/", "tests/timeouts/test_timeout_for",
    "tests/faces/test_cli_classify", "tests/faces/test_cli_rendering", "tests/faces/test_cli_output", "tests/faces/test_cli_submit",
)  # fmt: skip
"""Where the tests of `make check` are: core, retry, pipelines, the parsing of commands, the store on SQLite,
the rules of the repository."""
SLOW = (
    "tests/house/test_distributions", "tests/adapters/store/test_model", "tests/app/test_blocking", "tests/app/test_items",
    "tests/app/test_operations",
)  # fmt: skip
"""Tests below FAST that start servers or processes, or take long."""


def is_fast(item: pytest.Item) -> bool:
    """Return whether a test belongs to `make check`: those that need PostgreSQL do not."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    needs_server = "postgresql" in [*parameters] or "postgres_server" in getattr(item, "fixturenames", ())
    return item.nodeid.startswith(FAST) and not item.nodeid.startswith(SLOW) and not needs_server


def is_selected(item: pytest.Item) -> bool:
    """Return whether a test belongs to this run. A campaign has only the tests marked `campaign`."""
    return not CAMPAIGN or item.get_closest_marker("campaign") is not None
