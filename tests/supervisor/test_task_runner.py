"""One task in one process: its input, its result, and every way to end."""

import asyncio
import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import reprieve
from reprieve.app.redaction import forget_secrets, register_secret
from reprieve.core.policy import Cause
from reprieve.core.task_end import TaskEndReason, TaskStatus, TaskStopReason
from reprieve.errors import UsageError
from reprieve.processes import warden
from reprieve.supervisor.task_runner import Task, TaskRun, WorkerSpec, task_limits
from support.tasks import python, run_task, serve, stop_soon
from support.trees import GROW, grow, is_gone, members_of, survivors, until

READY = "import os; os.write(int(os.environ['REPRIEVE_READY_FD']), b'1')\n"
MEGABYTES = 1024 * 1024


def shown(report):
    return report.end.status, report.end.reason, report.error


def test_a_worker_gets_the_task_and_returns_its_result():
    report = run_task(serve("return {'got': task}"), {"id": 7, "name": "Zoë"})
    assert shown(report) == (TaskStatus.FINISHED, None, None)
    assert report.result == {"got": {"id": 7, "name": "Zoë"}}
    assert report.pid > 0


def test_an_async_function_is_served_too():
    program = "from reprieve.supervisor import serve\nasync def work(task): return task + 1\nserve(work)"
    assert run_task(python(program), 41).result == 42


def test_a_command_in_any_language_can_be_a_worker():
    script = 'read task; printf x >&$REPRIEVE_READY_FD; echo "{\\"status\\": \\"finished\\", \\"result\\": $task}" >&$REPRIEVE_RESULT_FD'
    assert run_task(["sh", "-c", script], [1, 2]).result == [1, 2]


def test_exit_code_zero_without_a_result_is_finished():
    report = run_task(["true"])
    assert shown(report) == (TaskStatus.FINISHED, None, None)
    assert report.result is None


def test_a_worker_knows_task_and_attempt():
    report = run_task(
        serve("return [os.environ['REPRIEVE_TASK_ID'], os.environ['REPRIEVE_TASK_ATTEMPT']]"), task_id="5-1"
    )
    assert report.result == ["5-1", "1"]


def test_what_a_worker_starts_does_not_see_the_descriptors_of_the_contract():
    report = run_task(serve("return sorted(name for name in os.environ if name.startswith('REPRIEVE_'))"))
    assert report.result == ["REPRIEVE_RESULT_FD", "REPRIEVE_TASK_ATTEMPT", "REPRIEVE_TASK_ID"]


def test_a_task_of_many_megabytes_arrives(tmp_path):
    document = "x" * (20 * MEGABYTES)
    assert run_task(serve("return len(task)"), document).result == len(document)


@pytest.mark.spec("ORC-4.4")
def test_an_exception_is_an_error_with_its_message_and_without_secrets():
    secret = "-".join(str(number) for number in range(4)) + "zz"
    report = run_task(serve(f"raise ValueError('Invalid project_id, password={secret}')"))
    assert (report.end.status, report.end.reason) == (TaskStatus.ERROR, TaskEndReason.EXCEPTION)
    assert report.error.startswith("Invalid project_id")
    assert secret not in report.error + report.output
    assert report.exception_type == "ValueError"
    assert not report.end.is_retryable


@pytest.mark.spec("ORC-4.4")
def test_an_exception_says_whether_another_attempt_may_help():
    report = run_task(serve("raise ConnectionRefusedError(111, 'Connection refused')"))
    assert report.end.status == TaskStatus.ERROR
    assert report.end.is_retryable
    assert report.error_class == "CONNECTION_REFUSED"


def test_an_error_written_by_hand_is_sanitized_too():
    secret = "-".join(str(number) for number in range(4)) + "zz"
    register_secret(secret, name="of-this-test")
    try:
        script = (
            f'echo "{{\\"status\\": \\"error\\", \\"error\\": \\"no access with {secret}\\"}}" >&$REPRIEVE_RESULT_FD'
        )
        report = run_task(["sh", "-c", script])
    finally:
        forget_secrets("of-this-test")
    assert report.end.status == TaskStatus.ERROR
    assert secret not in report.error


@pytest.mark.spec("ORC-4.3")
@pytest.mark.parametrize(
    ("program", "reason", "code", "number"),
    [
        ("raise SystemExit(3)", TaskEndReason.CRASH, 3, None),
        ("import sys; sys.exit('wrong')", TaskEndReason.CRASH, 1, None),
        ("import os; os.abort()", TaskEndReason.CRASH, None, signal.SIGABRT),
        ("import os; os.kill(os.getpid(), 11)", TaskEndReason.CRASH, None, signal.SIGSEGV),
        ("import os; os.kill(os.getpid(), 9)", TaskEndReason.KILLED, None, signal.SIGKILL),
    ],
)
def test_a_worker_that_ends_otherwise_has_crashed(program, reason, code, number):
    report = run_task(python(READY + program))
    assert shown(report) == (TaskStatus.FAILED, reason, "Process crashed")
    assert (report.end.exit_code, report.end.signal) == (code, number)
    assert report.end.cause == Cause.CRASH


@pytest.mark.spec("ORC-4.3")
@pytest.mark.skipif(not warden.own_group_folders(), reason="no control groups here")
def test_a_worker_over_its_memory_limit_is_told_from_one_that_was_killed():
    eats = python(READY + "held = []\nwhile True: held.append(bytearray(1_000_000))")
    report = run_task(eats, memory_bytes=48 * MEGABYTES)
    if report.memory_limit == "rlimit":
        pytest.skip("no control group can be made here")
    assert shown(report) == (TaskStatus.FAILED, TaskEndReason.OUT_OF_MEMORY, "Process crashed")
    assert report.end.cause == Cause.OUT_OF_MEMORY


@pytest.mark.spec("ORC-3.5")
def test_a_task_that_takes_too_long_is_killed_with_its_whole_tree(tmp_path):
    program = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}]\n{READY}{GROW}"
    report = run_task(python(program), task_timeout_seconds=1.0)
    assert shown(report) == (TaskStatus.FAILED, TaskEndReason.TIMEOUT, "Task timed out after 1 s")
    assert report.end.is_retryable
    assert survivors(members_of(tmp_path), 0.0) == set()


@pytest.mark.spec("ORC-3.2")
def test_a_worker_that_is_never_ready_is_killed_and_the_failure_is_permanent(tmp_path):
    report = run_task(grow(tmp_path), spawn_timeout_seconds=0.5)
    assert shown(report) == (TaskStatus.FAILED, TaskEndReason.SPAWN_TIMEOUT, "Worker was not ready within 0.5 s")
    assert not report.end.is_retryable
    assert survivors(members_of(tmp_path), 0.0) == set()


@pytest.mark.spec("ORC-3.2", "ORC-3.5")
def test_the_limits_of_the_specification_are_the_defaults():
    limits = task_limits(WorkerSpec(("true",)), reprieve.load_profiles()["orchestrator"])
    assert (limits.spawn_seconds, limits.task_seconds) == (60.0, 1800.0)
    assert task_limits(WorkerSpec(("true",))) == limits


def test_a_command_without_readiness_counts_as_ready_when_it_runs():
    report = run_task(["sleep", "0.3"], spawn_timeout_seconds=0.2, waits_for_ready=False)
    assert report.end.status == TaskStatus.FINISHED


def test_the_time_to_get_ready_is_not_of_the_task():
    slow = python("import time; time.sleep(0.6)\n" + READY + "import time; time.sleep(0.1)")
    assert run_task(slow, task_timeout_seconds=0.5).end.status == TaskStatus.FINISHED


def test_a_command_that_does_not_exist_cannot_be_started():
    report = run_task(["/nowhere/worker"])
    assert shown(report)[:2] == (TaskStatus.FAILED, TaskEndReason.START_ERROR)
    assert report.error == "Worker could not be started: /nowhere/worker: No such file or directory"


@pytest.mark.parametrize("ignores", [False, True], ids=["stops", "ignores SIGTERM"])
def test_a_cancelled_task_is_stopped_with_its_tree(tmp_path, monkeypatch, ignores):
    monkeypatch.setattr("reprieve.supervisor.task_runner._SECONDS_TO_STOP", 0.3)
    arguments = [str(tmp_path), "ignore"] if ignores else [str(tmp_path)]
    program = f"import sys\nsys.argv = ['-c', *{arguments!r}]\n{READY}{GROW}"

    def cancel(run):
        members_of(tmp_path)
        stop_soon()(run)

    report = run_task(python(program), meanwhile=cancel)
    assert shown(report) == (TaskStatus.STOPPED, TaskEndReason.CANCELLED, "Task was cancelled")
    assert survivors(members_of(tmp_path), 0.0) == set()


def test_a_task_that_ends_well_while_it_is_stopped_has_finished(tmp_path):
    body = """
import signal
from pathlib import Path
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
Path(sys.argv[1]).touch()
while not stopped: time.sleep(0.01)
return 'done'
""".strip()

    def stop(run):
        until((tmp_path / "up").exists)
        stop_soon(TaskStopReason.SHUTDOWN)(run)

    report = run_task(serve(body, tmp_path / "up"), meanwhile=stop)
    assert (report.end.status, report.result) == (TaskStatus.FINISHED, "done")


def test_cancelling_the_runner_leaves_nothing_behind(tmp_path):
    async def main():
        running = asyncio.create_task(TaskRun(Task("1-0", 1, b"{}"), WorkerSpec(tuple(grow(tmp_path)))).run())
        members = await asyncio.to_thread(members_of, tmp_path)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return members

    assert survivors(asyncio.run(main()), 0.0) == set()


# --- output and results -----------------------------------------------------------------------------------------------


def test_a_worker_that_writes_much_is_never_blocked_and_its_last_words_are_kept():
    report = run_task(serve("for number in range(200_000): print('line', number)\nsys.exit('the end')"))
    assert (report.end.status, report.end.exit_code) == (TaskStatus.FAILED, 1)
    assert len(report.output.encode()) <= 64 * 1024
    lines = report.output.splitlines()
    assert "the end" in lines
    assert "line 199999" in lines
    assert all(line == "the end" or line.split()[0] == "line" for line in lines[1:])


def test_secrets_in_the_output_are_taken_out_also_where_the_tail_begins():
    secret = "-".join(str(number) for number in range(4)) + "zz"
    body = f"for _ in range(20_000): print('connecting with password={secret} now')\nraise SystemExit(3)"
    report = run_task(serve(body))
    assert len(report.output) > 10_000
    assert secret not in report.output
    assert secret[1:] not in report.output
    assert "connecting with" in report.output


def test_output_is_redacted_only_for_a_failure_and_in_a_thread(monkeypatch):
    threads = []
    monkeypatch.setattr(
        "reprieve.supervisor.output.redact", lambda text: threads.append(threading.current_thread()) or text
    )
    assert run_task(serve("print('words')")).output == ""
    assert threads == []
    assert run_task(serve("print('words'); sys.exit(3)")).output == "words\n"
    assert threads
    assert threading.main_thread() not in threads


def test_output_in_one_endless_line_is_cut_without_showing_a_part_of_a_word():
    report = run_task(serve("sys.stdout.write('x' * 300_000); sys.stdout.flush(); raise SystemExit(3)"))
    assert report.output == ""


def test_a_result_of_a_megabyte_is_handed_over_and_a_larger_one_refused():
    fits = run_task(serve("return 'x' * (1024 * 1024 - 100)"))
    assert len(fits.result) == 1024 * 1024 - 100
    refused = run_task(serve("return 'x' * (1024 * 1024)"))
    assert refused.end.status == TaskStatus.ERROR
    assert "store it elsewhere" in refused.error


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("'x' * 2_000_000", "more than 1048576 bytes"),
        ("'no json'", "is no JSON"),
        ("'[' * 100_000", "is no JSON"),
        ("'[1]'", "is no object"),
        ('\'{"status": "great"}\'', "is no object"),
        ('\'{"status": "error"}\'', "is no object"),
    ],
)
def test_a_result_that_breaks_the_contract_fails_the_task(written, problem):
    report = run_task(python(f"import os; os.fdopen(int(os.environ['REPRIEVE_RESULT_FD']), 'w').write({written})"))
    assert (report.end.status, report.end.reason) == (TaskStatus.FAILED, TaskEndReason.INVALID_RESULT)
    assert problem in report.error


def reported(text, **more):
    """Run a worker that reports this error by hand."""
    document = json.dumps({"status": "error", "error": text, **more})
    return run_task(python(f"import os; os.write(int(os.environ['REPRIEVE_RESULT_FD']), {document.encode()!r})"))


@pytest.mark.parametrize(
    "seconds", [pytest.param(10**400, id="huge"), -1, 31_536_001, float("inf"), float("nan"), True, "5"]
)
def test_a_delay_that_is_no_number_of_seconds_is_ignored(seconds):
    assert reported("busy", retryable=True, retry_after=seconds).retry_after is None


def test_a_delay_in_seconds_is_kept():
    assert reported("busy", retryable=True, retry_after=31_536_000).retry_after == 31_536_000.0


def test_half_characters_of_a_worker_are_replaced():
    report = reported("a \ud800", error_class="b \udfff", exception_type="c \ud800")
    assert (report.error, report.error_class, report.exception_type) == ("a \ufffd", "b \ufffd", "c \ufffd")


def test_a_start_is_told_also_where_the_worker_ended_in_the_same_moment():
    async def main():
        told = []
        script = "printf x >&$REPRIEVE_READY_FD"
        run = TaskRun(Task("1-0", 1, b"{}"), WorkerSpec(("sh", "-c", script)), on_started=told.append)
        running = asyncio.create_task(run.run())
        while run._process is None or not is_gone(run._process.warden_pid):
            await asyncio.sleep(0)
            time.sleep(0.05)  # noqa: ASYNC251 - the loop is to find readiness and end together
        report = await running
        return told, report.pid

    told, pid = asyncio.run(main())
    assert told == [pid]


def test_what_a_worker_used_is_reported():
    report = run_task(serve("held = b'x' * 50_000_000\nreturn len(held)"))
    assert report.max_rss_bytes > 50_000_000
    assert report.cpu_seconds > 0
    assert report.lived_seconds > 0


# --- environment ------------------------------------------------------------------------------------------------------


def environment_of(monkeypatch, variables, **spec):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return run_task(serve("return dict(os.environ)"), **spec).result


OURS = {
    "REPRIEVE_URL": "postgresql://jobs@db/reviews",
    "REPRIEVE_STREAMS_URL": f"redis://:{'-'.join('abcdefgh')}@cache:6379/3",
    "REPRIEVE_ALERTS_SECRET": "sink-signing-key",
    "REPRIEVE_REVIEW_MAIL__PASSWORD": "smtp-password-of-ours",
    "REPRIEVE_REVIEW_GITHUB__TOKEN": "forge-token-of-ours",
    "PGPASSWORD": "database-password",
}


def test_a_worker_sees_nothing_that_belongs_to_reprieve(monkeypatch):
    copies = {"DATABASE_URL": OURS["REPRIEVE_URL"], "GITHUB_TOKEN": OURS["REPRIEVE_REVIEW_GITHUB__TOKEN"]}
    copies["CACHE_PASSWORD"] = "-".join("abcdefgh")
    theirs = {"OPENAI_API_KEY": "key-of-the-worker", "HOME": "/somewhere"}
    seen = environment_of(monkeypatch, {**OURS, **copies, **theirs})
    assert not set(seen) & set(OURS)
    assert not set(seen.values()) & {*OURS.values(), *copies.values()}
    assert theirs.items() <= seen.items()


def test_named_variables_are_all_that_a_worker_sees(monkeypatch):
    seen = environment_of(monkeypatch, {"ONE": "1", "TWO": "2"}, env=("ONE", "MISSING"))
    names = {name for name in seen if not name.startswith(("REPRIEVE_", "LC_"))}
    assert names == {"ONE"}


@pytest.mark.parametrize("name", ["REPRIEVE_URL", "PGPASSWORD", "", "A=B"])
def test_a_name_that_is_ours_or_none_is_refused(name):
    with pytest.raises(UsageError):
        WorkerSpec(("true",), env=(name,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"spawn_timeout_seconds": 0},
        {"task_timeout_seconds": -1},
        {"memory_bytes": 1000},
        {"memory_bytes": 1.5},
    ],
)
def test_limits_that_cannot_be_are_refused(wrong):
    with pytest.raises(UsageError):
        WorkerSpec(("true",), **wrong)


@pytest.mark.parametrize("wrong", [{"command": "python worker.py"}, {"command": ["true"], "env": "PATH"}])
def test_a_text_is_no_list_of_words(wrong):
    with pytest.raises(UsageError, match="lists of words"):
        WorkerSpec(**wrong)


def test_a_worker_needs_a_command():
    with pytest.raises(UsageError, match="needs a command"):
        WorkerSpec(())


def test_a_function_can_be_tried_without_a_supervisor():
    done = subprocess.run(serve("return task * 2"), input="21", capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == {"status": "finished", "result": 42}


def test_serving_loads_nothing_but_the_standard_library():
    body = "return sorted(name for name in sys.modules if name.split('.')[0] in {'reprieve', 're2', 'pydantic', 'asyncio'})"
    loaded = run_task(serve(body)).result
    assert set(loaded) <= {"reprieve", "reprieve.supervisor", "reprieve.supervisor.contract"}


def test_nothing_stays_open(tmp_path):
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    async def main():
        counts = []
        for _ in range(3):
            for command in (["true"], ["/nowhere/worker"], ["sh", "-c", "exit 3"]):
                await TaskRun(Task("1-0", 1, b"{}"), WorkerSpec(tuple(command))).run()
            counts.append(descriptors())
        return counts

    counts = asyncio.run(main())
    assert counts[-1] <= counts[0]
