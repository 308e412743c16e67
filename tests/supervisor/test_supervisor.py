"""Tasks of a stream, run by workers: what is published in which order, and what is left in the stream."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import reprieve
from reprieve.errors import UsageError
from reprieve.streams.connection import RedisConnection, parse_address
from reprieve.supervisor import ContainerSpec, Supervisor, SupervisorOptions, WorkerSpec
from reprieve.supervisor.registry import SECONDS_UNTIL_SILENT, Cancellation, SupervisorRegistry
from support.redis_servers import RedisServer
from support.stream_groups import Group
from support.tasks import containers, python, serve
from support.trees import GROW, members_of, survivors, until

QUEUE, GROUP = "engineering:queue", "workers"
READY = "import os; os.write(int(os.environ['REPRIEVE_READY_FD']), b'1')\n"
QUICK = reprieve.Policy(max_attempts=3, backoff=reprieve.Backoff(schedule=(0.05,)))
LEASE = 1.0


@pytest.fixture
def group(redis_server):
    return Group(redis_server, QUEUE, GROUP)


@pytest.fixture
def valkey(redis_servers):
    server = redis_servers("valkey")
    server.call("FLUSHALL")
    return Group(server, QUEUE, GROUP)


def entries(group, stream):
    """The entries of a stream, oldest first, as mappings."""
    found = group.call("XRANGE", stream, "-", "+")
    return [{row[1][i].decode(): row[1][i + 1].decode() for i in range(0, len(row[1]), 2)} for row in found]


def events(group):
    return entries(group, "worker:lifecycle")


def results(group):
    return entries(group, f"{QUEUE}:results")


def dead(group):
    return [json.loads(each["error_context"]) for each in entries(group, f"{QUEUE}:dlq")]


def supervisor(command, *, body=None, profile=QUICK, slots=1, retry=False, output="", limits=None, **spec):
    options = SupervisorOptions(
        slots=slots, retry=retry, output=output, lease=LEASE, shutdown_timeout=0.3, **(limits or {})
    )
    worker = WorkerSpec(tuple(command), **spec)
    return Supervisor(QUEUE, worker, group=GROUP, body=body, profile=profile, service="langgraph", options=options)


def supervise(group, command, *, meanwhile=None, **options):
    """Run a supervisor until nothing is left to do; its exit code."""

    async def main():
        running = supervisor(command, **options)
        run = asyncio.create_task(running.run(group.server.url, until_idle=meanwhile is None, signals=False))
        if meanwhile is not None:
            await asyncio.to_thread(meanwhile, running, asyncio.get_running_loop())
        async with asyncio.timeout(60):
            return await run

    return asyncio.run(main())


def stopping(condition, *, times=1):
    """Wait for something, then stop the supervisor."""

    def stop(running, loop):
        until(condition)
        for _ in range(times):
            loop.call_soon_threadsafe(running.stop)

    return stop


def test_a_task_is_run_and_its_result_published(group):
    (task,) = group.add({"id": "7", "name": "Zoë"})
    assert supervise(group, serve("return {'got': task}")) == 0
    (result,) = results(group)
    assert json.loads(result["result"]) == {"got": {"id": "7", "name": "Zoë"}}
    assert (result["status"], result["task"], result["event_id"]) == ("finished", task, f"{task}:1:ended")
    assert [each["status"] for each in events(group)] == ["spawning", "started", "finished"]
    assert group.pending() == 0
    assert dead(group) == []


@pytest.mark.spec("ORC-4.3")
def test_a_crash_is_published_dead_lettered_and_acknowledged_in_this_order(group):
    (task,) = group.add({"id": "7"})
    assert supervise(group, python(READY + "print('the last words'); raise SystemExit(3)")) == 0
    event, result, letter = events(group)[-1], results(group)[0], dead(group)[0]
    assert (event["status"], event["will_retry"], event["reason"], event["exit_code"]) == (
        "failed",
        "false",
        "crash",
        "3",
    )
    assert (result["status"], result["error"], result["exit_code"]) == ("failed", "Process crashed", "3")
    assert event["event_id"] == result["event_id"] == f"{task}:1:ended"
    assert len({each["event_id"] for each in events(group)}) == 3
    assert letter["error"].endswith("Process crashed")
    assert (letter["service"], letter["attempts"]) == ("langgraph", 1)
    assert letter["output"] == "the last words\n"
    assert letter["task"]["exit_code"] == "3"
    assert group.pending() == 0
    times = [_added_at(group, stream) for stream in ("worker:lifecycle", f"{QUEUE}:results", f"{QUEUE}:dlq")]
    assert times == sorted(times)


def _added_at(group, stream):
    last = group.call("XREVRANGE", stream, "+", "-", "COUNT", 1)[0][0].decode()
    return tuple(map(int, last.split("-")))


@pytest.mark.spec("ORC-4.3")
def test_a_worker_that_ran_out_of_memory_has_crashed_too(valkey):
    valkey.add({"id": "7"})
    eats = python(READY + "held = []\nwhile True: held.append(bytearray(1_000_000))")
    supervise(valkey, eats, memory_bytes=64 * 1024 * 1024)
    event, result = events(valkey)[-1], results(valkey)[0]
    if event["memory_limit"] == "rlimit":
        pytest.skip("no control group can be made here")
    assert event["reason"] == "oom"
    assert (result["status"], result["error"], result["reason"]) == ("failed", "Process crashed", "oom")


def test_events_stay_in_their_order_where_the_first_takes_long(valkey, monkeypatch):
    announce = Supervisor._announce

    async def announce_late(self, event):
        await asyncio.sleep(0.1)
        await announce(self, event)

    monkeypatch.setattr(Supervisor, "_announce", announce_late)
    valkey.add({"id": "7"})
    supervise(valkey, ["sh", "-c", "printf x >&$REPRIEVE_READY_FD; exit 3"])
    assert [each["status"] for each in events(valkey)] == ["spawning", "started", "failed"]


@pytest.mark.spec("ORC-4.4")
def test_an_exception_in_a_worker_is_a_result_with_its_message(group):
    group.add({"id": "7"})
    supervise(group, serve("raise ValueError('Invalid project_id')"))
    (result,) = results(group)
    assert (result["status"], result["error"]) == ("error", "Invalid project_id")
    assert events(group)[-1]["reason"] == "exception"
    assert dead(group)[0]["error"].endswith("Invalid project_id")
    assert group.pending() == 0


@pytest.mark.spec("ORC-4.4")
def test_type_class_fingerprint_and_stack_of_an_exception_reach_result_and_dead_letter(valkey):
    valkey.add({"id": "7"}, {"id": "8"})
    supervise(valkey, serve("raise ValueError('text') if task['id'] == '8' else KeyError('text')"))
    (result, _), letters = results(valkey), dead(valkey)
    assert result["error"] == "'text'", "the sanitized message and nothing else"
    assert (result["exception_type"], result["error_class"]) == ("KeyError", "BUG")
    assert [each["error"] for each in letters] == ["KeyError: 'text'", "ValueError: text"]
    assert [each["exception_type"] for each in letters] == ["KeyError", "ValueError"]
    assert [each["error_class"] for each in letters] == ["BUG", "BUG"]
    assert result["fingerprint"] == letters[0]["fingerprint"] != letters[1]["fingerprint"]
    assert "in work" in letters[0]["stack"]
    assert letters[0]["stack"] == result["stack"]
    assert "TaskFailed" not in json.dumps(letters)


def test_a_class_that_would_pause_is_shown_and_pauses_nothing(valkey):
    valkey.add({"id": "7"})
    supervise(valkey, serve("raise PermissionError('401 Unauthorized: invalid api key')"))
    (letter,) = dead(valkey)
    assert (letter["error_class"], letter["retryable"], letter["reason"]) == (
        results(valkey)[0]["error_class"],
        False,
        "non_retryable",
    )
    assert not valkey.call("EXISTS", valkey.keys.paused)


@pytest.mark.parametrize("retry", [False, True], ids=["without retry", "with retry"])
@pytest.mark.parametrize(
    ("command", "error", "error_class"),
    [
        (serve("raise ConnectionRefusedError(111, 'Connection refused')"), None, "CONNECTION_REFUSED"),
        (python(READY + "raise SystemExit(3)"), "Process crashed", "WORKER_LOST"),
    ],
    ids=["exception", "crash"],
)
def test_a_retryable_failure_shows_as_such_and_under_no_name_of_ours(valkey, command, error, error_class, retry):
    valkey.add({"id": "7"})
    supervise(valkey, command, retry=retry)
    (letter,) = dead(valkey)
    assert letter["error"] == (error or "ConnectionRefusedError: [Errno 111] Connection refused")
    assert (letter["error_class"], letter["retryable"]) == (error_class, True)
    assert letter["reason"] == ("budget_spent" if retry else "retry_off")
    assert {each["error"] for each in letter["history"]["events"]} == {letter["error"]}
    assert not [each for each in ("TaskFailed", "TaskInterrupted", "Retryable:") if each in json.dumps(letter)]


def test_a_replayed_message_keeps_its_history(valkey):
    (task,) = valkey.add({"id": "7"})
    valkey.call("HSET", valkey.keys.state, task, json.dumps({"handler": 0, "replays": 2}))
    supervise(valkey, serve("raise ValueError('text')"))
    assert dead(valkey)[0]["history"]["replays"] == 2


@pytest.mark.spec("ORC-3.2")
def test_a_worker_that_is_not_ready_in_time_fails_for_good(valkey):
    valkey.add({"id": "7"})
    supervise(valkey, ["sleep", "600"], spawn_timeout_seconds=0.3, retry=True)
    assert results(valkey)[0]["reason"] == "spawn_timeout"
    assert events(valkey)[-1]["will_retry"] == "false"
    assert len(dead(valkey)) == 1


@pytest.mark.spec("ORC-3.5")
def test_a_task_that_takes_too_long_fails_or_is_retried_where_that_is_wanted(valkey):
    valkey.add({"id": "7"})
    slow = python(READY + "import time; time.sleep(600)")
    supervise(valkey, slow, task_timeout_seconds=0.2)
    assert [each["reason"] for each in results(valkey)] == ["timeout"]
    assert events(valkey)[-1]["will_retry"] == "false"
    valkey.server.call("FLUSHALL")
    valkey.add({"id": "8"})
    supervise(valkey, slow, task_timeout_seconds=0.2, retry=True)
    ends = [each for each in events(valkey) if each["status"] == "failed"]
    assert [each["will_retry"] for each in ends] == ["true", "true", "false"]
    assert [each["attempt"] for each in ends] == ["1", "2", "3"]
    assert len(results(valkey)) == len(dead(valkey)) == 1, "only the last is final"


@pytest.mark.spec("ORC-2.3", "ORC-3.2", "ORC-3.5")
@pytest.mark.parametrize(
    ("operation", "command", "reason"),
    [
        ("worker_spawn", ["sleep", "600"], "spawn_timeout"),
        ("developer_task", python(READY + "import time; time.sleep(600)"), "timeout"),
    ],
)
def test_timeouts_that_are_not_given_are_those_of_the_profile(valkey, operation, command, reason):
    valkey.add({"id": "7"})
    book = reprieve.load_profiles()
    supervise(valkey, command, profile=book["orchestrator"].override(timeouts={operation: 0.3}))
    assert [each["reason"] for each in results(valkey)] == [reason]
    assert "0.3 s" in results(valkey)[0]["error"]


@pytest.mark.parametrize(("code", "attempts"), [("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", 3)])
def test_crashes_have_a_budget_of_their_own(valkey, code, attempts):
    valkey.add({"id": "7"})
    supervise(valkey, python(READY + code), retry=True)
    ends = [each for each in events(valkey) if each["status"] == "failed"]
    assert len(ends) == attempts
    assert len({each["event_id"] for each in ends}) == attempts
    (letter,) = dead(valkey)
    assert (letter["attempts"], letter["origin"]) == (attempts, "crash")
    assert len(results(valkey)) == 1


def test_a_task_that_succeeds_at_its_second_attempt_leaves_one_result(group, tmp_path):
    group.add({"id": "7"})
    body = f"""
from pathlib import Path
seen = Path({str(tmp_path / "seen")!r})
if not seen.exists():
    seen.touch()
    raise ConnectionResetError(104, 'Connection reset by peer')
return 'done'
""".strip()
    supervise(group, serve(body), retry=True)
    (result,) = results(group)
    assert (result["status"], result["result"], result["attempt"]) == ("finished", '"done"', "2")
    assert dead(group) == []
    assert group.call("HLEN", group.keys.state) == 0


def test_without_retry_nothing_is_tried_again(valkey):
    valkey.add({"id": "7"})
    supervise(valkey, serve("raise ConnectionResetError(104, 'Connection reset by peer')"))
    assert [each["status"] for each in events(valkey)].count("started") == 1
    assert len(dead(valkey)) == 1


def test_a_worker_cannot_pause_the_whole_group(valkey):
    valkey.add({"id": "7"}, {"id": "8"})
    supervise(valkey, serve("raise PermissionError('401 Unauthorized: invalid api key')"), retry=True)
    assert len(results(valkey)) == 2
    assert not valkey.call("EXISTS", valkey.keys.paused)


def test_the_body_of_a_message_arrives_byte_for_byte(valkey):
    valkey.add({"data": '{"b": 1.0,  "a": [1]}', "other": "x"})
    supervise(
        valkey,
        python('import os, sys; os.write(3, b\'{"status": "finished", "result": %d}\' % len(sys.stdin.buffer.read()))'),
        body="data",
    )
    assert results(valkey)[0]["result"] == str(len('{"b": 1.0,  "a": [1]}'))


@pytest.mark.spec("ORC-5.2")
def test_a_message_that_is_no_json_reaches_no_worker(valkey):
    valkey.add({"data": "{"})
    supervise(valkey, serve("return 1"), body="data")
    assert events(valkey) == []
    assert len(dead(valkey)) == 1


def test_results_can_go_elsewhere_but_not_into_the_queue(valkey):
    valkey.add({"id": "7"})
    supervise(valkey, ["true"], output="elsewhere")
    assert [each["status"] for each in entries(valkey, "elsewhere")] == ["finished"]
    for wrong in (QUEUE, f"{QUEUE}:dlq", "worker:lifecycle"):
        with pytest.raises(UsageError, match="choose another output"):
            supervisor(["true"], output=wrong)


@pytest.mark.parametrize("stream", [f"{QUEUE}:results", "worker:lifecycle"])
def test_a_stream_of_the_wrong_type_is_refused_at_the_start(valkey, stream):
    valkey.add({"id": "7"})
    valkey.call("SET", stream, "no stream")
    with pytest.raises(UsageError, match=f"'{stream}' is a string"):
        supervise(valkey, ["true"])
    assert dead(valkey) == []


@pytest.mark.parametrize("stream", [f"{QUEUE}:results", "worker:lifecycle"])
def test_a_user_that_may_not_append_is_refused_at_the_start_and_nothing_is_written(group, stream):
    group.add({"id": "7"})
    kept = f"~{QUEUE}:reprieve*" if stream.endswith("results") else f"~{QUEUE}:results"
    allowed = ["~worker:lifecycle", f"~{QUEUE}", f"~{QUEUE}:dlq", kept]
    if stream == "worker:lifecycle":
        allowed = allowed[1:]
    group.call("ACL", "SETUSER", "tasks", "on", ">pass", "resetkeys", "+@all", *allowed)
    try:
        with pytest.raises(UsageError, match=f"may not append to '{stream}'"):
            asyncio.run(supervisor(["true"]).run(as_user(group, "tasks:pass"), signals=False))
    finally:
        group.call("ACL", "DELUSER", "tasks")
    assert not group.call("EXISTS", f"{QUEUE}:results", "worker:lifecycle")


def as_user(group, credentials):
    scheme, _, rest = group.server.url.partition("://")
    return f"{scheme}://{credentials}@{rest}"


@pytest.mark.parametrize("retry", [False, True])
def test_a_result_that_redis_refuses_ends_task_and_supervisor_without_another_run(valkey, tmp_path, retry):
    valkey.add({"id": "7"})
    code = supervise(valkey, waiting(tmp_path), retry=retry, meanwhile=breaking(valkey, tmp_path))
    assert code == 1
    assert [each["status"] for each in events(valkey)] == ["spawning", "started", "finished", "gave_up"]
    assert dead(valkey)[0]["error"].endswith(f"Redis refused the result in {QUEUE}:results")
    assert valkey.pending() == 0


@pytest.mark.parametrize("retry", [False, True])
def test_a_task_whose_publishing_takes_too_long_runs_again_only_with_retry(valkey, tmp_path, monkeypatch, retry):
    async def never(*_):
        await asyncio.sleep(600)

    monkeypatch.setattr("reprieve.supervisor.supervisor._SECONDS_BESIDE_TIMEOUTS", 0.0)
    monkeypatch.setattr(Supervisor, "_publish", never)
    valkey.add({"id": "7"})
    worker = python(READY + f"open({str(tmp_path / 'starts')!r}, 'a').write('x')")
    supervise(valkey, worker, retry=retry, spawn_timeout_seconds=1.0, task_timeout_seconds=0.5)
    assert (tmp_path / "starts").read_text() == ("xxx" if retry else "x")
    (letter,) = dead(valkey)
    assert "took longer than 1.5 s" in letter["error"]


def waiting(folder):
    """Return the command of a worker that ends when a file says so."""
    return python(
        f"{READY}import time\nfrom pathlib import Path\nfolder = Path({str(folder)!r})\n(folder / 'up').touch()\n"
        "while not (folder / 'go').exists(): time.sleep(0.01)"
    )


def breaking(group, folder):
    """Make the stream of results something else while the worker runs."""

    def replace_results(*_):
        until((folder / "up").exists)
        group.call("SET", f"{QUEUE}:results", "no stream")
        (folder / "go").touch()

    return replace_results


def test_as_many_tasks_run_at_a_time_as_there_are_slots(valkey, tmp_path):
    valkey.add(*[{"id": str(number)} for number in range(6)])
    body = f"""
from pathlib import Path
folder = Path({str(tmp_path)!r})
mine, full = folder / task['id'], folder / 'full'
mine.touch()
end = time.monotonic() + 30
while not full.exists() and time.monotonic() < end:
    if len(list(folder.iterdir())) == 3: full.touch()
    time.sleep(0.01)
found = len([each for each in folder.iterdir() if each != full])
mine.unlink()
return found
""".strip()
    supervise(valkey, serve(body), slots=3)
    together = [int(each["result"]) for each in results(valkey)]
    assert (len(together), max(together)) == (6, 3)
    assert (tmp_path / "full").exists(), "three workers waited for each other"


# --- starts that fail -------------------------------------------------------------------------------------------------


def test_a_command_that_cannot_be_started_makes_the_supervisor_give_up(valkey):
    valkey.add(*[{"id": str(number)} for number in range(9)])
    began = time.monotonic()
    code = supervise(valkey, ["/nowhere/worker"], limits={"max_start_failures": 3}, meanwhile=lambda *_: None)
    assert code == 1
    assert time.monotonic() - began >= 1.4, "0.5 s and 1 s between the starts"
    assert events(valkey)[-1]["status"] == "gave_up"
    assert len(results(valkey)) == len(dead(valkey)) == 3
    assert "No such file or directory" in results(valkey)[0]["error"]


def test_a_crash_is_no_failure_to_start(valkey):
    valkey.add(*[{"id": str(number)} for number in range(6)])
    assert supervise(valkey, ["false"], limits={"max_start_failures": 2}) == 0
    assert len(dead(valkey)) == 6


# --- stop and cancel --------------------------------------------------------------------------------------------------


def test_a_stop_lets_a_task_end_that_ends_in_time(valkey):
    valkey.add({"id": "7"}, {"id": "8"})
    started = stopping(lambda: any(each["status"] == "started" for each in events(valkey)))
    code = supervise(valkey, serve("time.sleep(0.2); return 'done'"), meanwhile=started)
    assert code == 0
    assert [each["result"] for each in results(valkey)] == ['"done"']
    assert valkey.call("XLEN", QUEUE) == 2


@pytest.mark.parametrize("times", [1, 2], ids=["one signal", "two signals"])
def test_a_task_that_is_stopped_is_handed_back_and_costs_no_attempt(valkey, tmp_path, times):
    valkey.add({"id": "7"})
    program = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}, 'ignore'][:{3 if times == 2 else 2}]\n{READY}{GROW}"
    stop = stopping((tmp_path / "worker").exists, times=times)
    supervise(valkey, python(program), meanwhile=stop)
    assert survivors(members_of(tmp_path), 0.0) == set()
    assert events(valkey)[-1]["status"] == "stopped"
    assert (events(valkey)[-1]["reason"], events(valkey)[-1]["will_retry"]) == ("shutdown", "true")
    assert results(valkey) == []
    assert dead(valkey) == []
    assert supervise(valkey, serve("return 'done'")) == 0
    assert [each["result"] for each in results(valkey)] == ['"done"']


def test_an_operator_cancels_one_task(valkey, tmp_path):
    valkey.add({"id": "7"}, {"id": "8"})

    def cancel(running, loop):
        until((tmp_path / "worker").exists)

        async def ask():
            registry = SupervisorRegistry(RedisConnection(parse_address(valkey.server.url)), QUEUE, GROUP)
            _, (record,) = await registry.read()
            (task,) = record.tasks
            assert task.pid > 0
            await registry.cancel(task.id, Cancellation("ops", "wrong input", 0.0))
            await registry.close()

        until(lambda: _has_started_task(valkey))
        asyncio.run(ask())
        until(lambda: len(results(valkey)) == 2)
        loop.call_soon_threadsafe(running.stop)

    body = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}]\n{READY}import json\nif json.load(sys.stdin)['id'] == '8': raise SystemExit(0)\n{GROW}"
    supervise(valkey, python(body), meanwhile=cancel)
    cancelled, finished = results(valkey)
    assert (cancelled["status"], cancelled["reason"], cancelled["error"]) == (
        "failed",
        "cancelled",
        "Task was cancelled",
    )
    assert finished["status"] == "finished"
    assert survivors(members_of(tmp_path), 0.0) == set()
    assert dead(valkey) == []
    assert valkey.pending() == 0


def test_a_request_to_cancel_a_task_that_just_ended_is_deleted(valkey, tmp_path, monkeypatch):
    monkeypatch.setattr("reprieve.supervisor.supervisor._SECONDS_BETWEEN_BEATS", 600.0)
    (task,) = valkey.add({"id": "7"})
    requests = f"{QUEUE}:reprieve:{GROUP}:cancellations"

    def cancel_late(running, loop):
        until((tmp_path / "up").exists)
        valkey.call("HSET", requests, task, "{}")
        (tmp_path / "go").touch()
        until(lambda: results(valkey))
        until(lambda: valkey.pending() == 0)
        loop.call_soon_threadsafe(running.stop)

    supervise(valkey, waiting(tmp_path), meanwhile=cancel_late)
    assert results(valkey)[0]["status"] == "finished"
    assert not valkey.call("EXISTS", requests)


def _has_started_task(group):
    values = group.call("HVALS", f"{QUEUE}:reprieve:{GROUP}:supervisors")
    return any(task["is_started"] for text in values for task in json.loads(text)["tasks"])


# --- supervisors that are killed --------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from reprieve.processes.session import adopt_orphans
from reprieve.supervisor import ContainerSpec, Supervisor, SupervisorOptions, WorkerSpec
adopt_orphans()
options = SupervisorOptions(lease=1.0, shutdown_timeout=0.3)
worker = WorkerSpec(tuple(sys.argv[2:]))
sys.exit(asyncio.run(Supervisor("engineering:queue", worker, group="workers", options=options).run(sys.argv[1])))
"""


def test_nothing_is_left_of_a_killed_supervisor_and_another_takes_its_task_over(group, tmp_path):
    (task,) = group.add({"id": "7"})
    program = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}]\n{READY}{GROW}"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, group.server.url, *python(program)]) as process:
        members = members_of(tmp_path)
        process.kill()
    assert survivors(members) == set()
    done = stopping(lambda: results(group))
    assert supervise(group, serve("return 'done'"), meanwhile=done) == 0
    assert [(each["task"], each["result"]) for each in results(group)] == [(task, '"done"')]
    assert group.pending() == 0


def test_the_worker_of_a_killed_supervisor_gets_an_end_and_its_successor_ids_of_its_own(valkey, tmp_path):
    (task,) = valkey.add({"id": "7"})
    program = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}]\n{READY}{GROW}"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, valkey.server.url, *python(program)]) as process:
        members_of(tmp_path)
        until(lambda: _has_started_task(valkey))
        process.kill()
    time.sleep(SECONDS_UNTIL_SILENT)
    supervise(valkey, serve("return 'done'"), meanwhile=stopping(lambda: results(valkey)))
    assert [each["status"] for each in events(valkey)] == [
        "spawning",
        "started",
        "failed",
        "spawning",
        "started",
        "finished",
    ]
    lost, end = events(valkey)[2], events(valkey)[-1]
    assert lost["worker"] == events(valkey)[0]["worker"] != end["worker"]
    assert (lost["reason"], lost["will_retry"], lost["task"]) == ("supervisor_lost", "true", task)
    assert len({each["event_id"] for each in events(valkey)}) == 6
    assert results(valkey)[0]["event_id"] == end["event_id"]


def test_a_killed_warden_is_a_crash_and_leaves_nothing(valkey, tmp_path):
    valkey.add({"id": "7"})
    program = f"import sys\nsys.argv = ['-c', {str(tmp_path)!r}]\n{READY}{GROW}"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, valkey.server.url, *python(program)]) as process:
        try:
            members = members_of(tmp_path)
            os.kill(parent_of(members["worker"]), signal.SIGKILL)
            assert survivors(members) == set()
            until(lambda: dead(valkey))
            assert results(valkey)[0]["error"] == "Process crashed"
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


def parent_of(pid):
    done = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_supervisor_that_is_asked_to_stop_exits_with_zero_and_forgets_itself(valkey):
    with subprocess.Popen([sys.executable, "-c", PROGRAM, valkey.server.url, "true"]) as process:
        registry = f"{QUEUE}:reprieve:{GROUP}:supervisors"
        until(lambda: valkey.call("HLEN", registry) == 1)
        valkey.add({"id": "7"})
        until(lambda: results(valkey))
        process.terminate()
        assert process.wait(30) == 0
    assert valkey.call("HLEN", registry) == 0


def test_redis_that_is_away_for_a_while_loses_no_result(tmp_path):
    server = RedisServer("valkey", options=("--appendonly", "yes", "--appendfsync", "always")).start()
    try:
        group = Group(server, QUEUE, GROUP)
        group.add({"id": "7"})

        def interrupt(running, loop):
            until((tmp_path / "up").exists)
            server.kill()
            (tmp_path / "go").touch()
            time.sleep(0.5)
            server.start()
            until(lambda: results(Group(server, QUEUE, GROUP)))
            loop.call_soon_threadsafe(running.stop)

        body = f"""
from pathlib import Path
Path({str(tmp_path / "up")!r}).touch()
while not Path({str(tmp_path / "go")!r}).exists(): time.sleep(0.01)
return 'done'
""".strip()
        supervise(group, serve(body), meanwhile=interrupt)
        group = Group(server, QUEUE, GROUP)
        assert {each["result"] for each in results(group)} == {'"done"'}
        assert len({each["task"] for each in results(group)}) == 1
    finally:
        server.stop()


def test_options_that_cannot_be_are_refused():
    for wrong in ({"slots": 0}, {"slots": 1.5}, {"max_start_failures": 0}, {"shutdown_timeout": -1}):
        with pytest.raises(UsageError):
            SupervisorOptions(**wrong)


def test_event_and_result_are_out_before_the_dead_letter_and_the_task_is_pending_until_that_is_written(
    valkey, tmp_path
):
    valkey.add({"id": "7"})
    body = f"""
from pathlib import Path
Path({str(tmp_path / "up")!r}).touch()
while not Path({str(tmp_path / "go")!r}).exists(): time.sleep(0.01)
os._exit(3)
""".strip()

    def refuse_dead_letters(running, loop):
        until((tmp_path / "up").exists)
        valkey.call("SET", f"{QUEUE}:dlq", "not a stream")
        (tmp_path / "go").touch()
        until(lambda: results(valkey))
        time.sleep(0.2)
        assert [each["status"] for each in events(valkey)] == ["spawning", "started", "failed"]
        assert valkey.pending() == 1
        loop.call_soon_threadsafe(running.stop)

    supervise(valkey, serve(body), meanwhile=refuse_dead_letters)
    assert valkey.pending() == 1


def test_tasks_run_in_containers_too(valkey, podman):
    valkey.add({"id": "7"}, {"id": "8"})
    script = (
        "touch $REPRIEVE_READY_FILE; read task < $REPRIEVE_TASK_FILE; "
        'case "$task" in *8*) exit 3;; esac; '
        'echo "{\\"status\\": \\"finished\\", \\"result\\": $task}" > $REPRIEVE_RESULT_FILE'
    )
    supervise(valkey, ["sh", "-c", script], container=ContainerSpec("podman", podman), slots=2)
    found = {each["status"]: each for each in results(valkey)}
    assert json.loads(found["finished"]["result"]) == {"id": "7"}
    assert (found["failed"]["error"], found["failed"]["exit_code"]) == ("Process crashed", "3")
    assert containers() == []
