"""A stage that names its operation has the timeout of its profile, and what follows is the action's."""

import asyncio
import importlib
from pathlib import Path

import pytest

import reprieve
from reprieve import Job, Pipeline, UnknownNameError, UsageError
from reprieve.app.profiles import resolve
from reprieve.testing import run_inline
from support.processes import is_gone

ORCHESTRATOR = resolve("orchestrator").override(backoff=reprieve.Backoff(initial=0.0))
PROGRAMS = str(Path(__file__).parent)


def limited(seconds, **changes):
    """The orchestrator's profile with every timeout so short."""
    return ORCHESTRATOR.override(timeouts=dict.fromkeys(ORCHESTRATOR.timeouts, seconds), **changes)


def pipeline_of(operation, function, profile, **options):
    pipeline = Pipeline("limits", profile=profile, breaker=None)
    pipeline.stage(name="step", operation=operation, **options)(function)
    return pipeline


@pytest.fixture
def isolated(monkeypatch):
    """Stages that another process can find."""
    monkeypatch.syspath_prepend(PROGRAMS)
    return importlib.import_module("stages_of_operations")


def test_a_stage_takes_the_seconds_of_its_operation_from_its_own_profile():
    pipeline = Pipeline("limits")

    @pipeline.stage(operation="worker_spawn", profile="orchestrator")
    async def spawn(job: Job[str]) -> None: ...

    assert (pipeline.first.timeout, pipeline.first.operation) == (
        60.0,
        resolve("orchestrator").timeout("worker_spawn"),
    )


@pytest.mark.spec("ORC-3.1")
def test_a_stage_whose_operation_is_tried_again_succeeds_in_the_end():
    async def command(job: Job[str]) -> int:
        if job.attempt < 3:
            await asyncio.sleep(60)
        return job.attempt

    outcome = run_inline(pipeline_of("redis_command", command, limited(0.02)), "x")
    assert outcome.result == 3
    decided = [(each.error_class, each.decision) for each in outcome.attempts]
    assert decided == [("NETWORK_TIMEOUT", "retry")] * 2


@pytest.mark.spec("ORC-3.2")
def test_a_worker_that_does_not_come_up_in_time_is_a_dead_letter_after_one_attempt():
    async def spawn(job: Job[str]) -> None:
        await asyncio.sleep(60)

    outcome = run_inline(pipeline_of("worker_spawn", spawn, limited(0.02)), "x")
    letter = outcome.dead_letter
    assert (letter.error_class, letter.reason, letter.attempts) == ("OPERATION_TIMEOUT", "non_retryable", 1)
    assert outcome.failure.evidence[0].rule == "timeout.worker_spawn"


@pytest.mark.spec("ORC-3.5")
@pytest.mark.parametrize("retry", [False, True])
def test_a_developer_task_is_killed_with_its_children_and_tried_again_only_where_that_is_supported(
    isolated, tmp_path, retry
):
    # The time has to be enough for a process to come up on a busy machine.
    own = reprieve.OperationTimeout(seconds=1.5, action="kill", retry=retry)
    profile = ORCHESTRATOR.override(max_attempts=2, timeouts={"developer_task": own})
    file = tmp_path / "pids"
    pipeline = pipeline_of("developer_task", isolated.hang, profile, isolate="process")
    outcome = run_inline(pipeline, str(file))
    letter = outcome.dead_letter
    wanted = ("budget_spent", 2) if retry else ("non_retryable", 1)
    assert (letter.error_class, letter.reason, letter.attempts) == ("OPERATION_TIMEOUT", *wanted)
    message = "developer_task took longer than its timeout of 1.5 s: its process was killed"
    assert str(outcome.exception) == message
    assert [is_gone(pid) for pid in file.read_text().split()] == [True, True]


def test_a_timeout_that_the_stage_itself_raises_is_its_own():
    async def raising(job: Job[str]) -> None:
        raise TimeoutError("of a client")

    outcome = run_inline(pipeline_of("worker_spawn", raising, ORCHESTRATOR.override(max_attempts=1)), "x")
    assert type(outcome.exception) is TimeoutError


async def asynchronous(job: Job[str]) -> None: ...


def plain(job: Job[str]) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (
            asynchronous,
            {"operation": "worker_spawn", "timeout": 5},
            "timeout= and operation= both limit an attempt",
        ),
        (asynchronous, {"operation": 5}, "operation= is the name of a timeout of its profile, not 5"),
        (plain, {"operation": "worker_spawn"}, 'a plain function and cannot be stopped .* isolate="process"'),
    ],
)
def test_what_cannot_be_limited_is_refused_where_it_is_declared(function, options, message):
    pipeline = Pipeline("limits", profile="orchestrator")
    with pytest.raises(UsageError, match=message):
        pipeline.stage(**options)(function)
    assert pipeline.stages == ()


def test_an_operation_that_the_profile_does_not_know_is_refused_where_it_is_declared():
    with pytest.raises(UnknownNameError, match=r"did you mean 'worker_spawn'.*there are: api_request, "):
        Pipeline("limits", profile="orchestrator").stage(operation="worker_spwan")(asynchronous)
    with pytest.raises(UsageError, match="the profile 'criticizer' has no timeouts"):
        Pipeline("limits").stage(operation="worker_spawn")(asynchronous)
