"""Rounds of drains as figures: the rate with its target, and what each job cost beside it."""

from __future__ import annotations

import statistics
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from engine.driving import Drain
from harness import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.server import Kept

COSTS: Final = {
    "worker": ("processor of the worker by job", "us"),
    "server": ("processor of the server by job", "us"),
    "transactions": ("transactions by job", ""),
    "wal": ("WAL by job", "bytes"),
    "memory": ("worker's memory at its peak", "MB"),
}


def middle(drains: Sequence[Drain]) -> Drain:
    """The middle of the rounds, number by number."""
    return Drain(
        **{field.name: statistics.median(getattr(each, field.name) for each in drains) for field in fields(Drain)}
    )


def compared(name: str, ours: Drain, peer: str, theirs: Drain, *, at_least: float) -> list[Figure]:
    """Our rate against the peer's, and the costs of both; a database without a server has none of the server's."""
    rate = Figure(name=name, value=ours.rate, unit="jobs/s", peer=peer, peer_value=theirs.rate, at_least=at_least)
    return [rate, *costs(name, ours, peer, theirs)]


def costs(name: str, ours: Drain, peer: str, theirs: Drain) -> list[Figure]:
    """What a job cost, without targets."""
    return [
        Figure(name=f"{name}: {label}", value=getattr(ours, key), unit=unit, peer=peer, peer_value=getattr(theirs, key))
        for key, (label, unit) in COSTS.items()
        if getattr(theirs, key)
    ]


def kept(name: str, ours: Kept, peer: str, theirs: Kept) -> list[Figure]:
    """What a finished job leaves behind."""
    return [
        Figure(name=f"{name}: rows kept by job", value=ours.rows, unit="rows", peer=peer, peer_value=theirs.rows),
        Figure(name=f"{name}: kept by job", value=ours.bytes, unit="bytes", peer=peer, peer_value=theirs.bytes),
    ]
