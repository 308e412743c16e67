"""What cannot run is refused where it is written."""

from __future__ import annotations

import dataclasses
import functools
import math
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from reprieve.app.pipeline import Job, Pipeline
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from nowhere import Hidden


@dataclasses.dataclass
class Change:
    number: int


@dataclasses.dataclass
class Diff:
    text: str


@dataclasses.dataclass
class Review:
    summary: str


def plain(job: Job[Change]) -> Diff:
    return Diff(str(job.payload.number))


async def asynchronous(job): ...


async def generating(job):
    yield 1


def yielding(job):
    yield 1


class Service:
    def method(self, job): ...

    async def later(self, job: Job[Change]) -> Diff: ...


def test_a_bound_method_can_be_a_stage():
    pipeline = Pipeline("p")
    pipeline.stage(Service().later)
    assert (pipeline.first.name, pipeline.first.asynchronous, pipeline.payload.name) == ("later", True, "Change")


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (generating, {}, "'generating' of 'p' is a generator: a stage returns one result"),
        (yielding, {}, "is a generator"),
        (plain, {"timeout": 5}, "cannot be stopped from outside, so a timeout would be a lie"),
        (asynchronous, {"isolate": "process"}, "is async, which a timeout can cancel"),
        (plain, {"isolate": "thread"}, "isolate= is \"process\" or None, not 'thread'"),
        (lambda job: None, {"name": "x", "isolate": "process"}, "is a lambda, nested or bound and cannot be isolated"),
        (Service().method, {"isolate": "process"}, "is a lambda, nested or bound"),
        (asynchronous, {"timeout": 0}, "timeout is a number of seconds, more than 0 and finite, not 0"),
        (asynchronous, {"timeout": -1}, "timeout is a number"),
        (asynchronous, {"timeout": math.inf}, "timeout is a number"),
        (asynchronous, {"timeout": math.nan}, "timeout is a number"),
        (asynchronous, {"timeout": True}, "timeout is a number"),
        (asynchronous, {"timeout": "5"}, "timeout is a number"),
        (plain, {"concurrency": 0}, "concurrency is a whole number from 1 on, not 0"),
        (plain, {"concurrency": True}, "concurrency is a whole number"),
        (plain, {"concurrency": 1.5}, "concurrency is a whole number"),
        (plain, {"idempotent": "yes"}, "idempotent must be true or false"),
        (plain, {"delivers": 1}, "delivers must be true or false"),
        (plain, {"repairable": None}, "repairable must be true or false"),
        (plain, {"profile": "critcizer"}, "did you mean 'criticizer'"),
        (plain, {"timout": 5}, "no option of a stage is named 'timout' .did you mean 'timeout'"),
        (5, {}, "a stage is a function, not 5"),
        ("fetch", {}, "a stage is a function, not 'fetch': write @pipeline.stage.name="),
        (Change, {}, "a stage is a function"),
        (functools.partial(plain), {}, "a stage is a function"),
        (Service.method, {}, "is a method that nobody is bound to: declare it on an instance"),
    ],
)
def test_what_cannot_run_is_refused(function, options, message):
    pipeline = Pipeline("p")
    with pytest.raises(UsageError, match=message):
        pipeline.stage(**options)(function)
    assert pipeline.stages == ()


def test_a_plain_function_of_a_module_can_be_isolated_and_then_have_a_timeout():
    pipeline = Pipeline("p")
    pipeline.stage(isolate="process", timeout=5)(plain)
    assert (pipeline.first.isolated, pipeline.first.timeout) == (True, 5.0)


def test_a_nested_function_cannot_be_isolated():
    def nested(job): ...

    with pytest.raises(UsageError, match="define it with `def` at the top of a module"):
        Pipeline("p").stage(isolate="process")(nested)


PROGRAM = """
import reprieve
pipeline = reprieve.Pipeline("p")
@pipeline.stage(isolate="process")
def work(job): ...
print(pipeline.first.isolated)
"""


def test_what_was_typed_in_cannot_be_isolated(tmp_path):
    typed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert "was typed in, not read from a file, and cannot be isolated" in typed.stderr
    (tmp_path / "program.py").write_text(PROGRAM)
    read = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (read.stdout, read.stderr) == ("True\n", "")


def takes_nothing(): ...
def takes_any(*args): ...
def takes_by_name(*, job): ...
def takes_a_diff(diff: Diff): ...
def takes_what_is_not_there(job: Job[Hidden]): ...
def returns_what_cannot_be_stored(job) -> type[Any] | object | complex | Service: ...
def takes_what_cannot_be_stored(job: Job[Service]): ...
def takes_several(job, fetch, sacn): ...
def takes_one_of_any_name(job, whatever): ...
def takes_the_rest(job, *results): ...
def takes_keywords(job, **results): ...
def takes_by_keyword(job, *, fetch): ...
def takes_after_a_default(job, client=None, fetch=None): ...
def takes_another_payload(job: Job[Diff]): ...
def takes_another_result(job, fetch: Review): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (takes_nothing, "its first parameter is the job: write `def takes_nothing"),
        (takes_any, "its first parameter is the job"),
        (takes_by_name, "its first parameter is the job"),
        (takes_a_diff, r"its first parameter is the job, a reprieve.Job\[...\] of the payload's type, not Diff"),
        (
            takes_what_is_not_there,
            "its annotations cannot be read: name 'Hidden' is not defined; what they name must be there",
        ),
        (returns_what_cannot_be_stored, "its result: .*Service cannot be stored as JSON"),
        (takes_what_cannot_be_stored, "the payload: Service cannot be stored as JSON"),
        (takes_several, "no stage before it is named 'sacn' .did you mean 'scan'.*: fetch, scan"),
        (takes_the_rest, r"\*results can get no result"),
        (takes_keywords, r"\*\*results can get no result"),
        (takes_by_keyword, "fetch can get no result"),
        (takes_after_a_default, "parameters with defaults of their own stand behind"),
        (takes_another_payload, r"takes a Job\[Diff\], but the stages before it a Job\[Change\]"),
        (takes_another_result, "takes fetch as Review, but the stage 'fetch' returns Diff"),
    ],
)
def test_a_signature_that_cannot_be_served_is_refused(function, message):
    pipeline = Pipeline("p")
    pipeline.stage(name="fetch")(plain)
    pipeline.stage(name="scan")(plain)
    with pytest.raises(UsageError, match=message):
        pipeline.stage(function)
    assert len(pipeline.stages) == 2


def test_the_first_stage_takes_only_the_job():
    with pytest.raises(UsageError, match="is the first stage and takes only the job, not 'whatever'"):
        Pipeline("p").stage(takes_one_of_any_name)


def test_parameters_with_defaults_are_left_alone():
    pipeline = Pipeline("p")

    @pipeline.stage
    async def fetch(job, client=None, *, retries=3) -> int: ...
    @pipeline.stage
    async def scan(job, found: int, client=None): ...

    assert [each.name for each in pipeline.stages[0].parameters] == []
    assert [each.name for each in pipeline.stages[1].parameters] == ["found"]


@pytest.mark.parametrize(
    ("made", "wanted"),
    [(int, float), (dict, "Mapping"), (bool, int), (int, "int | None"), (list[int], list), (Diff, object)],
)
def test_a_parameter_may_ask_for_less(made, wanted):
    from collections.abc import Mapping  # noqa: F401, PLC0415 - read by the annotation

    pipeline = Pipeline("p")

    def first(job): ...
    def second(job, value): ...

    first.__annotations__["return"] = made
    second.__annotations__["value"] = wanted
    pipeline.stage(first)
    pipeline.stage(second)
    assert pipeline.stages[1].parameters[0].codec is pipeline.stages[0].result


def test_a_parameter_says_what_a_stage_without_a_type_returned():
    pipeline = Pipeline("p")

    @pipeline.stage
    async def fetch(job): ...
    @pipeline.stage
    async def scan(job, diff: Diff): ...

    assert pipeline.stages[1].parameters[0].codec.name == "Diff"


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda pipeline: pipeline.upgrade("nothing"),
            "no stage of p is named 'nothing'; there are: fetch, get, payload",
        ),
        (lambda pipeline: pipeline.upgrade(plain), "say whose results the upgrade is for: @p.upgrade"),
        (lambda pipeline: pipeline.upgrade("fetch")(asynchronous), "is a plain function of the old value"),
        (lambda pipeline: pipeline.upgrade("fetch")(5), "is a plain function of the old value, not 5"),
        (lambda pipeline: pipeline.upgrade("payload"), "an upgrade of payload is declared already"),
    ],
)
def test_an_upgrade_that_cannot_be_is_refused(declare, message):
    pipeline = Pipeline("p")
    pipeline.stage(name="fetch", was="get")(plain)
    pipeline.upgrade("payload")(lambda old: old)
    with pytest.raises(UsageError, match=message):
        declare(pipeline)
