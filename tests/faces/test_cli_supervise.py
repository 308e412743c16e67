"""`reprieve supervise`, as processes."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from support.servers import free_ports
from support.stream_groups import Group
from support.tasks import serve
from support.trees import GROW, members_of, survivors, until

QUEUE = "engineering:queue"
READY = "import os; os.write(4, b'1')\n"


@pytest.fixture
def valkey(redis_servers):
    server = redis_servers("valkey")
    server.call("FLUSHALL")
    return Group(server, QUEUE, "workers")


def reprieve(*arguments, url="", **options):
    environment = {**os.environ, "REPRIEVE_STREAMS_URL": url, "REPRIEVE_ACTOR": "ops"}
    return subprocess.Popen(
        [sys.executable, "-m", "reprieve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def ended(process):
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, out, err


def results(group):
    rows = group.call("XRANGE", f"{QUEUE}:results", "-", "+")
    return [{row[1][i].decode(): row[1][i + 1].decode() for i in range(0, len(row[1]), 2)} for row in rows]


@contextmanager
def supervising(group, *arguments):
    with reprieve("supervise", QUEUE, "--group", "workers", *arguments, url=group.server.url) as process:
        try:
            yield process
        finally:
            process.kill()


def test_tasks_are_run_until_nothing_is_left(valkey):
    valkey.add_json({"n": 1}, {"n": 2})
    with supervising(valkey, "--body", "data", "--until-idle", "--", *serve("return task['n']")) as process:
        code, _, err = ended(process)
    assert code == 0, err
    assert sorted(each["result"] for each in results(valkey)) == ["1", "2"]


def test_what_runs_is_shown_and_one_task_cancelled(valkey, tmp_path):
    (task,) = valkey.add({"id": "7"})
    program = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}]\n{READY}{GROW}"
    with supervising(valkey, "--", sys.executable, "-c", program) as process:
        members = members_of(tmp_path)
        where = [QUEUE, "--group", "workers"]

        def status():
            code, out, err = ended(reprieve("supervise", "status", *where, "--json", url=valkey.server.url))
            assert code == 0, err
            return json.loads(out)

        until(lambda: [each["is_started"] for found in status() for each in found["tasks"]] == [True])
        (supervisor,) = status()
        assert (supervisor["pid"], supervisor["slots"], supervisor["is_silent"]) == (process.pid, 1, False)
        assert supervisor["tasks"][0]["id"] == task
        _, shown, _ = ended(reprieve("supervise", "status", *where, url=valkey.server.url))
        assert task in shown
        unknown = ended(
            reprieve("supervise", "cancel", QUEUE, "1-1", *where[1:], "--reason", "x", url=valkey.server.url)
        )
        assert unknown[0] == 1
        assert task in unknown[2], "it says which tasks run"
        cancel = reprieve(
            "supervise", "cancel", QUEUE, task, *where[1:], "--reason", "wrong input", url=valkey.server.url
        )
        assert ended(cancel)[0] == 0
        until(lambda: results(valkey))
        assert results(valkey)[0]["reason"] == "cancelled"
        assert survivors(members) == set()
        process.terminate()
        assert ended(process)[0] == 0


def test_nothing_is_left_when_the_program_is_killed(valkey, tmp_path):
    valkey.add({"id": "7"})
    program = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}]\n{READY}{GROW}"
    with supervising(valkey, "--", sys.executable, "-c", program) as process:
        members = members_of(tmp_path)
        process.kill()
    assert survivors(members) == set()


def test_workers_that_cannot_be_started_end_it_with_code_one(valkey):
    valkey.add({"id": "7"})
    with supervising(valkey, "--max-start-failures", "1", "--", "/nowhere/worker") as process:
        code, _, err = ended(process)
    assert code == 1
    assert "could not be started" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--image", "worker:1"], "container_program"),
        (["--image", "worker:1", "--container-program", "lxc"], "'docker' or 'podman'"),
        (["--container-program", "docker", "--", "true"], "need an --image"),
        ([], "needs a command"),
        (["--memory", "much", "--", "true"], "no size"),
        (["--env", "REPRIEVE_URL", "--", "true"], "belongs to Reprieve"),
        (["--output", QUEUE, "--", "true"], "choose another output"),
        (["--settings", "missing.toml", "--image", "worker:1"], "no settings file"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(valkey, arguments, told):
    with supervising(valkey, *arguments) as process:
        code, _, err = ended(process)
    assert code == 2
    assert told in err


def test_the_container_program_comes_from_the_settings(valkey, tmp_path):
    (tmp_path / "reprieve.toml").write_text('[supervisor]\ncontainer_program = "lxc"\n')
    command = ["supervise", QUEUE, "--group", "workers", "--image", "worker:1"]
    code, _, err = ended(reprieve(*command, url=valkey.server.url, cwd=tmp_path))
    assert code == 2
    assert "'docker' or 'podman', not 'lxc'" in err
    (tmp_path / "reprieve.toml").write_text('[supervisor]\nprogram = "docker"\n')
    code, _, err = ended(reprieve(*command, url=valkey.server.url, cwd=tmp_path))
    assert code == 2
    assert "container_program" in err


def test_a_queue_without_supervisors_is_told_so(valkey):
    code, out, _ = ended(reprieve("supervise", "status", QUEUE, "--group", "workers", url=valkey.server.url))
    assert (code, out) == (0, f"no supervisor of {QUEUE} in the group workers\n")


def test_the_address_comes_from_the_section_of_streams_too(valkey, tmp_path):
    valkey.add({"id": "7"})
    (tmp_path / "reprieve.toml").write_text(f'[streams]\nurl = "{valkey.server.url}"\n')
    command = ["supervise", QUEUE, "--group", "workers", "--until-idle", "--", "true"]
    code, _, err = ended(reprieve(*command, cwd=tmp_path))
    assert code == 0, err
    assert [each["status"] for each in results(valkey)] == ["finished"]
    status = ["supervise", "status", QUEUE, "--group", "workers", "--settings", tmp_path / "reprieve.toml"]
    assert ended(reprieve(*status))[0] == 0


@pytest.mark.parametrize("command", [["run", QUEUE], ["status", QUEUE], ["cancel", QUEUE, "1-1", "--reason", "x"]])
def test_without_an_address_the_ways_to_give_one_are_told(tmp_path, command):
    code, _, err = ended(reprieve("supervise", *command, "--group", "workers", cwd=tmp_path))
    assert code == 2
    for way in ("--redis-url", "REPRIEVE_STREAMS_URL", "[streams]"):
        assert way in err


@pytest.mark.parametrize("command", [["status", QUEUE], ["cancel", QUEUE, "1-1", "--reason", "x"]])
def test_a_question_to_a_redis_that_is_away_is_answered_at_once(command):
    (port,) = free_ports(1)
    began = time.monotonic()
    code, out, err = ended(reprieve("supervise", *command, "--group", "workers", url=f"redis://127.0.0.1:{port}/0"))
    assert code == 2
    assert time.monotonic() - began < 5
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert f"127.0.0.1:{port}" in err


@pytest.mark.spec("ORC-4.2")
def test_a_redis_that_is_away_is_asked_again_and_told_in_a_sentence():
    (port,) = free_ports(1)
    command = ["supervise", QUEUE, "--group", "workers", "--until-idle", "--", "true"]
    code, _, err = ended(reprieve(*command, url=f"redis://127.0.0.1:{port}/0"))
    assert code == 2
    assert err.count("trying again in") == 3
    assert "System unavailable, try again later: Redis at 127.0.0.1" in err
