"""What a stage's function is given: the job's own values, its token and its memory."""

import asyncio
import dataclasses
import pickle
import re
import threading

import pytest

from reprieve.app.pipeline import Job
from reprieve.errors import Misfit, ResultError, UsageError


@dataclasses.dataclass
class Part:
    text: str


class Shelf:
    """A memory that keeps bytes, counts what is asked of it and can be told to fail."""

    def __init__(self, loop, **kept):
        self.loop = loop
        self.kept = dict(kept)
        self.loads = 0
        self.fails = None

    async def load(self):
        self.loads += 1
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        return dict(self.kept)

    async def keep(self, key, value):
        await asyncio.sleep(0)
        if self.fails is not None:
            raise self.fails
        assert isinstance(value, bytes)
        self.kept[key] = value


def with_shelf(work, *, fresh=False, **kept):
    """Run `work(job, shelf)` in an event loop."""

    async def main():
        shelf = Shelf(asyncio.get_running_loop(), **kept)
        return await work(Job(None, memory=shelf, fresh=fresh), shelf)

    return asyncio.run(main())


def test_a_job_has_what_it_was_submitted_with():
    job = Job(
        Part("x"),
        id=7,
        pipeline="review",
        stage="fetch",
        idempotency_key="k",
        attempt=2,
        subject="s",
        version=3,
        created_at=9.5,
    )
    assert (job.payload, job.id, job.pipeline, job.stage, job.attempt) == (Part("x"), 7, "review", "fetch", 2)
    assert (job.idempotency_key, job.subject, job.version, job.created_at) == ("k", "s", 3, 9.5)
    assert job.cancelled is False
    assert repr(job) == "<Job 7 at review.fetch, attempt 2>"


def test_a_job_without_subject_and_version_is_its_own_first():
    job = Job(None, idempotency_key="k")
    assert (job.subject, job.version) == ("k", 1)


def token(**changes):
    return Job(None, **{"pipeline": "review", "idempotency_key": "k", "version": 1, "stage": "fetch", **changes}).token


def test_a_token_is_the_same_on_every_attempt_and_another_for_everything_else():
    assert re.fullmatch("[0-9a-f]{32}", token())
    assert token(attempt=5, id=9, created_at=5.0, subject="other") == token()
    assert token(version=None) == token()
    others = [{"pipeline": "other"}, {"idempotency_key": "other"}, {"version": 2}, {"stage": "llm"}]
    assert len({token(), *(token(**each) for each in others)}) == 5
    assert token(pipeline="a", idempotency_key="bc") != token(pipeline="ab", idempotency_key="c")
    assert token(idempotency_key="é\ud800") != token()


def test_a_token_never_changes_between_versions_of_the_library():
    assert token() == "05fd18076f308206b464c965740c306e"


def test_a_job_travels_to_another_process_without_its_memory():
    async def work(job, shelf):
        job.cancelled = True
        return pickle.loads(pickle.dumps(job))

    arrived = with_shelf(work)
    assert (arrived.payload, arrived.attempt, arrived.cancelled) == (None, 1, True)
    with pytest.raises(UsageError, match="sent to another process, where it can remember nothing"):
        arrived.remember_blocking("key", lambda: 1)


# --- remembering ------------------------------------------------------------------------------------------------------


def test_what_was_made_is_kept_and_not_made_again():
    calls = []

    async def make():
        calls.append(1)
        return {"text": "x"}

    async def work(job, shelf):
        first = await job.remember("src/a.py", make)
        again = await job.remember("src/a.py", make)
        later = await Job(None, memory=shelf).remember("src/a.py", make)
        return first, again, later, shelf

    first, again, later, shelf = with_shelf(work)
    assert first == again == later == {"text": "x"}
    assert first is not again
    assert (calls, shelf.kept) == ([1], {"src/a.py": b'{"text":"x"}'})


def test_make_may_be_plain_or_a_lambda_around_an_async_call():
    async def ask(number=3):
        return number

    async def work(job, shelf):
        return [
            await job.remember("a", lambda: 1),
            await job.remember("b", lambda: ask(2)),
            await job.remember("c", ask),
        ]

    assert with_shelf(work) == [1, 2, 3]


def test_a_type_brings_the_value_back_as_it_was():
    async def work(job, shelf):
        return [
            await job.remember("a", lambda: Part("x"), type=Part),
            await job.remember("b", lambda: (1, 2), type=tuple[int, int]),
        ]

    assert with_shelf(work, b=b"[3,4]") == [Part("x"), (3, 4)]


def test_what_would_come_back_changed_is_refused_and_not_kept():
    async def work(job, shelf):
        with pytest.raises(
            ResultError,
            match="what is remembered as 'a' fits Any, but would come back changed from JSON: a Part as a dict",
        ):
            await job.remember("a", lambda: Part("x"))
        return shelf.kept

    assert with_shelf(work) == {}


def test_what_was_kept_under_another_type_is_a_misfit():
    async def work(job, shelf):
        await job.remember("a", lambda: Part("x"), type=Part)

    with pytest.raises(Misfit, match=r"what is remembered as 'a' does not fit Part: Field required \(at text\)"):
        with_shelf(work, a=b"{}")


def test_the_memory_is_loaded_once_and_only_when_it_is_needed():
    async def work(job, shelf):
        before = shelf.loads
        await asyncio.gather(*(job.remember(f"key {number}", lambda: 1) for number in range(5)))
        return before, shelf.loads

    assert with_shelf(work) == (0, 1)


def test_a_fresh_job_loads_nothing():
    async def work(job, shelf):
        await job.remember("a", lambda: 1)
        return shelf.loads, shelf.kept

    assert with_shelf(work, fresh=True) == (0, {"a": b"1"})


def test_calls_of_one_key_make_it_once():
    calls = []

    async def make():
        calls.append(1)
        await asyncio.sleep(0.01)
        return len(calls)

    async def work(job, shelf):
        return await asyncio.gather(*(job.remember("a", make) for _ in range(10)))

    assert (with_shelf(work), calls) == ([1] * 10, [1])


def test_a_failure_is_not_remembered():
    answers = [OSError("down"), "fine"]

    async def make():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def work(job, shelf):
        with pytest.raises(OSError, match="down"):
            await job.remember("a", make)
        assert shelf.kept == {}
        return await job.remember("a", make)

    assert with_shelf(work) == "fine"


def test_a_caller_that_is_cancelled_leaves_the_making_to_the_next():
    async def never():
        await asyncio.sleep(60)

    async def work(job, shelf):
        first = asyncio.create_task(job.remember("a", never))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(job.remember("a", lambda: "made"))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert with_shelf(work) == "made"


def test_what_could_not_be_kept_is_not_returned():
    class LeaseLostError(Exception):
        pass

    async def work(job, shelf):
        await job.remember("a", lambda: 1)
        shelf.fails = LeaseLostError()
        with pytest.raises(LeaseLostError):
            await job.remember("b", lambda: 1)
        shelf.fails = None
        return await job.remember("b", lambda: 2)

    assert with_shelf(work) == 2


def test_a_memory_that_could_not_be_loaded_is_loaded_by_the_next_call():
    async def work(job, shelf):
        shelf.fails = OSError("down")
        with pytest.raises(OSError, match="down"):
            await job.remember("a", lambda: "made anew")
        shelf.fails = None
        return await job.remember("a", lambda: "made anew")

    assert with_shelf(work, a=b'"kept"') == "kept"


def test_what_asks_for_itself_is_refused_in_place_of_waiting_for_ever():
    async def work(job, shelf):
        async def circular():
            return await job.remember("a", lambda: 1)

        with pytest.raises(UsageError, match="what is remembered as 'a' asks for itself while it is made"):
            await asyncio.wait_for(job.remember("a", circular), 5)

        async def nested():
            return await job.remember("b", lambda: 2)

        return await job.remember("c", nested)

    assert with_shelf(work) == 2


@pytest.mark.parametrize("key", ["", "x" * 501, "a\0b", "a\ud800", 5, None])
def test_a_key_that_cannot_be_kept_is_refused(key):
    async def work(job, shelf):
        with pytest.raises(UsageError, match="the key of a memo"):
            job.remember(key, lambda: 1)

    with_shelf(work)


@pytest.mark.parametrize("key", ["x" * 500, "größe/ñ/🙂", " "])
def test_any_other_key_is_kept(key):
    async def work(job, shelf):
        await job.remember(key, lambda: 1)
        return list(shelf.kept)

    assert with_shelf(work) == [key]


def test_what_is_no_function_is_refused():
    async def ask(): ...

    async def work(job, shelf):
        with pytest.raises(UsageError, match=r"write `lambda: ...` around it, not coroutine"):
            job.remember("a", ask())
        with pytest.raises(UsageError, match="not int"):
            job.remember("a", 5)

    with_shelf(work)


# --- from plain functions ---------------------------------------------------------------------------------------------


def in_thread(plain, **kept):
    async def work(job, shelf):
        return await asyncio.to_thread(plain, job, shelf)

    return with_shelf(work, **kept)


def test_a_plain_function_remembers_blocking():
    calls = []

    def make():
        calls.append(threading.current_thread())
        return Part("x")

    def plain(job, shelf):
        values = [job.remember_blocking("a", make, type=Part), job.remember_blocking("a", make, type=Part)]
        return values, job.remember_blocking("b", make, type=Part), threading.current_thread(), shelf

    values, found, thread, shelf = in_thread(plain, b=b'{"text":"kept"}')
    assert (values, found, calls) == ([Part("x")] * 2, Part("kept"), [thread])
    assert (shelf.loads, shelf.kept["a"]) == (1, b'{"text":"x"}')


def test_what_a_plain_function_makes_may_be_async():
    async def ask():
        return asyncio.get_running_loop()

    async def count():
        return 3

    def plain(job, shelf):
        with pytest.raises(ResultError):
            job.remember_blocking("loop", ask)
        return job.remember_blocking("a", count)

    assert in_thread(plain) == 3


def test_threads_of_one_stage_make_a_key_once():
    calls = []

    def plain(job, shelf):
        started = threading.Barrier(4)

        def make():
            calls.append(1)
            return len(calls)

        def run():
            started.wait(5)
            found.append(job.remember_blocking("a", make))

        found = []
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        return found

    assert (in_thread(plain), calls) == ([1] * 4, [1])


def test_a_failure_in_a_plain_function_lets_the_next_call_try():
    def plain(job, shelf):
        with pytest.raises(ZeroDivisionError):
            job.remember_blocking("a", lambda: 1 / 0)
        return job.remember_blocking("a", lambda: 2)

    assert in_thread(plain) == 2


def test_each_kind_of_stage_has_its_own_call():
    def plain(job, shelf):
        with pytest.raises(UsageError, match=r"a plain function cannot await job.remember: call job.remember_blocking"):
            job.remember("a", lambda: 1)

        async def elsewhere():
            with pytest.raises(UsageError, match="belongs to the worker's event loop, and this is another one"):
                job.remember("a", lambda: 1)

        asyncio.run(elsewhere())

    in_thread(plain)

    async def work(job, shelf):
        with pytest.raises(UsageError, match=r"would stop the event loop: await job.remember"):
            job.remember_blocking("a", lambda: 1)

    with_shelf(work)


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_a_job_made_by_hand_remembers_for_itself():
    calls = []

    async def count():
        calls.append(1)
        return len(calls)

    async def stage(job):
        return await job.remember("a", count) + await job.remember("a", count)

    def plain(job):
        return job.remember_blocking("a", count) + job.remember_blocking("a", count)

    assert asyncio.run(stage(Job(None))) == 2
    assert plain(Job(None)) == 4
