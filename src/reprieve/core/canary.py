"""Canary replay: when a campaign sends its next wave, when it waits, and when it stops by itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

WAVES: Final = (1, 2, 5, 20, 100)
"""How many are replayed before the next wave; after the last of these come all that are left."""


class CampaignState(StrEnum):
    """How far a campaign is."""

    GATHERING = "gathering"
    """Its members are being written down; nobody runs it yet."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    """By itself: the failure came back."""
    CANCELLED = "cancelled"
    DONE = "done"


class MemberState(StrEnum):
    """What became of one item of a campaign."""

    WAITING = "waiting"
    REPLAYING = "replaying"
    CONFIRMED = "confirmed"
    """Its job has succeeded."""
    RETURNED = "returned"
    """It has failed with the fingerprint it had before."""
    FAILED = "failed"
    """It has failed otherwise, or was withdrawn."""
    LEFT_OUT = "left_out"
    """It could not be replayed any more when its turn came."""
