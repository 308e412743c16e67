"""Stages that run in a process of their own, which finds them here by name."""

import os
import signal
import time
from pathlib import Path

from reprieve import Job


def add(job: Job[int]) -> int:
    """Well-behaved."""
    return job.payload + job.attempt


def say_who(job: Job[str]) -> int:
    """Who runs it."""
    return os.getpid()


def hang(job: Job[str]) -> str:
    """Writes down who it is, and hangs where nobody was before."""
    path = Path(job.payload)
    alone = not path.exists()
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if alone:
        time.sleep(600)
    return "done"


def fail(job: Job[str]) -> str:
    """Fails with what it was given in its message."""
    raise TypeError(f"cannot use {job.payload}")


def die(job: Job[str]) -> str:
    """Ends its process, unless its payload asks otherwise."""
    if job.payload == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def remember(job: Job[str]) -> str:
    """Asks for what only the worker's process has."""
    return str(job.remember_blocking("key", lambda: "value"))
