"""Laws of retry, for any course of events: plain, async and as blocks alike."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from reprieve.app.retry import attempts, retry
from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.policy import Policy
from reprieve.errors import Permanent, Retryable
from reprieve.testing import FakeClock

OUTCOMES = {
    "timeout": TimeoutError,
    "reset": ConnectionResetError,
    "soon": lambda: Retryable("soon", retry_after=3.0),
    "later": lambda: Retryable("later", retry_after=400.0),
    "permanent": lambda: Permanent("no"),
    "bug": lambda: TypeError("a bug"),
}


@dataclass
class Course:
    """What each attempt does and takes, and what the world around it is like."""

    outcomes: list[str]
    takes: float
    hook_takes: float
    budget: int
    deadline: float | None
    draw: float
    clock: FakeClock = field(default_factory=FakeClock)
    began: list[float] = field(default_factory=list)
    raised: list[Exception] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)

    def attempt(self) -> str:
        self.began.append(self.clock.monotonic())
        self.clock.advance(self.takes)
        if len(self.began) > len(self.outcomes):
            return "done"
        self.raised.append(OUTCOMES[self.outcomes[len(self.began) - 1]]())
        raise self.raised[-1]

    async def attempt_async(self) -> str:
        await asyncio.sleep(0)
        return self.attempt()

    def hook(self, event) -> None:
        self.moments.append(event.moment)
        self.clock.advance(self.hook_takes)

    def options(self) -> dict[str, object]:
        return {"clock": self.clock, "deadline": self.deadline, "hooks": self.hook, "draw": lambda: self.draw}

    def policy(self) -> Policy:
        return Policy(
            max_attempts=self.budget, backoff=Backoff(initial=1.0, multiplier=2.0, maximum=60.0, jitter=Jitter.full())
        )


def by_decorator(course: Course) -> str:
    return retry(course.policy(), **course.options())(course.attempt)()


def by_async_decorator(course: Course) -> str:
    return asyncio.run(retry(course.policy(), **course.options())(course.attempt_async)())


def by_block(course: Course) -> str:
    for attempt in attempts(course.policy(), **course.options()):
        with attempt:
            return course.attempt()
    raise AssertionError


def by_async_block(course: Course) -> str:
    async def main() -> str:
        async for attempt in attempts(course.policy(), **course.options()):
            async with attempt:
                return await course.attempt_async()
        raise AssertionError

    return asyncio.run(main())


def outcome(way, course: Course) -> object:
    try:
        return way(course)
    except Exception as error:  # noqa: BLE001 - whatever goes up is the outcome
        return error


COURSES = {
    "outcomes": st.lists(st.sampled_from(sorted(OUTCOMES)), max_size=6),
    "takes": st.sampled_from([0.0, 0.5, 20.0]),
    "hook_takes": st.sampled_from([0.0, 0.25, 30.0]),
    "budget": st.integers(1, 6),
    "deadline": st.none() | st.sampled_from([0.1, 5.0, 60.0]),
    "draw": st.floats(0.0, 1.0, exclude_max=True),
}


@settings(max_examples=150, deadline=None)
@given(**COURSES)
def test_no_attempt_begins_past_the_budget_or_the_deadline(**values):
    course = Course(**values)
    outcome(by_decorator, course)
    assert len(course.began) <= course.budget
    if course.deadline is not None:
        assert all(began <= course.deadline for began in course.began)
        assert all(seconds <= course.deadline for seconds in course.clock.slept)


@settings(max_examples=150, deadline=None)
@given(**COURSES)
def test_the_outcome_is_that_of_the_last_attempt(**values):
    course = Course(**values)
    seen = outcome(by_decorator, course)
    last = course.raised[-1] if len(course.began) <= len(course.outcomes) else "done"
    assert seen is last


@settings(max_examples=150, deadline=None)
@given(**COURSES)
def test_hooks_hear_of_every_failure_and_of_the_end(**values):
    course = Course(**values)
    seen = outcome(by_decorator, course)
    if not course.raised:
        assert course.moments == []
        return
    *before, end = course.moments
    assert set(before) <= {"retrying"}
    assert end == ("recovered" if seen == "done" else "gave_up")
    assert len(before) in {len(course.raised) - (end == "gave_up"), len(course.raised)}


@settings(max_examples=60, deadline=None)
@given(**COURSES)
def test_all_four_ways_do_the_same(**values):
    def story(way) -> tuple[object, ...]:
        course = Course(**values)
        seen = outcome(way, course)
        return type(seen), getattr(seen, "__notes__", None), course.began, course.clock.slept, course.moments

    told = story(by_decorator)
    assert story(by_async_decorator) == told
    assert story(by_block) == told
    assert story(by_async_block) == told
