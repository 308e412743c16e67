"""Supervised tasks that tests run with real processes and containers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from reprieve.core.task_end import TaskStopReason
from reprieve.supervisor.task_runner import Task, TaskReport, TaskRun, WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def run_task(
    command: Sequence[str],
    document: object = None,
    *,
    meanwhile: Callable[[TaskRun], object] | None = None,
    task_id: str = "1-0",
    **spec: Any,
) -> TaskReport:
    """Run one task to its end. `meanwhile` is called with the run once the worker is ready."""

    async def main() -> TaskReport:
        started = asyncio.Event()
        task = Task(task_id, 1, json.dumps(document).encode())
        run = TaskRun(task, WorkerSpec(tuple(command), **spec), on_started=lambda _: started.set())
        running = asyncio.create_task(run.run())
        if meanwhile is not None:
            async with asyncio.timeout(60):
                await started.wait()
            await asyncio.to_thread(meanwhile, run)
        async with asyncio.timeout(60):
            return await running

    return asyncio.run(main())


def python(program: str, *arguments: object) -> list[str]:
    """Return the command of a Python program."""
    return [sys.executable, "-c", program, *map(str, arguments)]


def serve(body: str, *arguments: object) -> list[str]:
    """Return the command of a worker whose function has this body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return python(
        f"import os, sys, time\nfrom reprieve.supervisor import serve\ndef work(task):\n{lines}\nserve(work)",
        *arguments,
    )


def stop_soon(reason: TaskStopReason = TaskStopReason.CANCELLED) -> Callable[[TaskRun], object]:
    """Return what stops a run from another thread."""
    return lambda run: run._loop.call_soon_threadsafe(run.stop, reason)


def containers() -> list[str]:
    """Return the numbers of all containers that podman knows."""
    listed = subprocess.run(
        ["podman", "ps", "--all", "--quiet"], capture_output=True, text=True, check=True, timeout=60
    )
    return listed.stdout.split()
