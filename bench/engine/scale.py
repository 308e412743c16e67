"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass

from harness import Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Numbers of jobs, the same for all who are compared."""

    rounds: int = 5
    staged: int = 1_000
    """Jobs of three stages."""
    single: int = 10_000
    backlog: int = 50_000
    submitted: int = 20_000
    samples: int = 200
    """Jobs that are sent to an idle worker."""
    busy: int = 1_500
    """Jobs of stages that use the processor."""
    finished: int = 1_000_000
    """Jobs that are over and still there."""
    dead: int = 100_000
    probed: int = 10_000
    """Jobs that are submitted, claimed and finished beside those that are over."""

    @classmethod
    def of(cls, effort: Effort) -> Scale:
        """The whole, or a glance that shows that it works."""
        if effort != Effort.quick():
            return cls()
        return cls(
            rounds=1, staged=30, single=300, backlog=1_000, submitted=2_000, samples=20, busy=60, finished=5_000,
            dead=500, probed=1_000,
        )  # fmt: skip
