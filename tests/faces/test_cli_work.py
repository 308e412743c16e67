"""`reprieve work`, as processes."""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

NAPS = """
import asyncio, pathlib, reprieve

slow = reprieve.Pipeline("slow")

@slow.stage
async def nap(job: reprieve.Job[dict]) -> int:
    while not pathlib.Path("enough").exists():
        await asyncio.sleep(0.05)
    return 1
"""


def reprieve(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "reprieve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ended(process):
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out, err


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "not within a minute"
        time.sleep(0.05)


def children_of(parent):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            if path.read_text().rpartition(")")[2].split()[1] == str(parent):
                found.append(path.parent.name)
    return found


def command_line(pid):
    return (Path("/proc") / pid / "cmdline").read_text().replace("\0", " ")


def test_a_worker_works_until_nothing_is_left(command):
    for number in (1, 13):
        command("submit", "review", f'{{"n": {number}}}')
    code, _, err = ended(reprieve("work", "review", "--until-idle", "--concurrency", 5))
    assert code == 0
    assert "working on review, 5 jobs at a time" in err
    assert "thirteen" in err
    assert [job["status"] for job in command("jobs", "list", "--json").json["jobs"]] == ["dead_letter", "succeeded"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_ends_what_it_does_and_leaves(command, tmp_path, number):
    (tmp_path / "naps.py").write_text(NAPS)
    command("submit", "slow", "{}", "--app", "naps")
    worker = reprieve("work", "--app", "naps")
    until(lambda: command("jobs", "show", 1, "--json").json["status"] == "in_progress")
    worker.send_signal(number)
    (tmp_path / "enough").touch()
    code, _, err = ended(worker)
    assert code == 0
    assert err.endswith("reprieve.worker: stopped; jobs that were handed back: 0\n")
    assert command("jobs", "show", 1, "--json").json["status"] == "succeeded"


def test_one_process_works_on_a_file(command):
    command("db", "upgrade")
    first = reprieve("work")
    until(lambda: command("stages", "list", "--json").json)
    code, _, err = ended(reprieve("work"))
    assert code == 2
    assert "another process works on this file already" in err
    assert "working on" not in err
    first.terminate()
    assert ended(first)[0] == 0
    code, _, err = ended(reprieve("work", "--processes", 2))
    assert code == 2
    assert "one working process at a time" in err


def test_several_processes_share_a_server(command, postgres_url, monkeypatch):
    monkeypatch.setenv("REPRIEVE_URL", postgres_url)
    for number in range(20):
        command("submit", "review", f'{{"n": {number + 100}}}')
    code, _, _ = ended(reprieve("work", "--processes", 2, "--until-idle"))
    assert code == 0
    counts = {job["status"] for job in command("jobs", "list", "--json").json["jobs"]}
    assert counts == {"succeeded"}


def test_a_password_is_on_no_childs_command_line(command, postgres_url):
    password = "hunter" + "2secret"
    url = postgres_url.replace("postgres:@", f"postgres:{password}@")
    supervisor = reprieve("work", "--processes", 2, "--url", url)
    try:
        until(lambda: len(command("stages", "list", "--json", "--url", url).json) == 2)
        commands = [each for each in map(command_line, children_of(supervisor.pid)) if " work " in each]
        assert len(commands) == 2
        assert password not in "".join(commands)
    finally:
        supervisor.terminate()
    assert ended(supervisor)[0] == 0


def test_settings_reach_every_process(command, postgres_url):
    settings = "--concurrency 7 --lease 20s --grace 3s --poll 500s --log-level warning"
    supervisor = reprieve("work", "--processes", 2, "--url", postgres_url, *settings.split())
    try:
        until(lambda: len(command("stages", "list", "--json", "--url", postgres_url).json) == 2)
        commands = [each for each in map(command_line, children_of(supervisor.pid)) if " work " in each]
    finally:
        supervisor.terminate()
    assert ended(supervisor)[0] == 0
    assert len(commands) == 2
    assert all(settings in each for each in commands)


def test_a_library_that_tells_of_every_call_is_not_heard(command, tmp_path):
    loud = "import logging, reprieve\nloud = reprieve.Pipeline('loud')\n@loud.stage\nasync def call(job: reprieve.Job[int]) -> int:\n    logging.getLogger('httpx').info('GET https://host/?token=42')\n    logging.getLogger('httpx').warning('slow')\n    return 1\n"
    (tmp_path / "loud.py").write_text(loud)
    command("submit", "loud", "1", "--app", "loud")
    _, _, err = ended(reprieve("work", "--app", "loud", "--until-idle"))
    assert "token" not in err
    assert "WARNING httpx: slow" in err


def test_a_worker_can_be_told_to_say_less(command):
    for number in (1, 13):
        command("submit", "review", f'{{"n": {number}}}')
    code, _, err = ended(reprieve("work", "--until-idle", "--log-level", "error"))
    assert code == 0
    assert "working on" not in err
    assert "thirteen" in err


def test_a_worker_that_stops_says_what_still_runs_and_a_second_signal_waits_for_nothing(command, tmp_path):
    slow = "import asyncio, reprieve\nslow = reprieve.Pipeline('slow')\n@slow.stage\nasync def nap(job: reprieve.Job[dict]) -> int:\n    await asyncio.sleep(600)\n    return 1\n"
    (tmp_path / "naps.py").write_text(slow)
    command("submit", "slow", "{}", "--app", "naps")
    worker = reprieve("work", "--app", "naps", "--grace", "500s")
    until(lambda: command("jobs", "show", 1, "--json").json["status"] == "in_progress")
    worker.terminate()
    while "stopping: 1 job" not in (line := worker.stderr.readline()):
        assert line, "it ended without a word"
    worker.terminate()
    assert ended(worker)[0] == 0
    assert command("jobs", "show", 1, "--json").json["state"] == "ready"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["revew"], "did you mean 'review'"),
        (["--app", "none"], "no module 'none'"),
        (["--grace", "long"], "'long' is no length of time"),
        (["--concurrency", "0"], "--concurrency"),
        (["--lease", "soon"], "'soon' is no length of time"),
        (["--lease", "0.1s"], "lease must be"),
        (["--poll", "0s"], "poll must be"),
        (["--log-level", "loud"], "--log-level"),
        (["--url", "mysql://x/y"], "sqlite:///"),
    ],
)
def test_what_a_person_got_wrong_is_told_in_a_sentence(command, arguments, says):
    code, _, err = ended(reprieve("work", *arguments))
    assert code == 2
    assert says in err
    assert "working on" not in err
