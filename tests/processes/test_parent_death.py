"""Processes that die with their parent, asked of the kernel or looked out for."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(__import__("os").getpid())], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
CHILD = """
import sys, threading, time
from reprieve.processes import parent_death
{how}
print("up", flush=True)
time.sleep(600)
"""
ASKED = "parent_death.exit_with_parent(int(sys.argv[1]), 15)"
LOOKED_OUT_FOR = "threading.Thread(target=parent_death._look_out_for, args=(int(sys.argv[1]), 15), daemon=True).start()"


def ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("how", [ASKED, LOOKED_OUT_FOR], ids=["by the kernel", "by looking"])
def test_a_process_dies_with_its_parent_however_that_dies(how):
    command = [sys.executable, "-c", PARENT, CHILD.format(how=how)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert not ended(pid)
        parent.kill()
    end = time.monotonic() + 30
    while not ended(pid):
        assert time.monotonic() < end, "it lives on"
        time.sleep(0.05)


@pytest.mark.parametrize("how", [ASKED, LOOKED_OUT_FOR], ids=["by the kernel", "by looking"])
def test_a_parent_that_was_gone_before_is_noticed_too(how):
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(how=how), "1"], timeout=60, check=False, stdout=subprocess.DEVNULL
    )
    assert done.returncode == -signal.SIGTERM
