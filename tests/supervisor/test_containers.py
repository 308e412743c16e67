"""Tasks in real containers: their contract, every way to end, and that none is left behind."""

import asyncio
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from reprieve.core.task_end import TaskEndReason, TaskStatus
from reprieve.errors import UsageError
from reprieve.supervisor.containers import ContainerSpec, remove_abandoned, require_program
from reprieve.supervisor.task_runner import WorkerSpec
from support.tasks import containers, run_task, stop_soon
from support.trees import until

MEGABYTES = 1024 * 1024
READY = "touch $REPRIEVE_READY_FILE; "


def run(script, document=None, *, image, arguments=(), **spec):
    """Run a shell script as a task in a container."""
    container = ContainerSpec("podman", image, tuple(arguments))
    report = run_task(["sh", "-c", READY + script], document, container=container, **spec)
    assert containers() == [], "whatever happened, the container is removed"
    return report


def shown(report):
    return report.end.status, report.end.reason, report.error


def test_a_container_gets_the_task_as_a_file_and_returns_its_result(podman):
    script = 'printf \'{"status": "finished", "result": %s}\' "$(cat $REPRIEVE_TASK_FILE)" > $REPRIEVE_RESULT_FILE'
    report = run(script, {"id": 7}, image=podman)
    assert shown(report) == (TaskStatus.FINISHED, None, None)
    assert report.result == {"id": 7}


def test_the_output_of_a_container_is_kept(podman):
    report = run("echo out; echo err >&2; exit 3", image=podman)
    assert {"out", "err"} <= set(report.output.split())


@pytest.mark.spec("ORC-4.3")
def test_an_exit_code_of_a_container_is_a_crash(podman):
    report = run("exit 3", image=podman)
    assert shown(report) == (TaskStatus.FAILED, TaskEndReason.CRASH, "Process crashed")
    assert report.end.exit_code == 3


@pytest.mark.spec("ORC-4.3")
def test_the_code_137_is_out_of_memory_only_with_a_limit(podman):
    eats = "exec dd if=/dev/zero of=/dev/null bs=200M count=1"
    limited = run(eats, image=podman, memory_bytes=32 * MEGABYTES)
    assert shown(limited) == (TaskStatus.FAILED, TaskEndReason.OUT_OF_MEMORY, "Process crashed")
    killed = run("exit 137", image=podman)
    assert (killed.end.reason, killed.end.signal) == (TaskEndReason.KILLED, signal.SIGKILL)


@pytest.mark.spec("ORC-3.5")
def test_a_container_that_takes_too_long_is_killed(podman):
    report = run("sleep 600", image=podman, task_timeout_seconds=0.5)
    assert (report.end.status, report.end.reason) == (TaskStatus.FAILED, TaskEndReason.TIMEOUT)


@pytest.mark.spec("ORC-3.2")
def test_a_container_that_is_never_ready_is_killed(podman):
    container = ContainerSpec("podman", podman)
    report = run_task(["sleep", "600"], container=container, spawn_timeout_seconds=1.0)
    assert (report.end.status, report.end.reason) == (TaskStatus.FAILED, TaskEndReason.SPAWN_TIMEOUT)
    assert not report.end.is_retryable
    assert containers() == []


def test_a_cancelled_container_is_removed(podman, monkeypatch):
    monkeypatch.setattr("reprieve.supervisor.task_runner._SECONDS_TO_STOP", 0.3)
    report = run("sleep 600", image=podman, meanwhile=stop_soon())
    assert (report.end.status, report.end.reason) == (TaskStatus.STOPPED, TaskEndReason.CANCELLED)


def test_a_container_sees_only_what_is_named_and_no_value_is_on_a_command_line(podman, monkeypatch, tmp_path):
    monkeypatch.setenv("NAMED", "value-of-the-named")
    monkeypatch.setenv("OTHER", "value-of-the-other")
    monkeypatch.setenv("REPRIEVE_URL", "postgresql://jobs@db/reviews")
    lines = tmp_path / "lines"

    def look(run):
        lines.write_bytes(b"\n".join(command_lines()))

    report = run("env; sleep 0.5; exit 3", image=podman, env=("NAMED",), meanwhile=look)
    assert "NAMED=value-of-the-named" in report.output
    assert "value-of-the-other" not in report.output
    assert "postgresql" not in report.output
    assert b"NAMED" in lines.read_bytes()
    assert b"value-of-the" not in lines.read_bytes()


def command_lines():
    """Return the command lines of all processes."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            found.append((entry / "cmdline").read_bytes())
    return found


def test_an_image_that_does_not_exist_cannot_be_started(podman):
    report = run("true", image="localhost/reprieve-missing:1", arguments=["--pull=never"])
    assert report.end.reason == TaskEndReason.START_ERROR
    assert not report.end.is_retryable
    assert report.error.startswith("Worker could not be started:")


def test_a_command_that_the_image_does_not_have_cannot_be_started(podman):
    report = run_task(["/nowhere"], container=ContainerSpec("podman", podman))
    assert report.end.reason == TaskEndReason.START_ERROR


@pytest.mark.parametrize("target", ["/etc/hostname", "/proc/self/environ"])
def test_a_result_that_is_a_link_leads_to_no_file_of_the_host(podman, target):
    report = run(f"ln -s {target} $REPRIEVE_RESULT_FILE", image=podman)
    assert shown(report) == (TaskStatus.FINISHED, None, None)
    assert report.result is None


def test_a_result_file_that_is_too_large_is_refused(podman):
    report = run("dd if=/dev/zero of=$REPRIEVE_RESULT_FILE bs=1M count=2", image=podman)
    assert report.end.reason == TaskEndReason.INVALID_RESULT


PARENT = """
import asyncio, sys
from reprieve.supervisor.containers import ContainerSpec
from reprieve.supervisor.task_runner import Task, TaskRun, WorkerSpec

async def main():
    spec = WorkerSpec(("sh", "-c", "touch $REPRIEVE_READY_FILE; sleep 600"), ContainerSpec("podman", sys.argv[1]))
    await TaskRun(Task("1-0", 1, b"{}"), spec, on_started=lambda _: print("up", flush=True)).run()

asyncio.run(main())
"""


@pytest.fixture
def parent(podman):
    with subprocess.Popen([sys.executable, "-c", PARENT, podman], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()
    asyncio.run(remove_abandoned("podman", os.environ))


def test_the_warden_removes_the_container_when_the_supervisor_is_killed(parent):
    assert len(containers()) == 1
    parent.kill()
    until(lambda: containers() == [])


def wardens_of(pid):
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(each) for each in children.stdout.split()]


def test_the_next_start_removes_the_container_when_the_warden_was_killed_too(parent):
    os.kill(parent.pid, signal.SIGSTOP)
    for pid in wardens_of(parent.pid):
        os.kill(pid, signal.SIGKILL)
    parent.kill()
    parent.wait()
    time.sleep(0.3)
    assert len(containers()) == 1, "the container program runs it on"
    assert len(asyncio.run(remove_abandoned("podman", os.environ))) == 1
    assert containers() == []


def test_a_sweep_leaves_the_containers_of_living_supervisors(parent):
    assert asyncio.run(remove_abandoned("podman", os.environ)) == []
    assert len(containers()) == 1


# --- programs that fail -----------------------------------------------------------------------------------------------


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A `docker` that does what a test says: only for faults that no real one makes on demand."""

    def make(script):
        program = tmp_path / "bin" / "docker"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n{script}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return tmp_path / "calls"

    return make


DOCKER = ContainerSpec("docker", "worker:1")
NO_DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


def test_without_a_daemon_the_failure_is_permanent_and_has_the_programs_own_words(docker):
    docker(f"echo '{NO_DAEMON}' >&2; exit 125")
    report = run_task([], container=DOCKER)
    assert shown(report) == (
        TaskStatus.FAILED,
        TaskEndReason.START_ERROR,
        f"Worker could not be started: {NO_DAEMON}",
    )
    assert not report.end.is_retryable


def test_a_program_that_says_out_of_memory_is_believed(docker):
    state = json.dumps({"OOMKilled": True, "ExitCode": 1, "Error": ""})
    docker(f"case $1 in run) exit 1;; inspect) echo '{state}';; esac")
    report = run_task([], container=DOCKER, memory_bytes=64 * MEGABYTES)
    assert report.end.reason == TaskEndReason.OUT_OF_MEMORY


@pytest.mark.parametrize("answer", ["exit 1", "echo no json", "exec sleep 0.1"])
def test_a_program_that_does_not_say_how_it_ended_leaves_the_exit_code(docker, answer):
    docker(f"case $1 in run) exit 3;; inspect) {answer};; esac")
    report = run_task([], container=DOCKER)
    assert (report.end.reason, report.end.exit_code) == (TaskEndReason.CRASH, 3)


def test_the_container_is_removed_also_when_its_program_was_killed(docker):
    calls = docker("case $1 in run) sleep 600;; esac")
    report = run_task([], container=DOCKER, spawn_timeout_seconds=0.3)
    assert report.end.reason == TaskEndReason.SPAWN_TIMEOUT
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["run", "rm"]


def test_a_result_is_kept_where_the_folder_of_the_task_cannot_be_removed(docker, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    docker(
        'case $1 in run) folder=$(echo "$@" | grep -o "/[^ =:,]*reprieve-task-[^ =:,]*/task" | head -1);'
        """ echo '{"status": "finished", "result": 5}' > $folder/result.json;; esac"""
    )

    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    report = run_task([], container=DOCKER)
    assert (shown(report), report.result) == ((TaskStatus.FINISHED, None, None), 5)


def test_limits_and_labels_are_on_the_command(docker):
    calls = docker("exit 0")
    run_task(["work"], container=ContainerSpec("docker", "worker:1", ("--network=none",)), memory_bytes=64 * MEGABYTES)
    run = calls.read_text().splitlines()[0]
    assert "--memory=67108864 --memory-swap=67108864" in run
    assert "--pids-limit=512" in run
    assert "--label=reprieve.task=1-0" in run
    assert run.endswith("--network=none worker:1 work")


def test_a_program_that_is_not_installed_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="not on PATH"):
        WorkerSpec((), container=ContainerSpec("docker", "worker:1"))


@pytest.mark.parametrize(("program", "told"), [(None, "set container_program"), ("lxc", "'docker' or 'podman'")])
def test_a_program_must_be_one_that_is_known(program, told):
    with pytest.raises(UsageError, match=told):
        require_program(program)
