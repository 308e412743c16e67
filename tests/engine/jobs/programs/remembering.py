"""A worker that pays, remembers what it got, and is killed in the very stage."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import reprieve
from reprieve import Job

pipeline = reprieve.Pipeline("paid", profile=reprieve.Policy(backoff=reprieve.Backoff(initial=0.01)))


def pay(file: str) -> str:
    """What costs money."""
    with Path(file).open("a") as paid:
        paid.write(json.dumps({"pid": os.getpid()}) + "\n")
    return "answer"


@pipeline.stage
async def llm(job: Job[str]) -> str:
    """Dies after it has paid, where it runs as a program."""
    answer = await job.remember("part", lambda: pay(job.payload), type=str)
    if __name__ == "__main__":
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


async def main(url: str) -> None:
    """Work until killed."""
    async with reprieve.connect(url) as app:
        await app.work(pipeline, lease=1.0, poll=0.05)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
