"""A stage that runs in a process of its own, which finds it here by name."""

import os
import subprocess
import sys
import time
from pathlib import Path

from reprieve import Job


def hang(job: Job[str]) -> None:
    """Write down the own process and a child of it, and hang."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(job.payload).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)
