"""A worker whose pipelines tell people, as a process that can be killed at any step of a delivery; forked as others are."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "programs"))

import delivery_gates
import engine_worker
from delivery_pipelines import Places, telling

import reprieve


async def work(url: str, options: dict[str, Any]) -> None:
    pipelines = [telling(name, Places(**options["places"])) for name in options["pipelines"]]
    # As many files at once as a test wants.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(100))
    async with reprieve.connect(url) as app:
        delivery_gates.install(app, delivery_gates.Gate(options["steps"], **options["gate"]))
        while True:
            try:
                await app.work(
                    *pipelines, lease=2.0, poll=0.05, grace=5.0, concurrency=50, signals=True, until_idle=options["until_idle"]
                )  # fmt: skip
            except reprieve.UsageError:  # another process has the file: stand by, and take over when it dies
                await asyncio.sleep(0.02)
            else:
                return


if __name__ == "__main__":
    engine_worker.main(work)
