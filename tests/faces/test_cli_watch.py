"""`reprieve jobs watch`: lines, JSON, and live on a terminal."""

import asyncio
import contextlib
import json
import os
import pty
import subprocess
import sys

import pytest

import reprieve


def test_watching_ends_by_itself_once_nothing_would_go_on(worked):
    worked("jobs", "cancel", 4)
    done = worked("jobs", "watch", "--until-done")
    assert done.code == 0
    (line,) = done.out.splitlines()
    assert "0 of 1 done" in line
    assert "needs_review 1" in line
    assert "nothing to wait for: no job would go on by itself" in done.err


def test_watching_where_no_job_is_open_says_so(command):
    command("db", "upgrade")
    done = command("jobs", "watch", "--until-done")
    assert done.code == 0
    assert "nothing to wait for: no job is open" in done.err


def test_progress_is_counted_from_the_first_look_on(worked, tmp_path):
    """Watch in a process while jobs are worked on here; one of them is given up."""
    from reviews import review  # noqa: PLC0415 - there only now

    watching = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "reprieve",
            "jobs",
            "watch",
            "-p",
            "review",
            "--json",
            "--until-done",
            "--interval",
            "0.05",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    first = json.loads(watching.stdout.readline())
    assert (first["done"], first["total"], first["jobs"]["succeeded"]) == (0, 2, 1)

    async def run():
        async with reprieve.connect("sqlite:///reprieve.db") as app:
            await app.operations.jobs.cancel(4, actor="ada")
            for number in (1, 2, 13):
                await app.submit(review, {"n": number})
            await app.work(review, until_idle=True)

    asyncio.run(run())
    rest, _ = watching.communicate(timeout=60)
    last = json.loads(rest.splitlines()[-1])
    assert (last["done"], last["total"]) == (4, 5)
    assert (last["jobs"]["succeeded"], last["jobs"]["dead_letter"], last["jobs"]["needs_review"]) == (3, 2, 1)
    assert watching.returncode == 1, "a job was dead-lettered meanwhile"


def test_stages_that_stand_still_are_told(worked):
    worked("stages", "pause", "review", "llm", "--actor", "ada", "--reason", "maintenance")
    worked("jobs", "cancel", 4)
    assert "review.llm paused by ada (maintenance)" in worked("jobs", "watch", "--until-done").out
    told = json.loads(worked("jobs", "watch", "--until-done", "--json").out)
    assert told["stopped"] == [{"pipeline": "review", "stage": "llm", "paused": True, "held_until": None}]


def test_on_a_terminal_it_is_a_picture(worked):
    worked("jobs", "cancel", 4)
    outside, inside = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "reprieve", "jobs", "watch", "--until-done"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(inside)
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(outside, 4096):
            shown += part
    os.close(outside)
    assert child.wait(timeout=60) == 0
    text = shown.decode()
    assert "\u2501\x1b[0m\r\n" in text, "a bar on a line of its own"
    assert "0 of 1 done" in text
    assert "needs_review" in text


def test_a_pipeline_that_is_not_there_ends_with_one(worked):
    done = worked("jobs", "watch", "-p", "revew")
    assert done.code == 1
    assert "did you mean 'review'" in done.err


@pytest.mark.parametrize("interval", ["0", "-1", "x"])
def test_an_interval_that_is_none_is_refused(worked, interval):
    assert worked("jobs", "watch", f"--interval={interval}").code == 2
