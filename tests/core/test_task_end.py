"""What the end of a supervised task means: every kind of evidence, and which goes before which."""

import signal

import pytest

from reprieve.core.policy import Cause
from reprieve.core.task_end import (
    ReportedResult,
    TaskEndReason,
    TaskEvidence,
    TaskStatus,
    TaskStopReason,
    decide_task_end,
)


def shown(code, **evidence):
    end = decide_task_end(TaskEvidence(code, **evidence))
    return end.status, end.reason, end.cause


@pytest.mark.parametrize("reported", [ReportedResult.NONE, ReportedResult.FINISHED])
def test_a_worker_that_exits_with_zero_finished(reported):
    assert shown(0, reported=reported) == (TaskStatus.FINISHED, None, None)


@pytest.mark.spec("ORC-4.4")
def test_a_reported_exception_is_an_error_and_says_whether_it_may_be_retried():
    assert shown(0, reported=ReportedResult.ERROR) == (TaskStatus.ERROR, TaskEndReason.EXCEPTION, Cause.HANDLER)
    assert not decide_task_end(TaskEvidence(0, ReportedResult.ERROR)).is_retryable
    assert decide_task_end(TaskEvidence(0, ReportedResult.RETRYABLE_ERROR)).is_retryable


@pytest.mark.spec("ORC-4.3")
@pytest.mark.parametrize(
    "code", [1, 2, 3, 137, 255, *(-each for each in (signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM))]
)
def test_any_other_code_is_a_crash_whatever_was_reported(code):
    for reported in ReportedResult:
        assert shown(code, reported=reported) == (TaskStatus.FAILED, TaskEndReason.CRASH, Cause.CRASH)


def test_a_kill_without_a_counter_is_a_kill_by_another():
    end = decide_task_end(TaskEvidence(-signal.SIGKILL))
    assert (end.reason, end.cause, end.signal, end.exit_code) == (TaskEndReason.KILLED, Cause.CRASH, 9, None)


@pytest.mark.spec("ORC-4.3")
@pytest.mark.parametrize("code", [-signal.SIGKILL, 3], ids=["the worker", "a child of it"])
def test_a_counted_kill_is_out_of_memory(code):
    assert shown(code, out_of_memory=True) == (TaskStatus.FAILED, TaskEndReason.OUT_OF_MEMORY, Cause.OUT_OF_MEMORY)


def test_a_worker_that_survived_the_kill_of_a_child_and_finished_has_finished():
    assert shown(0, out_of_memory=True)[0] == TaskStatus.FINISHED


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (TaskStopReason.TIMEOUT, (TaskStatus.FAILED, TaskEndReason.TIMEOUT, Cause.HANDLER)),
        (TaskStopReason.SPAWN_TIMEOUT, (TaskStatus.FAILED, TaskEndReason.SPAWN_TIMEOUT, Cause.HANDLER)),
        (TaskStopReason.CANCELLED, (TaskStatus.STOPPED, TaskEndReason.CANCELLED, None)),
        (TaskStopReason.SHUTDOWN, (TaskStatus.STOPPED, TaskEndReason.SHUTDOWN, Cause.DEPLOY)),
    ],
)
@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGTERM, 1])
def test_an_end_that_we_made_is_ours(stop, expected, code):
    assert shown(code, stopped_for=stop) == expected
    assert shown(code, stopped_for=stop, out_of_memory=True) == expected


@pytest.mark.spec("ORC-3.2")
def test_a_spawn_timeout_is_permanent_and_a_task_timeout_may_be_retried():
    assert not decide_task_end(TaskEvidence(-9, stopped_for=TaskStopReason.SPAWN_TIMEOUT)).is_retryable
    assert decide_task_end(TaskEvidence(-9, stopped_for=TaskStopReason.TIMEOUT)).is_retryable


def test_a_worker_that_finished_while_it_was_stopped_has_finished():
    for stop in TaskStopReason:
        assert shown(0, reported=ReportedResult.FINISHED, stopped_for=stop)[0] == TaskStatus.FINISHED


def test_a_command_that_cannot_be_executed_is_not_retried():
    end = decide_task_end(TaskEvidence(127, is_startable=False))
    assert (end.status, end.reason, end.is_retryable) == (TaskStatus.FAILED, TaskEndReason.START_ERROR, False)


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_container_that_cannot_be_started_is_not_retried(code):
    end = decide_task_end(TaskEvidence(code, in_container=True))
    assert (end.reason, end.is_retryable) == (TaskEndReason.START_ERROR, False)
    assert shown(code)[1] == TaskEndReason.CRASH, "a process may exit with this code itself"


def test_a_container_reports_signals_as_codes():
    end = decide_task_end(TaskEvidence(128 + signal.SIGSEGV, in_container=True))
    assert (end.reason, end.signal, end.exit_code) == (TaskEndReason.CRASH, signal.SIGSEGV, None)


def test_the_code_137_of_a_container_is_out_of_memory_only_with_a_limit():
    assert shown(137, in_container=True, is_memory_limited=True)[1] == TaskEndReason.OUT_OF_MEMORY
    assert shown(137, in_container=True)[1] == TaskEndReason.KILLED
    assert shown(3, in_container=True, out_of_memory=True)[1] == TaskEndReason.OUT_OF_MEMORY


def test_a_result_that_cannot_be_read_fails_the_task():
    assert shown(0, reported=ReportedResult.INVALID)[:2] == (TaskStatus.FAILED, TaskEndReason.INVALID_RESULT)
