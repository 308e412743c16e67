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


def selects(mark: pytest.Mark | None) -> bool:
    """Return whether a test belongs to this run, given its mark `campaign`.

    A test without the mark belongs to `make test` alone. A test with the mark belongs to both, and to the campaign alone
    if it says `only=True`.
    """
    if mark is None:
        return not CAMPAIGN
    return CAMPAIGN or not mark.kwargs.get("only", False)
