"""A block or a function ends when its operation takes too long, and the error says what that means."""

import asyncio
import functools
import pickle
from contextlib import suppress

import pytest

import reprieve
from reprieve import OperationTimeout, OperationTimeoutError, TimeoutAction, UsageError, timeout_for
from reprieve.app.profiles import load_profiles, resolve
from reprieve.timeouts import STOP_SECONDS, operation_timeout
from support.loop_time import run_jumping

ORCHESTRATOR = resolve("orchestrator")
SHORT = ORCHESTRATOR.override(timeouts=dict.fromkeys(ORCHESTRATOR.timeouts, 0.02))


async def hang():
    await asyncio.sleep(86_400)


def expiry_of(operation, **options):
    """What an operation that hangs raises, and after how many seconds of its loop."""

    async def main():
        started = asyncio.get_running_loop().time()
        with pytest.raises(OperationTimeoutError) as caught:
            async with timeout_for(operation, **options):
                await hang()
        return caught.value, asyncio.get_running_loop().time() - started

    return run_jumping(main())


@pytest.mark.parametrize(
    ("operation", "seconds", "action"),
    [
        pytest.param("api_request", 10, "retry", marks=pytest.mark.spec("ORC-3.1")),
        pytest.param("redis_command", 5, "retry", marks=pytest.mark.spec("ORC-3.1")),
        pytest.param("worker_spawn", 60, "fail", marks=pytest.mark.spec("ORC-3.2")),
        ("github_workflow", 1800, "cancel"),
        ("provisioning", 900, "kill"),
        ("developer_task", 1800, "kill"),
    ],
)
def test_an_operation_of_the_specification_ends_after_its_time_with_its_action(operation, seconds, action):
    error, waited = expiry_of(operation)
    assert waited == pytest.approx(seconds, abs=0.5)
    assert (error.operation, error.seconds, error.action) == (operation, seconds, action)
    severity = "transient" if action == "retry" else "permanent"
    failure = reprieve.classify(error, profile="orchestrator")
    assert (failure.severity, failure.retryable, failure.outcome_unknown) == (
        severity,
        action == "retry",
        True,
    )
    assert failure.message.startswith(f"{operation} took longer than its timeout of {seconds} s")


@pytest.mark.spec("ORC-3.1")
def test_a_redis_command_that_hangs_is_tried_again_and_then_succeeds():
    calls = []

    @reprieve.retry("orchestrator.transient", draw=lambda: 0.5)
    async def xadd():
        async with timeout_for("redis_command"):
            calls.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0 if len(calls) == 2 else 86_400)

    run_jumping(xadd())
    assert calls[1] - calls[0] == pytest.approx(5 + 1, abs=0.5)


@pytest.mark.spec("ORC-3.2")
def test_a_worker_that_does_not_spawn_is_not_tried_again():
    calls = []

    @reprieve.retry("orchestrator.transient")
    async def spawn():
        async with timeout_for("worker_spawn"):
            calls.append(1)
            await hang()

    with pytest.raises(OperationTimeoutError):
        run_jumping(spawn())
    assert calls == [1]


def test_the_fields_of_an_operation_that_ends_in_time_are_left_alone():
    async def main():
        async with timeout_for("redis_command") as limit:
            value = await asyncio.sleep(4.9, "done")
        return value, limit.expired(), limit.timeout.seconds

    assert run_jumping(main()) == ("done", False, 5.0)


def test_an_exception_of_the_block_is_raised_as_it_was():
    async def main():
        async with timeout_for("redis_command"):
            raise KeyError("missing")

    with pytest.raises(KeyError):
        run_jumping(main())


def test_the_error_is_a_timeout_error_and_keeps_where_the_block_hung():
    error, _ = expiry_of("redis_command")
    assert isinstance(error, TimeoutError)
    assert isinstance(error.__cause__, asyncio.CancelledError)


def test_the_error_survives_pickling():
    error, _ = expiry_of("provisioning", stop=lambda: None)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_cleaning_up_that_fails_after_an_expiry_does_not_hide_it():
    """A client that answers its cancellation with an error of its own must not turn `fail` into a retry."""

    async def main():
        async with timeout_for("worker_spawn"):
            try:
                await hang()
            finally:
                raise ConnectionResetError(104, "reset")

    with pytest.raises(OperationTimeoutError) as caught:
        run_jumping(main())
    assert isinstance(caught.value.__cause__, ConnectionResetError)
    assert reprieve.classify(caught.value).severity == "permanent"


@pytest.mark.parametrize(
    ("outer", "inner", "raised"),
    [
        ("redis_command", "developer_task", "redis_command"),
        ("developer_task", "redis_command", "redis_command"),
    ],
)
def test_of_nested_limits_the_one_that_expires_first_is_named(outer, inner, raised):
    async def main():
        async with timeout_for(outer), timeout_for(inner):
            await hang()

    with pytest.raises(OperationTimeoutError) as caught:
        run_jumping(main())
    assert caught.value.operation == raised


@pytest.mark.parametrize("fails", [False, True])
def test_of_nested_limits_that_have_both_expired_the_outermost_is_named(fails):
    async def main():
        async with timeout_for("api_request"), timeout_for("redis_command"):
            try:
                await hang()
            finally:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(6)  # cleaning up takes longer than the outer one has left
                if fails:
                    raise ConnectionResetError(104, "reset")

    with pytest.raises(OperationTimeoutError) as caught:
        run_jumping(main())
    assert caught.value.operation == "api_request"


@pytest.mark.parametrize("raised", [asyncio.CancelledError, ConnectionResetError])
def test_a_cancellation_from_outside_is_no_expiry_and_stops_nothing(raised):
    stopped = []

    async def work():
        async with timeout_for("github_workflow", stop=lambda: stopped.append(1)):
            try:
                await hang()
            except asyncio.CancelledError:
                raise raised() from None

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(raised):
            await task

    run_jumping(main())
    assert stopped == []


def test_cleaning_up_that_fails_after_an_expiry_and_a_cancellation_is_raised_as_it_was():
    """Who cancels waits for the task to end, and asyncio would raise the exception of cleaning up, too."""

    async def work():
        async with timeout_for("redis_command"):
            try:
                await hang()
            finally:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(3)
                raise ConnectionResetError(104, "reset")

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(6)
        task.cancel()
        with pytest.raises(ConnectionResetError):
            await task

    run_jumping(main())


def test_a_cancellation_from_outside_at_the_moment_of_an_expiry_is_a_cancellation():
    async def main():
        task = asyncio.create_task(work())
        asyncio.get_running_loop().call_later(5, task.cancel)
        await asyncio.wait({task})
        return task.cancelled()

    async def work():
        async with timeout_for("redis_command"):
            await hang()

    assert run_jumping(main()) is True


@pytest.mark.parametrize("action", [None, "sync", "async"])
def test_stop_is_called_once_on_expiry_and_the_error_says_what_became_of_the_work(action):
    stopped = []

    async def stop():
        await asyncio.sleep(3)
        stopped.append(1)

    stops = {None: None, "sync": lambda: stopped.append(1), "async": stop}
    error, _ = expiry_of("github_workflow", stop=stops[action])
    assert len(stopped) == (action is not None)
    assert error.detail == (
        "nothing was given that ends the work, so it may go on" if action is None else "the work was ended"
    )


def test_stop_is_not_called_for_a_block_that_ends_in_time_or_fails_by_itself():
    stopped = []

    async def main():
        async with timeout_for("provisioning", stop=lambda: stopped.append(1)):
            await asyncio.sleep(1)
        with suppress(ZeroDivisionError):
            async with timeout_for("provisioning", stop=lambda: stopped.append(1)):
                raise ZeroDivisionError

    run_jumping(main())
    assert stopped == []


def test_a_stop_that_fails_is_told_without_its_secrets():
    def stop():
        raise ConnectionRefusedError(
            111, "refused, with Authorization: Bearer ghp_abcdefghijklmnopqrstuvwxyz0123456789"
        )

    error, _ = expiry_of("provisioning", stop=stop)
    assert "ending the work failed (ConnectionRefusedError: [Errno 111] refused" in str(error)
    assert str(error).endswith("so it may go on; look, and end it by hand")
    assert "ghp_" not in str(error)
    assert isinstance(error.__cause__, ConnectionRefusedError)
    assert reprieve.classify(error).severity == "permanent"


def test_a_stop_that_is_given_up_is_cancelled():
    cancelled = []

    async def stop():
        try:
            await hang()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    async def main():
        with pytest.raises(OperationTimeoutError):
            async with timeout_for("redis_command", stop=stop):
                await hang()
        await asyncio.sleep(0)
        return list(cancelled)

    assert run_jumping(main()) == [1]


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_stop_that_hangs_is_given_ten_seconds(stubborn):
    async def stop():
        with suppress(asyncio.CancelledError if stubborn else KeyError):
            await hang()
        await asyncio.sleep(100)

    error, waited = expiry_of("redis_command", stop=stop)
    assert waited == pytest.approx(5 + STOP_SECONDS, abs=0.5)
    assert f"TimeoutError: not done after {STOP_SECONDS:g} s" in str(error)


def test_a_stop_under_way_is_finished_before_a_cancellation_from_outside_goes_on():
    stopped = []

    async def stop():
        await asyncio.sleep(4)
        stopped.append(1)

    async def work():
        async with timeout_for("redis_command", stop=stop):
            await hang()

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(6)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert run_jumping(main()) is True
    assert stopped == [1]


def test_a_decorated_function_is_limited_at_each_call():
    @timeout_for("redis_command")
    async def command(seconds):
        """Wait."""
        return await asyncio.sleep(seconds, seconds)

    async def main():
        assert await command(4) == 4
        for _ in range(2):
            with pytest.raises(OperationTimeoutError):
                await command(6)

    run_jumping(main())
    assert (command.__name__, command.__doc__) == ("command", "Wait.")


def test_a_longer_timeout_inside_a_shorter_one_is_refused_where_it_is_declared():
    @timeout_for("developer_task")
    async def inner(): ...

    with pytest.raises(
        UsageError, match=r"inner.* may take 5 s, but the timeout of developer_task inside it is 1800 s"
    ):
        timeout_for("redis_command")(inner)
    pipeline = reprieve.Pipeline("limits", profile="orchestrator")
    for options in ({"timeout": 5}, {"operation": "api_request"}):
        with pytest.raises(UsageError, match="could never expire"):
            pipeline.stage(**options)(inner)
    assert timeout_for("developer_task")(inner) is not inner  # equal ones are no contradiction


def test_plain_code_is_refused_with_what_would_be_right():
    with (
        pytest.raises(UsageError, match=r"is for `async with`.*a timeout of 5 s.*isolate=\"process\""),
        timeout_for("redis_command"),
    ):
        pass
    with pytest.raises(UsageError, match=r"plain is not an async function: .*make the function async"):

        @timeout_for("redis_command")
        def plain(): ...


def test_a_limit_is_used_for_one_block_and_inside_a_task():
    async def main():
        limit = timeout_for("redis_command")
        async with limit:
            pass
        with pytest.raises(UsageError, match="used once"):
            async with limit:
                pass

    asyncio.run(main())
    with pytest.raises(UsageError, match="takes a function without arguments"):
        timeout_for("redis_command", stop=3)


def test_an_unknown_operation_names_those_that_the_profile_has():
    with pytest.raises(
        reprieve.UnknownNameError,
        match=r"no operation with a timeout in orchestrator is named 'redis_comand' \(did you mean 'redis_command'\?\); there are: api_request, developer_task, ",
    ):
        timeout_for("redis_comand")
    with pytest.raises(
        UsageError,
        match=r"'criticizer' has no timeouts: .*orchestrator.*\[criticizer.timeouts.redis_command\]",
    ):
        timeout_for("redis_command", profile="criticizer")


@pytest.mark.spec("ORC-2.3")
def test_a_service_changes_a_timeout_in_its_profile_file_or_in_code(tmp_path):
    (tmp_path / "service.toml").write_text(
        "[orchestrator.timeouts]\nredis_command.seconds = 2\ndeveloper_task.retry = true\n"
        '[langgraph]\nextends = "orchestrator"\n[langgraph.timeouts.model_call]\nseconds = 90\naction = "retry"\n'
    )
    book = load_profiles(tmp_path / "service.toml")
    assert operation_timeout("redis_command", book["orchestrator"]).seconds == 2
    assert operation_timeout("redis_command", book["orchestrator.transient"]).seconds == 2
    assert operation_timeout("model_call", book["langgraph"]).action is TimeoutAction.RETRY
    assert operation_timeout("worker_spawn", book["langgraph"]).seconds == 60
    assert operation_timeout("redis_command").seconds == 5
    shortened = book["orchestrator"].override(timeouts={"developer_task": 7})
    error, waited = expiry_of("developer_task", profile=shortened)
    assert waited == pytest.approx(7, abs=0.5)
    failure = reprieve.classify(error)
    assert (failure.error_class, failure.severity, failure.retryable) == (
        "OPERATION_TIMEOUT",
        "transient",
        True,
    )


def test_an_operation_of_your_own_is_added_in_code():
    own = OperationTimeout(seconds=1, action="fail")
    profile = ORCHESTRATOR.override("transient", timeouts={"warm_up": own}, max_attempts=2)
    assert profile.timeout("warm_up") == own.named("warm_up")
    assert profile.policies["transient"].max_attempts == 2
    error, _ = expiry_of("warm_up", profile=profile)
    assert (error.operation, error.action) == ("warm_up", "fail")


def test_a_limit_can_be_bound_once_and_used_by_many_tasks():
    limited = functools.partial(timeout_for, "redis_command", profile=SHORT)

    async def one(seconds):
        async with limited():
            await asyncio.sleep(seconds)

    async def main():
        return await asyncio.gather(*(one(0.001 * (n % 2) * 100) for n in range(20)), return_exceptions=True)

    found = asyncio.run(main())
    assert [type(each) for each in found] == [type(None), OperationTimeoutError] * 10
