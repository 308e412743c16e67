"""A worker of another task system: a real process, its broker, and what its tasks have written down."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

from reprieve.streams.dead_letters import decode_dead_letter

PATIENCE_SECONDS = 60.0


class Host:
    """A worker process, its broker, and what its tasks have written down."""

    def __init__(self, server, command, folder, log, *, restarts=False, environment=None):
        self.server, self.command, self.folder, self.log = server, command, folder, log
        self.restarts, self.own = restarts, environment or {}
        self.process = None

    @property
    def environment(self):
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return {
            **os.environ,
            "REDIS_URL": self.server.url,
            "PYTHONPATH": path,
            "PYTHONWARNINGS": "ignore",
            **self.own,
        }

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.command],
                cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self):
        """End the worker and its children at once."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def python(self, code):
        """Run code as a client of the application would, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def events(self, key, event=None):
        """The moments of a task's events."""
        found = [json.loads(each) for each in self.server.call("LRANGE", "events", 0, -1)]
        return [each["at"] for each in found if each["key"] == key and event in {None, each["event"]}]

    def counts(self, key):
        found = [json.loads(each) for each in self.server.call("LRANGE", "events", 0, -1)]
        return Counter(each["event"] for each in found if each["key"] == key)

    def dead_letters(self, queue):
        entries = self.server.call("XRANGE", f"{queue}:dlq", "-", "+")
        return [decode_dead_letter(queue, entry_id, entry) for entry_id, entry in entries]

    def wait(self, what):
        """Wait until something is so, and return it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := what()):
            ended = self.process is not None and self.process.poll() is not None
            if ended and self.restarts:
                self.start()
                ended = False
            if ended or time.monotonic() > deadline:
                raise AssertionError(self.log.read_text(errors="replace")[-6000:])
            time.sleep(0.02)
        return found


def check_delays(host, keys, delays, *, late):
    """Check that no retry of these tasks came early, and that the best one of each was not too late.

    What is late on a busy machine is not late for all of them.
    """
    rounds = [[later - earlier for earlier, later in itertools.pairwise(host.events(key, "start"))] for key in keys]
    assert [len(gaps) for gaps in rounds] == [len(delays)] * len(keys)
    for delay, gaps in zip(delays, zip(*rounds, strict=True), strict=True):
        assert delay <= min(gaps) <= delay + late
