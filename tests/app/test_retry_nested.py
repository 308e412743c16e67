"""A retry inside a retry does not multiply attempts."""

import asyncio
import warnings

import pytest

from reprieve.app.retry import NestedRetryWarning, attempts, retry
from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.policy import Policy
from reprieve.testing import FakeClock, no_sleep

THREE = Policy(
    name="three", max_attempts=3, backoff=Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.none())
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def failing(calls: list[int]):
    def work() -> None:
        calls.append(1)
        raise TimeoutError

    return work


def test_the_outer_retry_stops_where_the_inner_one_gave_up(clock):
    calls, events = [], []
    inner = retry(THREE, clock=clock)(failing(calls))

    @retry(THREE, clock=clock, hooks=events.append)
    def outer() -> None:
        inner()

    with pytest.warns(NestedRetryWarning, match="outer"), pytest.raises(TimeoutError) as caught:
        outer()
    assert len(calls) == 3
    assert [(event.moment, event.reason, event.decision) for event in events] == [("gave_up", "nested_retry", None)]
    assert caught.value.__notes__ == [
        "reprieve: gave up after 3 attempts: budget_spent (NETWORK_TIMEOUT)",
        "reprieve: gave up after 1 attempt: nested_retry (NETWORK_TIMEOUT)",
    ]


def test_the_outer_retry_multiplies_where_it_is_asked_to(clock):
    calls: list[int] = []
    inner = retry(THREE, clock=clock)(failing(calls))
    with pytest.raises(TimeoutError):
        retry(THREE, clock=clock, nested="retry")(lambda: inner())()  # noqa: PLW0108 - a function of its own around it
    assert len(calls) == 9


def test_two_decorators_on_one_function_are_noticed(clock):
    calls: list[int] = []
    both = retry(THREE, clock=clock)(retry(THREE, clock=clock)(failing(calls)))
    with pytest.warns(NestedRetryWarning), pytest.raises(TimeoutError):
        both()
    assert len(calls) == 3


def test_one_decorator_on_two_functions_is_noticed_between_them(clock):
    calls: list[int] = []
    decorator = retry(THREE, clock=clock)
    inner = decorator(failing(calls))

    @decorator
    def outer() -> None:
        inner()

    with pytest.warns(NestedRetryWarning), pytest.raises(TimeoutError):
        outer()
    assert len(calls) == 3


def test_a_cause_that_was_given_up_is_noticed_too(clock):
    calls: list[int] = []
    inner = retry(THREE, clock=clock)(failing(calls))

    @retry(THREE, clock=clock)
    def outer() -> None:
        try:
            inner()
        except TimeoutError as error:
            raise ConnectionError("wrapped") from error

    with pytest.warns(NestedRetryWarning), pytest.raises(ConnectionError):
        outer()
    assert len(calls) == 3


def test_a_fallback_that_fails_is_a_failure_of_its_own(clock):
    inner = retry(THREE, clock=clock)(failing([]))
    fallbacks = []

    @retry(THREE, clock=clock)
    def outer() -> None:
        try:
            inner()
        except TimeoutError:
            fallbacks.append(1)
            raise ConnectionResetError  # noqa: B904 - as code without a thought for chains raises it

    with pytest.raises(ConnectionResetError):
        outer()
    assert len(fallbacks) == 3


def test_an_inner_failure_that_was_never_retried_is_judged_by_the_outer_profile(clock):
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise TimeoutError

    inner = retry(THREE, clock=clock, on=ConnectionError)(work)

    @retry(THREE, clock=clock)
    def outer() -> None:
        inner()

    with pytest.raises(TimeoutError):
        outer()
    assert len(calls) == 3


def test_what_the_inner_retry_held_hopeless_is_judged_by_the_outer_profile(clock):
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise ValueError

    inner = retry("criticizer", clock=clock)(work)
    with pytest.raises(ValueError):  # noqa: PT011 - it has no message to match
        retry("ingestion", clock=clock)(lambda: inner())()  # noqa: PLW0108 - a function of its own around it
    assert len(calls) == 3


def test_what_the_outer_retry_holds_hopeless_is_no_case_of_nesting(clock):
    calls, events = [], []

    def work() -> None:
        calls.append(1)
        raise ValueError

    inner = retry("ingestion", clock=clock)(work)
    with pytest.raises(ValueError):  # noqa: PT011 - it has no message to match
        retry("criticizer", clock=clock, hooks=events.append)(lambda: inner())()  # noqa: PLW0108 - as above
    assert len(calls) == 3
    assert [event.reason for event in events] == ["non_retryable"]


def test_each_place_warns_once(clock):
    inner = retry(THREE, clock=clock)(failing([]))

    @retry(THREE, clock=clock)
    def outer() -> None:
        inner()

    @retry(THREE, clock=clock)
    def other() -> None:
        inner()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for function in (outer, outer, other, outer, other):
            with pytest.raises(TimeoutError):
                function()
    assert [warning.category for warning in caught] == [NestedRetryWarning] * 2
    assert {warning.filename for warning in caught} == {__file__}


def test_blocks_notice_functions_and_functions_notice_blocks(clock):
    calls: list[int] = []
    inner = retry(THREE, clock=clock)(failing(calls))

    def block() -> None:
        for attempt in attempts(THREE, clock=clock):
            with attempt:
                inner()

    with pytest.warns(NestedRetryWarning), pytest.raises(TimeoutError):
        block()
    assert len(calls) == 3

    def inner_block() -> None:
        for attempt in attempts(THREE, clock=clock):
            with attempt:
                calls.append(1)
                raise TimeoutError

    with pytest.warns(NestedRetryWarning), pytest.raises(TimeoutError):
        retry(THREE, clock=clock)(inner_block)()
    assert len(calls) == 6


def test_async_retries_notice_each_other(clock):
    calls: list[int] = []

    @retry(THREE, clock=clock)
    async def inner() -> None:
        calls.append(1)
        raise TimeoutError

    @retry(THREE, clock=clock)
    async def outer() -> None:
        await inner()

    with pytest.warns(NestedRetryWarning), pytest.raises(TimeoutError):
        asyncio.run(outer())
    assert len(calls) == 3


def test_a_block_that_meets_the_same_exception_again_has_its_full_budget(clock):
    always, turns = TimeoutError(), []

    def block() -> None:
        for attempt in attempts(THREE, clock=clock):
            with attempt:
                turns.append(1)
                raise always

    for _ in range(2):
        with pytest.raises(TimeoutError):
            block()
    assert len(turns) == 6


def test_blocks_nested_in_one_function_do_not_multiply():
    calls = []

    def both():
        for outer in attempts("transient"):
            with outer:
                for inner in attempts("transient"):
                    with inner:
                        failing(calls)()

    with no_sleep(), pytest.warns(NestedRetryWarning), pytest.raises(TimeoutError):
        both()
    assert len(calls) == 4


def test_where_warnings_are_errors_the_failure_still_goes_first():
    @retry("transient")
    def inner():
        raise TimeoutError

    @retry("transient")
    def outer():
        inner()

    with no_sleep(), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TimeoutError):
            outer()


def test_an_exception_that_answers_no_question_is_raised_as_it_was():
    class Mute(Exception):
        def __getattr__(self, name):
            raise KeyError(name)

    @retry("transient")
    def call():
        raise Mute

    with no_sleep(), pytest.raises(Mute):
        call()
