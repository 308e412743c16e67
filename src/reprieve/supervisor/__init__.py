"""Worker processes and containers that take tasks from a stream.

supervisor.py   takes tasks, runs each in a worker, publishes what became of it
task_runner.py  runs one task in one process or container, and returns how it ended
containers.py   docker and podman;  environment.py  what a worker may see
contract.py     how supervisor and worker talk, and `serve` for workers in Python
lifecycle.py    events and results as stream entries;  registry.py  what runs where, for operators
output.py       the last output of a worker
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.supervisor.containers import ContainerSpec as ContainerSpec
    from reprieve.supervisor.contract import serve as serve
    from reprieve.supervisor.supervisor import Supervisor as Supervisor
    from reprieve.supervisor.supervisor import SupervisorOptions as SupervisorOptions
    from reprieve.supervisor.task_runner import WorkerSpec as WorkerSpec

_HOMES = {
    "ContainerSpec": "containers",
    "Supervisor": "supervisor",
    "SupervisorOptions": "supervisor",
    "WorkerSpec": "task_runner",
    "serve": "contract",
}
__all__ = ["ContainerSpec", "Supervisor", "SupervisorOptions", "WorkerSpec", "serve"]


def __getattr__(name: str) -> object:
    """Load a name when it is first used: a worker that calls `serve` does not wait for the supervisor's modules."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when a name is loaded

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
