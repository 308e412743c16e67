"""Worker processes killed at every step between the claim and the mark: everybody is told, and nobody twice.

How it is counted: one crash is one delivery that was at the step when its process died, of a job that was not over. The
processes write down each step that a delivery comes to, before they go on; at the step at which one is to die, deliveries
wait until all of them are there, and then it kills itself (SIGKILL). So the last line about a delivery is where it was, and
its row must say what a row may say there. In the middle of a transaction the moment is drawn; whatever deliveries have come
to by then is the step that is counted.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from delivery_pipelines import BLIND, KINDS

from support import effort

CRASHES = effort.size(800, 3000)
"""About how many are wanted at least, over both databases."""
SEED = int(os.environ.get("REPRIEVE_SEED", "1"))

BEFORE = ["claimed", "preparing", "preparing unsaid", "prepared", "beginning", "beginning unsaid", "begun"]
AFTER = ["answered", "ending", "ending unsaid", "ended"]
OF_MAIL = ["connected", "mail", "rcpt", "data", "half", "whole"]
OF_HOOKS = ["connected", "headers", "half", "whole"]
OF_MAILDIR = ["aside", "moved"]
ON_THE_WAY = {kind: OF_MAILDIR if kind == "maildir" else OF_MAIL if "mail" in kind else OF_HOOKS for kind in KINDS}
STEPS = {kind: [*BEFORE, *ON_THE_WAY[kind], *AFTER] for kind in KINDS}
ROUNDS = [
    *[(step,) for step in BEFORE],
    ("connected", "aside"), ("mail", "headers", "moved"), ("rcpt", "half"), ("data", "whole"), ("half",), ("whole",),
    *[(step,) for step in AFTER],
]  # fmt: skip
"""At which steps processes die: a delivery stops at the first of them that its sender comes by."""
IN_A_TRANSACTION = ["preparing", "beginning", "ending"]

LATER = [("looking",), ("looked",), ("look ending",), ("look ending unsaid",), ("look ended",), ("whole", "moved")]
"""Where processes die that reconcile what others have left; the last ones while they send it again."""
FIRST = ["begun", "answered"]
"""Where those others have died: before the message was sent, and after."""
ASKED = ["mail", "asked-hook", "maildir"]
"""Whose providers can be asked."""

AS_A_SWEEP = {
    "to be looked up",
    "looking",
    "looked",
    "look beginning",
    "look beginning unsaid",
    "look ending",
    "look ending unsaid",
    "look ended",
}
"""Where a delivery is that a slow provider left in doubt, and that was asked about before its process died."""
STATUS = {
    "claimed": {None}, "preparing": {None, "pending"}, "preparing unsaid": {"pending"}, "prepared": {"pending"},
    "beginning": {"pending", "sending"}, "ending": {"sending", "sent"}, "ending unsaid": {"sent"}, "ended": {"sent"},
    # On a slow machine a provider may answer too late. The sweep holds a delivery whose provider cannot be asked.
    "failing": {"sending", "pending", "uncertain", "held"}, "failing unsaid": {"pending", "uncertain", "held"},
    "failed": {"pending", "uncertain", "held"},
    **{step: {"sending", "uncertain", "reconciling", "pending", "sent"} for step in AS_A_SWEEP},
}  # fmt: skip
"""What a row may say after a crash at a step; `sending` where nothing else is said."""
UNKNOWN = {"whole", "came to doubt", "came to put_off", "failing"}
"""Where a message has left, and nobody knows whether it arrived; or was given up, as providers are slow on a busy machine."""
TAKEN = {"moved", "answered", "ending", "ending unsaid", "ended"}
"""Where the provider has it."""


@dataclass
class Crash:
    """A process that died: what the database said of its deliveries, and which jobs were not over."""

    pid: int
    rows: dict[int, dict[str, Any]]
    jobs: set[int]


@dataclass
class Line:
    """A line of the report."""

    crashes: int = 0
    stood: Counter[str] = field(default_factory=Counter)
    """What the rows said."""
    came: Counter[str] = field(default_factory=Counter)
    """What became of them, and how."""
    messages: Counter[int] = field(default_factory=Counter)
    """Of how many deliveries there are how many messages, before a person does anything."""


class Cycle:
    """Every step once, with so many recipients for a kind of sender; then one recovery."""

    def __init__(self, theatre, number, recipients, draw):
        self.theatre, self.number, self.recipients, self.draw = theatre, number, recipients, draw
        self.crashes = []
        self.again = []

    def run(self):
        self.begin_those_that_are_looked_for_later()
        for steps in ROUNDS:
            self.die_at(steps, delay=0.0)
        for step in IN_A_TRANSACTION:
            for longest in (0.001, 0.004):
                self.die_at((step,), delay=self.draw.uniform(0.00001, longest))
        self.theatre.wait_until_due("later")
        for steps in LATER:
            self.die_while_reconciling(steps)
        self.theatre.recover()

    def crash(self, steps, pipelines, crashes, **options):
        pid = self.theatre.die_at(*steps, pipelines=pipelines, **options)
        jobs = {row["job_id"] for row in self.theatre.lab.rows("queue")}
        crashes.append(Crash(pid, self.theatre.rows(), jobs))

    def die_at(self, steps, *, delay):
        pipeline = self.name(*steps, f"{delay:.6f}")
        self.theatre.submit(pipeline, [(kind, self.recipients) for kind in KINDS])
        stopped = [kind for kind in KINDS if set(steps) & set(STEPS[kind])]
        of_each = 1 if set(steps) <= {"claimed", "preparing", "preparing unsaid"} else self.recipients
        self.crash(steps, [pipeline], self.crashes, expected=len(stopped) * of_each, delay=delay)

    def begin_those_that_are_looked_for_later(self):
        for first in FIRST:
            pipelines = [self.name("later", *steps, first) for steps in LATER]
            for pipeline in pipelines:
                self.theatre.submit(pipeline, [(kind, 3) for kind in ASKED])
            expected = 3 * len(ASKED) * len(pipelines)
            self.crash([first], pipelines, self.crashes, expected=expected)

    def die_while_reconciling(self, steps):
        pipelines = [self.name("later", *steps, first) for first in FIRST]
        expected = 3 * len(ASKED) * (1 if "whole" in steps else 2)
        self.crash(steps, pipelines, self.again, expected=expected)

    def name(self, *words):
        return f"{'-'.join(words).replace(' ', '-')}.{self.number}"

    def crashed(self, crashes, *, by_job):
        """Deliveries that were under way when a process died: the crash, which, and at which step."""
        rows = self.theatre.rows()
        for crash in crashes:
            for number, step in self.theatre.trail(crash.pid, by_job=by_job).items():
                if rows[number]["job_id"] in crash.jobs and step != "left":
                    yield crash, rows[number], step


def check_row(row, step, before, log, number):
    """What one crash has come to, in words for the report."""
    kind = row["sender"].partition(".")[0]
    status = None if before is None else before["status"]
    assert status in STATUS.get(step, {"sending"}), f"{row['id']} was at {step!r} with a row that says {status!r}"
    came = row["status"], log
    assert number <= 1, f"{row['id']} was at {step!r}: {number} messages"
    if "send doubt" in log or step in AS_A_SWEEP:
        assert row["status"] == ("held" if kind in BLIND else "sent")
        assert number == 1 or kind in BLIND
        return "recovered in doubt, " + ("held" if kind in BLIND else "found out")
    if status == "sending" and kind in BLIND:
        assert came == ("held", ["sweep held"])
        assert number in ({1} if step in TAKEN else {0, 1} if step in UNKNOWN else {0})
        assert row["notified_at"] is None
        return "held"
    assert row["notified_at"] is not None
    assert row["notification_id"] is not None
    assert number == 1, f"{row['id']} was at {step!r}: {number} messages"
    if status != "sending":
        assert came == ("sent", ["send accepted"])
        return "was marked" if status == "sent" else "sent"
    if kind == "keyed-hook":
        assert came == ("sent", ["send accepted"])
        assert row["attempts"] > 1
        return "sent again with its key"
    if log == ["look_up found"]:
        assert row["status"] == "sent"
        assert step in TAKEN | UNKNOWN
        return "found, backfilled"
    assert came == ("sent", ["look_up absent", "send accepted"])
    assert step not in TAKEN
    return "absent, sent again"


def check_cycle(theatre, cycle, report):
    """Each crash by what it left and what it came to."""
    log, have = theatre.log(), theatre.providers.have()
    again = {row["id"] for _, row, _ in cycle.crashed(cycle.again, by_job=False)}
    for crash, row, step in cycle.crashed(cycle.crashes, by_job=True):
        line, before = report.setdefault(step, Line()), crash.rows.get(row["id"])
        line.crashes += 1
        line.stood["not there" if before is None else before["status"]] += 1
        if row["id"] in again:
            line.came["crashed again"] += 1
            continue
        line.came[check_row(row, step, before, log[row["id"]], have[row["token"]])] += 1
        line.messages[have[row["token"]]] += 1
    for crash, row, step in cycle.crashed(cycle.again, by_job=False):
        line, tried = report.setdefault(f"{step}, later", Line()), log[row["id"]]
        line.crashes += 1
        line.stood[crash.rows[row["id"]]["status"]] += 1
        assert (row["status"], have[row["token"]]) == ("sent", 1), f"{row['id']} was at {step!r}"
        assert tried[-1] in {"look_up found", "send accepted"}
        line.came[", ".join(tried)] += 1
        line.messages[1] += 1


def table(report):
    def shown(counted):
        return "; ".join(f"{number} {what}" for what, number in sorted(counted.items(), key=str))

    rows = [("step", "crashes", "rows at the crash", "what became of them", "deliveries x messages")]
    for step, line in report.items():
        messages = "; ".join(f"{number} x {each}" for each, number in sorted(line.messages.items()))
        rows.append((step, str(line.crashes), shown(line.stood), shown(line.came), messages))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def tell_all(theatre, report, tell, root):
    total = sum(line.crashes for line in report.values())
    processes = len([process for process in theatre.lab.processes if process.code == -9])
    text = f"{total} crashes of deliveries in {processes} killed processes\n{table(report)}"
    tell(text)
    reports = Path(root) / ".reports"
    reports.mkdir(exist_ok=True)
    (reports / f"delivery-crashes-{theatre.lab.url.partition(':')[0]}.txt").write_text(f"{text}\n")
    return total


@pytest.mark.campaign
@pytest.mark.spec("REV-9.1", "REV-7.1")
def test_everybody_is_told_once_at_whatever_step_the_process_is_killed(theatre, tell, pytestconfig):
    recipients = 5 if CRASHES <= 1000 else 10
    draw, report = random.Random(SEED), {}
    for number in range(max(1, round(CRASHES / (240 * recipients)))):
        cycle = Cycle(theatre, number, recipients, draw)
        cycle.run()
        theatre.check_jobs()
        check_cycle(theatre, cycle, report)
    total = tell_all(theatre, report, tell, pytestconfig.rootpath)
    assert total >= min(200, CRASHES)
    steps = {step for kind in KINDS for step in STEPS[kind]} | {f"{step}, later" for steps in LATER for step in steps}
    assert set(report) >= steps
    theatre.settle()
    theatre.check_settled()
