"""`reprieve dead replay --group` and `reprieve dead campaigns`: starting, following, steering, for people and for scripts."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from reprieve.faces.cli.campaigns import read_rate, read_waves

MENDABLE = """
from pathlib import Path
import reprieve

orders = reprieve.Pipeline("orders")


@orders.stage
async def ship(job: reprieve.Job[int]) -> int:
    if not Path("mended").exists() or Path(f"still-{job.payload}").exists():
        raise reprieve.Permanent("the warehouse is closed")
    return job.payload
"""
STEPS = ("--cause", "code", "--evidence", "deployed 1.2", "--safe", "--actor", "ada", "--yes")


class Orders:
    """Orders that cannot be shipped until the file `mended` is there."""

    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        (folder / "mendable.py").write_text(MENDABLE)
        lines = "\n".join(str(number) for number in range(12))
        command("submit", "orders", "--lines", "-", text=lines)
        command("work", "--until-idle")
        (group,) = command("dead", "groups", "--json").json["groups"]
        self.group = group["fingerprint"]

    def __call__(self, *arguments):
        return self.command("dead", *arguments)

    def mend(self):
        (self.folder / "mended").touch()

    def work(self):
        self.command("work", "--until-idle", "--log-level", "error")

    @contextlib.contextmanager
    def working(self):
        """A worker in another process."""
        worker = subprocess.Popen([sys.executable, "-m", "reprieve", "work", "--log-level", "error"])
        try:
            yield
        finally:
            worker.terminate()
            worker.wait(timeout=60)

    def start(self, *arguments, **options):
        """A command in a process of its own."""
        return subprocess.Popen([sys.executable, "-m", "reprieve", "dead", *arguments], **options)


@pytest.fixture
def orders(command, tmp_path, monkeypatch):
    monkeypatch.setenv("REPRIEVE_APP", "mendable")
    monkeypatch.delitem(sys.modules, "mendable", raising=False)
    return Orders(command, tmp_path)


def test_a_group_is_replayed_and_followed_to_its_end(orders):
    orders.mend()
    with orders.working():
        done = orders("replay", "--group", orders.group, *STEPS)
    assert done.code == 0, done.err
    assert "campaign 1 replays 12 dead letters, a few first" in done.out
    *_, last, following = done.out.splitlines()
    assert "campaign 1 is done: 12 confirmed, 12 of 12 members" in last
    assert (
        following
        == f"next: verify what they did, and close them: reprieve dead verify --group {orders.group} --note '...'"
    )


def test_a_beginning_of_the_fingerprint_is_enough(orders):
    done = orders("replay", "--group", orders.group[3:9], *STEPS, "--detach", "--json")
    assert done.json["fingerprint"] == orders.group


def test_a_group_that_fails_again_ends_with_one_and_says_why(orders):
    orders.mend()
    (orders.folder / "still-1").touch()
    with orders.working():
        done = orders("replay", "--group", orders.group, *STEPS, "--json")
    assert done.code == 1
    looks = [json.loads(line) for line in done.out.splitlines()]
    assert looks[-1]["state"] == "stopped"
    assert looks[-1]["members"] == {
        "waiting": 9, "replaying": 0, "confirmed": 2, "returned": 1, "failed": 0, "left_out": 0,
    }  # fmt: skip
    assert "1 of 2 in wave 2 came back with DECLARED_PERMANENT again" in looks[-1]["reason"]
    shown = orders("campaigns", "show", 1)
    assert shown.code == 0
    assert "find out what the remedy missed" in shown.out


def test_gates_that_are_not_passed_are_told_with_one(orders):
    done = orders("replay", "--group", orders.group)
    assert done.code == 1
    assert "none of the 12 dead letters is approved" in done.err
    assert orders("campaigns", "list").out == "no campaigns: reprieve dead replay --group FINGERPRINT starts one\n"


def test_a_campaign_is_detached_paused_resumed_and_cancelled(orders):
    orders.mend()
    begun = orders(
        "replay", "--group", orders.group, *STEPS, "--detach", "--waves", "3", "--rate", "600/m", "--json"
    ).json
    assert (begun["waves"], begun["rate"], begun["state"], begun["members"]["waiting"]) == ([3], 10.0, "running", 12)
    paused = orders("campaigns", "pause", 1, "--reason", "lunch", "--actor", "eve", "--json").json
    assert (paused["state"], paused["changed_by"], paused["reason"]) == ("paused", "eve", "lunch")
    orders.work()
    assert orders("campaigns", "show", 1, "--json").json["members"]["waiting"] == 12
    refused = orders("campaigns", "pause", 1)
    assert (refused.code, refused.err) == (1, "reprieve: campaign 1 is paused: nothing to pause\n")
    assert "next: watch it: reprieve dead campaigns watch 1" in orders("campaigns", "resume", 1).out
    cancelled = orders("campaigns", "cancel", 1, "--reason", "rolled back")
    assert "rolled back" in cancelled.out
    steered = [(each["actor"], each["state"]) for each in orders("campaigns", "show", 1, "--json").json["history"]]
    assert ("eve", "paused") in steered, "who did it is not lost with the next change"
    assert "lunch" in orders("campaigns", "show", 1).out
    watched = orders("campaigns", "watch", 1)
    assert watched.code == 1
    assert "campaign 1 is cancelled: rolled back" in watched.out
    (listed,) = orders("campaigns", "list", "--state", "cancelled", "--json").json
    assert listed["campaign_id"] == 1
    assert orders("campaigns", "list", "--state", "running", "--json").json == []


def test_the_list_has_each_with_what_it_is_about_and_what_became_of_its_members(orders):
    orders.mend()
    orders("replay", "--group", orders.group, *STEPS, "--detach", "--all-at-once")
    orders.work()
    _, line, *below = orders("campaigns", "list").out.splitlines()
    assert line.split()[:4] == ["1", "done", "12", "ada"]
    assert below == [f"  DECLARED_PERMANENT {orders.group}", "  confirmed 12"]
    shown = orders("campaigns", "show", 1).out
    assert "by ada" in shown
    assert "confirmed" in shown


def test_ctrl_c_leaves_the_campaign_running_and_says_so(orders):
    following = orders.start(
        "replay", "--group", orders.group, *STEPS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in following.stdout:
        if "campaign 1 is running" in line:
            break
    following.send_signal(signal.SIGINT)
    _, told = following.communicate(timeout=60)
    assert following.returncode == 130
    assert "campaign 1 goes on without you" in told
    assert "reprieve dead campaigns watch 1" in told
    assert "Traceback" not in told
    assert orders("campaigns", "show", 1, "--json").json["state"] == "running"


def test_on_a_terminal_it_is_a_picture(orders):
    orders.mend()
    orders("replay", "--group", orders.group, *STEPS, "--detach", "--rate", "50/s")
    outside, inside = pty.openpty()
    child = orders.start(
        "campaigns", "watch", "1", "--interval", "0.05", stdin=inside, stdout=inside, stderr=inside,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(inside)
    shown = b""
    while b"wave" not in shown:  # before it begins
        shown += os.read(outside, 4096)
    with orders.working():
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(outside, 4096):
                shown += part
        os.close(outside)
        assert child.wait(timeout=60) == 0
    text = shown.decode()
    assert "\u2501\x1b[0m\r\n" in text, "a bar on a line of its own"
    assert re.search(r"wave \d of 6 \(\d+ at most\)", text)
    assert "of at most 50 a second" in text
    assert "12 of 12 members" in text
    assert "confirmed" in text


def test_what_cannot_be_is_refused_with_two(orders):
    for arguments in (
        ["replay", "--group", orders.group, "--rate", "fast"],
        ["replay", "--group", orders.group, "--rate", "0/s"],
        ["replay", "--group", orders.group, "--waves", "1,x"],
        ["replay", "--group", orders.group, "--waves", "0"],
        ["replay", "--group", orders.group, "--waves", "1", "--all-at-once"],
        ["replay", "--group", orders.group, "--wait"],
        ["replay", "1", "--group", orders.group],
        ["replay", "1", "--rate", "20/s"],
        ["replay", "1", "--detach"],
        ["campaigns", "list", "--state", "unheard-of"],
        ["campaigns", "watch", "1", "--interval", "0"],
        ["campaigns", "show", "x"],
    ):
        assert orders(*arguments).code == 2, arguments
    assert orders("campaigns", "list", "--json").json == []


def test_what_is_not_there_ends_with_one(orders):
    for verb in ("show", "watch", "pause", "resume", "cancel"):
        done = orders("campaigns", verb, 7)
        assert (done.code, done.err) == (1, "reprieve: no campaign is named '7'\n")
    assert orders("replay", "--group", "v1:ffffffff", *STEPS).code == 1


@pytest.mark.parametrize(
    ("text", "rate"),
    [("20/s", 20.0), ("20", 20.0), ("600/m", 10.0), ("1800 / h", 0.5), ("86400/d", 1.0), ("0.5/s", 0.5)],
)
def test_rates_are_read(text, rate):
    assert read_rate(text) == rate


def test_waves_are_read():
    assert read_waves("1,2,5") == (1, 2, 5)
    assert read_waves(" 3 ") == (3,)
