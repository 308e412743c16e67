"""Worker processes and containers that take tasks from a stream.

task_runner.py  runs one task in one process or container, and returns how it ended
containers.py   docker and podman;  environment.py  what a worker may see
contract.py     how supervisor and worker talk, and `serve` for workers in Python
output.py       the last output of a worker
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.supervisor.contract import serve as serve

__all__ = ["serve"]


def __getattr__(name: str) -> object:
    """Load a name when it is first used: a worker that calls `serve` does not wait for the supervisor's modules."""
    if name == "serve":
        from reprieve.supervisor.contract import serve  # noqa: PLC0415 - the point of this function

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
