"""What an operator can see and do: one service a noun, every change with its actor; all faces use these and nothing else.

jobs.py       look, cancel, prune, erase
stages.py     look, pause, resume
database.py   whether the tables fit and nothing is orphaned; upgrading
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.app.operations.database import DatabaseOperations
from reprieve.app.operations.jobs import JobOperations
from reprieve.app.operations.stages import StageOperations

if TYPE_CHECKING:
    from reprieve.app.operations.asking import OpenJournal
    from reprieve.ports.clock import Clock
    from reprieve.ports.reader import Keeper, Reader

__all__ = ["DatabaseOperations", "JobOperations", "Operations", "StageOperations"]


@dataclass(frozen=True, slots=True)
class Operations:
    """All services, by noun."""

    jobs: JobOperations
    stages: StageOperations
    database: DatabaseOperations

    @classmethod
    def over(cls, reader: Reader, keeper: Keeper, journal: OpenJournal, *, clock: Clock) -> Operations:
        """Build them; `journal` is asked for only when something is to be changed."""
        return cls(
            JobOperations(reader, keeper, journal, clock=clock),
            StageOperations(reader, journal),
            DatabaseOperations(reader, keeper),
        )
