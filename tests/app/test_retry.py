"""`@retry` on plain functions: who is tried again, how long it waits, and what the caller sees."""

import email.utils
import functools
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import traceback
import weakref

import httpx
import pytest

from reprieve.app.profiles import resolve
from reprieve.app.retry import Moment, retry
from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.decide import DeadLetter, Reason, RetryAt
from reprieve.core.policy import Policy
from reprieve.errors import Permanent, Retryable, UnknownNameError, UsageError
from reprieve.testing import FakeClock, no_sleep, retry_testing

THREE = Policy(
    name="three", max_attempts=3, backoff=Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.none())
)


class Flaky:
    """Fails with each of the given exceptions in turn, then succeeds."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, value: int = 7) -> int:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return value


def timeouts(count: int) -> list[TimeoutError]:
    return [TimeoutError(f"number {number}") for number in range(1, count + 1)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_call_that_succeeds_is_called_once_and_tells_nobody(clock):
    work, events = Flaky(), []
    assert retry(THREE, clock=clock, hooks=events.append)(work)(3) == 3
    assert (work.calls, events, clock.slept) == (1, [], [])


@pytest.mark.spec("CRIT-3.2")
def test_a_bare_decorator_follows_the_criticizer(clock):
    work = Flaky(*timeouts(9))

    @retry
    def call() -> int:
        return work()

    with no_sleep(), pytest.raises(TimeoutError, match="number 5"):
        call()
    assert work.calls == 5


@pytest.mark.spec("CRIT-2.0", "CRIT-2.1")
def test_waits_follow_the_policy_anew_for_each_attempt(clock):
    work, draws = Flaky(*timeouts(4)), iter([0.5, 0.25, 0.999, 0.0])
    assert retry("criticizer", clock=clock, draw=lambda: next(draws))(work)() == 7
    assert clock.slept == pytest.approx([0.5, 0.5, 3.996])  # the fourth wait is none: full jitter drew 0


def test_a_policy_is_found_by_its_bare_name(clock):
    work = Flaky(*timeouts(3))
    assert retry("transient", clock=clock, draw=lambda: 0.5)(work)() == 7
    assert clock.slept == pytest.approx([1.0, 2.0, 4.0])


class RateLimitError(Exception):
    """Shaped as the openai client shapes it."""

    __module__ = "openai"
    status_code = 429
    code = "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("profile", "error", "waits"),
    [
        pytest.param("analysis", TimeoutError, [1.15, 2.15], marks=pytest.mark.spec("LLM-2.2", "LLM-3.1")),
        pytest.param("ingestion", TimeoutError, [1.0, 2.0], marks=pytest.mark.spec("ING-2.1", "ING-3.2")),
        pytest.param("ingestion", RateLimitError, [10.0, 20.0], marks=pytest.mark.spec("ING-1.1")),
        pytest.param("orchestrator", TimeoutError, [1.0, 2.0, 4.0], marks=pytest.mark.spec("ORC-1.1", "ORC-2.1")),
        pytest.param(
            "orchestrator", RateLimitError, [5.0, 10.0, 20.0, 60.0, 60.0], marks=pytest.mark.spec("ORC-1.2", "ORC-2.2")
        ),
    ],
)
def test_every_profile_is_followed_in_attempts_and_waits(clock, profile, error, waits):
    work = Flaky(*(error("slow down") for _ in range(9)))
    with pytest.raises(error):
        retry(profile, clock=clock, draw=lambda: 0.5)(work)()
    assert clock.slept == pytest.approx(waits)
    assert work.calls == len(waits) + 1


def test_an_unknown_name_is_refused_where_it_is_written():
    with pytest.raises(UnknownNameError, match="transiet"):
        retry("transiet")


@pytest.mark.spec("CRIT-2.3")
def test_a_failure_that_turns_hopeless_stops_at_once(clock):
    work = Flaky(TimeoutError(), Permanent("never"), TimeoutError())
    with pytest.raises(Permanent):
        retry(THREE, clock=clock)(work)()
    assert work.calls == 2


@pytest.mark.spec("CRIT-1.9")
def test_a_bug_goes_up_at_once(clock):
    work = Flaky(AttributeError("no such thing"))
    with pytest.raises(AttributeError):
        retry(THREE, clock=clock)(work)()
    assert (work.calls, clock.slept) == (1, [])


@pytest.mark.spec("CRIT-1.2", "CRIT-2.2")
def test_retry_after_lengthens_the_wait_up_to_its_ceiling(clock):
    work = Flaky(Retryable("soon", retry_after=30), Retryable("later", retry_after=3_000))
    assert retry("criticizer", clock=clock, draw=lambda: 0.5)(work)() == 7
    assert clock.slept == pytest.approx([30.0, 300.0])


@pytest.mark.spec("CRIT-1.2", "LLM-2.1")
def test_retry_after_of_a_real_response_is_honoured_as_seconds_and_as_a_date(clock):
    def rate_limited(retry_after: str) -> httpx.HTTPStatusError:
        request = httpx.Request("GET", "https://upstream.example/")
        response = httpx.Response(429, headers={"Retry-After": retry_after}, request=request)
        return httpx.HTTPStatusError("429", request=request, response=response)

    in_a_minute = email.utils.formatdate(clock.now() + 60, usegmt=True)
    work = Flaky(rate_limited("7"), rate_limited(in_a_minute))
    assert retry("criticizer", clock=clock, draw=lambda: 0.0)(work)() == 7
    assert clock.slept == pytest.approx([7.0, 53.0])  # the date is a minute after the start, 7 s of which are gone


@pytest.mark.spec("CRIT-1.4")
@pytest.mark.parametrize(("idempotent", "calls"), [(False, 1), (True, 3)])
def test_a_write_conflict_is_tried_again_only_where_that_is_harmless(clock, idempotent, calls):
    class UniqueViolation(Exception):
        __module__ = "psycopg.errors"
        sqlstate = "23505"

    work = Flaky(*(UniqueViolation() for _ in range(9)))
    with pytest.raises(UniqueViolation):
        retry(THREE, clock=clock, idempotent=idempotent)(work)()
    assert work.calls == calls


def test_the_original_exception_is_raised_with_its_traceback_and_a_note(clock):
    errors = timeouts(3)
    left = iter(errors)

    def deep() -> None:
        raise next(left)

    @retry(THREE, clock=clock)
    def work() -> None:
        deep()

    with pytest.raises(TimeoutError) as caught:
        work()
    assert caught.value is errors[2]
    assert caught.value.__notes__ == ["reprieve: gave up after 3 attempts: budget_spent (NETWORK_TIMEOUT)"]
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["work", "deep"]
    assert caught.value.__context__ is None, "an earlier attempt's failure is not this one's context"


@pytest.mark.parametrize("budget", [1, 2])
def test_the_wrapper_stands_once_in_the_traceback(clock, budget):
    @retry(resolve(THREE).override(max_attempts=budget), clock=clock)
    def work() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError) as caught:
        work()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["retried", "work"]
    assert names.count("retried") == 1


def test_one_attempt_is_said_in_the_singular(clock):
    with pytest.raises(KeyError) as caught:
        retry(THREE, clock=clock)(Flaky(KeyError("x")))()
    assert caught.value.__notes__ == ["reprieve: gave up after 1 attempt: non_retryable (BUG)"]


def test_an_exception_raised_again_and_again_gets_one_note_and_its_full_budget_each_time(clock):
    always, calls = TimeoutError(), []

    @retry(THREE, clock=clock)
    def work() -> None:
        calls.append(1)
        raise always

    for _ in range(3):
        with pytest.raises(TimeoutError):
            work()
    assert len(calls) == 9
    assert len(always.__notes__) == 1


def test_an_exception_that_refuses_attributes_is_raised_all_the_same(clock):
    class FrozenError(TimeoutError):
        def __setattr__(self, name, value):
            raise AttributeError(name)

    work = Flaky(*(FrozenError() for _ in range(9)))
    with pytest.raises(FrozenError):
        retry(THREE, clock=clock)(work)()
    assert work.calls == 3


def test_an_exception_that_was_given_up_can_still_be_pickled(clock):
    with pytest.raises(TimeoutError) as caught:
        retry(THREE, clock=clock)(Flaky(*timeouts(3)))()
    assert pickle.loads(pickle.dumps(caught.value)).__notes__ == caught.value.__notes__


def test_an_exception_that_went_up_is_kept_alive_by_nobody(clock):
    class Tracked(TimeoutError):
        pass

    @retry(THREE, clock=clock)
    def work() -> None:
        raise Tracked

    def call() -> weakref.ref[Tracked]:
        try:
            work()
        except Tracked as error:
            return weakref.ref(error)
        raise AssertionError

    gc.collect()
    gc.disable()
    try:
        assert call()() is None, "a cycle would keep the exception, and the frames it holds, until a collection"
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_is_neither_retried_nor_told(clock, ending):
    work, events = Flaky(ending()), []
    with pytest.raises(ending) as caught:
        retry(THREE, clock=clock, hooks=events.append)(work)()
    assert (work.calls, events) == (1, [])
    assert not hasattr(caught.value, "__notes__")


def test_system_exit_with_a_status_like_number_is_no_failure(clock):
    work = Flaky(TimeoutError(), SystemExit(401))
    with pytest.raises(SystemExit):
        retry(THREE, clock=clock)(work)()
    assert work.calls == 2


def test_the_deadline_is_never_overslept(clock):
    work = Flaky(*timeouts(9))
    with pytest.raises(TimeoutError, match="number 3") as caught:
        retry(resolve(THREE).override(max_attempts=9), deadline=5.0, clock=clock)(work)()
    assert clock.slept == pytest.approx([1.0, 2.0])
    assert caught.value.__notes__ == ["reprieve: gave up after 3 attempts: deadline (NETWORK_TIMEOUT)"]


def test_a_long_retry_after_does_not_oversleep_the_deadline(clock):
    work = Flaky(Retryable("later", retry_after=60))
    with pytest.raises(Retryable):
        retry(THREE, deadline=10.0, clock=clock)(work)()
    assert clock.slept == []


def test_the_deadline_counts_from_the_start_of_the_first_attempt(clock):
    def work() -> None:
        clock.advance(4.0)
        raise TimeoutError

    with pytest.raises(TimeoutError) as caught:
        retry(THREE, deadline=6.0, clock=clock)(work)()
    assert "after 2 attempts: deadline" in caught.value.__notes__[0]


def test_a_slow_hook_counts_towards_the_wait(clock):
    work = Flaky(TimeoutError())
    assert retry(THREE, clock=clock, hooks=lambda event: clock.advance(0.75))(work)() == 7
    assert clock.slept == pytest.approx([0.25])


def test_no_attempt_begins_after_a_deadline_that_passed_inside_a_hook(clock):
    work, events = Flaky(*timeouts(9)), []

    def hook(event):
        events.append(event)
        clock.advance(100.0)

    with pytest.raises(TimeoutError, match="number 1"):
        retry(THREE, deadline=10.0, clock=clock, hooks=hook)(work)()
    assert [event.moment for event in events] == [Moment.RETRYING, Moment.GAVE_UP]
    assert events[-1].reason == Reason.DEADLINE


def test_a_hook_that_is_late_but_within_the_deadline_costs_no_attempt(clock):
    work = Flaky(TimeoutError())
    assert retry(THREE, deadline=10.0, clock=clock, hooks=lambda event: clock.advance(9.0))(work)() == 7
    assert clock.slept == []


def test_what_a_hook_returns_is_ignored(clock):
    work = Flaky(TimeoutError())
    assert retry(THREE, clock=clock, hooks=lambda event: 500.0)(work)() == 7
    assert clock.slept == [1.0]


def test_hooks_are_told_of_every_turn(clock):
    work, events = Flaky(*timeouts(2)), []
    assert retry(THREE, clock=clock, hooks=[events.append], stage="fetch")(work)() == 7
    assert [(event.moment, event.attempt, event.elapsed) for event in events] == [
        (Moment.RETRYING, 1, 0.0),
        (Moment.RETRYING, 2, 1.0),
        (Moment.RECOVERED, 3, 3.0),
    ]
    assert [event.failure.error_class for event in events] == ["NETWORK_TIMEOUT"] * 3
    assert all(isinstance(event.decision, RetryAt) for event in events)
    assert {event.stage for event in events} == {"fetch"}


def test_hooks_are_told_of_giving_up_with_the_decision(clock):
    events = []

    @retry(THREE, clock=clock, hooks=events.append)
    def work() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        work()
    last = events[-1]
    assert (last.moment, last.attempt, last.reason) == (Moment.GAVE_UP, 3, "budget_spent")
    assert isinstance(last.decision, DeadLetter)
    assert last.function.endswith("work")


def test_a_hook_that_fails_changes_nothing_and_is_logged_without_its_secrets(clock, caplog):
    secret = "hunter2" * 3

    def broken(event):
        raise RuntimeError(f"password={secret}")

    work, events = Flaky(*timeouts(2)), []
    assert retry(THREE, clock=clock, hooks=[broken, events.append])(work)() == 7
    assert [event.moment for event in events] == ["retrying", "retrying", "recovered"]
    assert len(caplog.records) == 3
    assert "broken" in caplog.text
    assert "RuntimeError" in caplog.text
    assert secret not in caplog.text


def test_a_hook_that_turns_out_to_be_async_is_logged_in_a_plain_function(clock, caplog):
    async def later(event):
        pass

    assert retry(THREE, clock=clock, hooks=lambda event: later(event))(Flaky(TimeoutError()))() == 7  # noqa: PLW0108 - hides that it is async
    assert "coroutine" in caplog.text


def test_an_async_hook_is_refused_for_a_plain_function():
    async def hook(event):
        pass

    with pytest.raises(UsageError, match="async hook"):
        retry(THREE, hooks=hook)(Flaky().__call__)


def test_on_narrows_what_is_considered(clock):
    work, events = Flaky(ConnectionResetError(), TimeoutError(), ConnectionResetError()), []
    with pytest.raises(TimeoutError) as caught:
        retry(THREE, clock=clock, on=ConnectionError, hooks=events.append)(work)()
    assert work.calls == 2
    assert len(events) == 1
    assert not hasattr(caught.value, "__notes__")


def test_on_takes_a_predicate(clock):
    work = Flaky(OSError("please"), OSError("no"))
    with pytest.raises(OSError, match="no"):
        retry(THREE, clock=clock, on=lambda error: "please" in str(error))(work)()
    assert work.calls == 2


def test_on_never_makes_a_bug_retryable(clock):
    work = Flaky(TypeError("a bug"))
    with pytest.raises(TypeError):
        retry(THREE, clock=clock, on=Exception)(work)()
    assert work.calls == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 1.0}, "plain code"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": -1.0}, "deadline"),
        ({"deadline": float("nan")}, "deadline"),
        ({"deadline": float("inf")}, "deadline"),
        ({"deadline": True}, "deadline"),
        ({"deadline": "5"}, "deadline"),
        ({"timeout": 0}, "timeout"),
        ({"on": KeyboardInterrupt}, "never retried"),
        ({"on": int}, "on="),
        ({"on": "TimeoutError"}, "on="),
        ({"on": (TimeoutError, 5)}, "on="),
        ({"hooks": "print"}, "hooks="),
        ({"hooks": [5]}, "hooks="),
        ({"nested": "maybe"}, "nested="),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        retry(THREE, **options)(Flaky())


def test_a_misspelt_setting_is_refused():
    with pytest.raises(TypeError, match="dedline"):
        retry(THREE, dedline=5.0)


@pytest.mark.parametrize("target", [int, Flaky])
def test_a_class_is_not_a_function(target):
    with pytest.raises(UsageError, match="decorates functions"):
        retry(THREE)(target)
    with pytest.raises(UsageError, match="decorates functions"):
        retry(target)


def test_something_that_cannot_be_called_is_not_a_function():
    with pytest.raises(UsageError, match="decorates functions"):
        retry(THREE)(5)
    with pytest.raises(UsageError, match="Policy or a Profile"):
        retry(5)


def test_generators_are_refused_when_decorated():
    def numbers():
        yield 1

    async def numbers_async():
        yield 1

    for function in (numbers, numbers_async):
        with pytest.raises(UsageError, match="generator"):
            retry(THREE)(function)


def test_methods_of_every_kind_are_retried(clock):
    class Service:
        calls = 0

        @retry(THREE, clock=clock)
        def bound(self, value: int) -> tuple[object, int]:
            Service.calls += 1
            if Service.calls % 2:
                raise TimeoutError
            return self, value

        @retry(THREE, clock=clock)
        @staticmethod
        def static(value: int) -> int:
            Service.calls += 1
            if Service.calls % 2:
                raise TimeoutError
            return value

        @retry(THREE, clock=clock)
        @classmethod
        def of_class(cls, value: int) -> tuple[object, int]:
            Service.calls += 1
            if Service.calls % 2:
                raise TimeoutError
            return cls, value

        @staticmethod
        @retry(THREE, clock=clock)
        def inside(value: int) -> int:
            return value

    service = Service()
    assert service.bound(1) == (service, 1)
    assert (service.static(2), Service.static(2)) == (2, 2)
    assert service.of_class(3) == (Service, 3)
    assert service.inside(4) == 4
    assert Service.calls == 8


def test_partials_and_callable_objects_are_retried(clock):
    work = Flaky(TimeoutError())
    assert retry(THREE, clock=clock)(functools.partial(work, 5))() == 5
    work = Flaky(TimeoutError())
    assert retry(THREE, clock=clock)(work)(6) == 6


def test_introspection_survives():
    @retry("transient")
    def named(first: int, *, second: str = "x") -> bytes:
        """What it does."""
        return b""

    assert (named.__name__, named.__doc__) == ("named", "What it does.")
    assert str(inspect.signature(named)) == "(first: int, *, second: str = 'x') -> bytes"
    assert not inspect.iscoroutinefunction(named)


def test_calls_share_no_state_between_threads(clock):
    counts: dict[int, int] = {}
    barrier = threading.Barrier(8, timeout=20)

    @retry(THREE)
    def work(key: int) -> int:
        counts[key] = counts.get(key, 0) + 1
        if counts[key] < 3:
            raise TimeoutError
        return key

    results: list[int] = []

    def run(key: int) -> None:
        with no_sleep():
            barrier.wait()
            results.append(work(key))

    threads = [threading.Thread(target=run, args=(key,)) for key in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(8))
    assert set(counts.values()) == {3}


def test_the_test_mode_waits_for_nothing_and_replaces_budgets(clock):
    work = Flaky(*timeouts(9))
    with retry_testing(attempts=2), pytest.raises(TimeoutError, match="number 2"):
        retry(THREE, clock=clock)(work)()
    assert clock.slept == []
    with pytest.raises(TimeoutError, match="number 5"):
        retry(THREE, clock=clock)(work)()
    assert clock.slept == [1.0, 2.0]


def test_the_test_mode_ends_with_its_block_and_nests():
    with retry_testing(attempts=1):
        with retry_testing(attempts=4):
            work = Flaky(*timeouts(9))
            with pytest.raises(TimeoutError, match="number 4"):
                retry(THREE)(work)()
        work = Flaky(*timeouts(9))
        with pytest.raises(TimeoutError, match="number 1"):
            retry(THREE)(work)()


def test_the_test_mode_refuses_no_attempts():
    with pytest.raises(UsageError, match="at least 1"), retry_testing(attempts=0):
        pass


def test_decorating_a_plain_function_loads_neither_asyncio_nor_chance():
    code = (
        "import sys; from reprieve.app.retry import retry; from reprieve.core.policy import Policy\n"
        "f = retry(Policy(), deadline=5, hooks=print)(lambda: 1); assert f() == 1\n"
        "print([name for name in ('asyncio', 'random', 'logging', 're2', 'reprieve.app.judging') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
