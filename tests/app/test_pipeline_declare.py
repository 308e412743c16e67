"""What can be declared, and what is refused where it is written."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import sys
from typing import Any

import pytest

import reprieve
from reprieve.app.pipeline import Job, Pipeline
from reprieve.app.pipeline.stage import Stage
from reprieve.core.breaker import Breaker
from reprieve.errors import PayloadError, UsageError


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


def three_stages():
    pipeline = Pipeline("review")

    @pipeline.stage
    async def fetch(job: Job[Change]) -> Diff:
        return Diff("x")

    @pipeline.stage(timeout=60, idempotent=True, repairable=True, concurrency=4, profile="analysis")
    async def llm(job: Job[Change], diff: Diff) -> Review:
        return Review("y")

    @pipeline.stage(delivers=True)
    def notify(job: Job[Change], fetch: Diff, llm: Review) -> None: ...

    return pipeline


def test_stages_stand_in_the_order_they_are_declared():
    pipeline = three_stages()
    assert [(stage.name, stage.index, stage.pipeline) for stage in pipeline.stages] == [
        ("fetch", 0, "review"),
        ("llm", 1, "review"),
        ("notify", 2, "review"),
    ]
    assert pipeline.first.name == "fetch"
    assert repr(pipeline) == "<Pipeline review: fetch -> llm -> notify>"


def test_a_stage_knows_what_it_was_declared_with():
    fetch, llm, notify = three_stages().stages
    assert (fetch.asynchronous, fetch.isolated, fetch.timeout, fetch.concurrency) == (True, False, None, None)
    assert (fetch.idempotent, fetch.repairable, fetch.delivers, fetch.profile.name) == (
        False,
        False,
        False,
        "criticizer",
    )
    assert (llm.timeout, llm.idempotent, llm.repairable, llm.concurrency) == (60.0, True, True, 4)
    assert (llm.profile.name, llm.result.name) == ("analysis", "Review")
    assert (notify.asynchronous, notify.delivers, notify.result.name) == (False, True, "None")


def test_a_parameter_gets_the_stage_of_its_name_and_a_single_one_the_stage_before():
    fetch, llm, notify = three_stages().stages
    assert fetch.parameters == ()
    assert [(each.name, each.source.name) for each in llm.parameters] == [("diff", "fetch")]
    assert [(each.name, each.source.name) for each in notify.parameters] == [("fetch", "fetch"), ("llm", "llm")]


def test_the_function_stays_what_it_is():
    pipeline = Pipeline("p")
    assert pipeline.stage(plain) is plain
    assert pipeline.stages[0].function is plain
    assert pipeline.stage(name="again")(plain) is plain
    assert plain(Job(Change(3))) == Diff("3")


def test_the_payload_is_what_stands_in_job():
    pipeline = three_stages()
    assert pipeline.payload.name == "Change"
    data = pipeline.encode_payload(Change(4))
    assert pipeline.decode_payload(data, pipeline.payload.fingerprint) == Change(4)
    with pytest.raises(PayloadError, match=r"the payload of review does not fit Change: Field required \(at number\)"):
        pipeline.encode_payload({})


def test_a_stage_that_does_not_say_what_the_payload_is_leaves_it_to_the_others():
    pipeline = Pipeline("p")

    @pipeline.stage
    async def one(job): ...
    @pipeline.stage
    async def two(job: Job): ...
    @pipeline.stage
    async def three(job: Job[Any]): ...

    assert pipeline.payload.fingerprint == "any"

    @pipeline.stage
    async def four(job: Job[Change]): ...

    assert pipeline.payload.name == "Change"


def test_local_types_are_found():
    @dataclasses.dataclass
    class Local:
        value: int

    pipeline = Pipeline("p")

    @pipeline.stage
    async def direct(job: Job[Local]) -> Local: ...
    @pipeline.stage(timeout=1)
    async def with_options(job: Job[Local], before: Local) -> list[Local]: ...

    assert [stage.result.name for stage in pipeline.stages] == [
        "Local",
        "list[Local]",
    ]


def test_payload_and_result_have_their_limits():
    pipeline = Pipeline("p", max_payload=10, max_result=5)
    pipeline.stage(name="only")(lambda job: None)
    assert pipeline.encode_payload("x" * 8) == b'"xxxxxxxx"'
    with pytest.raises(PayloadError, match="the payload of p takes 11 bytes, more than the 10 of max_payload"):
        pipeline.encode_payload("x" * 9)
    assert pipeline.first.encode("xxx") == b'"xxx"'
    with pytest.raises(
        reprieve.ReprieveError, match="the result of only takes 6 bytes, more than the 5 of max_result"
    ) as caught:
        pipeline.first.encode("xxxx")
    assert reprieve.classify(caught.value).error_class == "PAYLOAD_TOO_LARGE"


def test_a_result_that_a_model_made_is_judged_as_output():
    _, llm, notify = three_stages().stages
    with pytest.raises(reprieve.ReprieveError, match="the result of llm does not fit Review") as caught:
        llm.encode({"nothing": 1})
    assert reprieve.classify(caught.value).error_class == "OUTPUT_INVALID"
    with pytest.raises(reprieve.ReprieveError, match="the result of notify does not fit None") as caught:
        notify.encode(1)
    assert reprieve.classify(caught.value).error_class == "SCHEMA_INVALID"


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["review", "a", "A-b_c.9", "x" * 100])
def test_a_name_has_letters_digits_and_three_signs(name):
    assert Pipeline(name).name == name


@pytest.mark.parametrize("name", ["", "a b", "é", "a/b", "a\n", "x" * 101, None, 5, "a:b"])
def test_any_other_name_is_refused(name):
    with pytest.raises(UsageError, match="the name of a pipeline"):
        Pipeline(name)
    with pytest.raises(UsageError, match="the name of a stage"):
        Pipeline("p").stage(name="" if name is None else name)(plain)


def test_a_lambda_needs_a_name():
    with pytest.raises(UsageError, match="'<lambda>' is none"):
        Pipeline("p").stage(lambda job: None)


def test_names_and_former_names_are_given_once():
    pipeline = Pipeline("p")
    pipeline.stage(name="fetch", was=("get", "load"))(plain)
    for name, was, message in [
        ("fetch", (), "'fetch' already is a stage of 'p'"),
        ("get", (), "'get' already is a former name of the stage 'fetch' of 'p'"),
        ("other", "load", "'load' already is a former name of the stage 'fetch'"),
        ("other", ("fetch",), "'fetch' already is a stage"),
        ("other", ("other",), "'other' already is a stage"),
        ("other", ("x", "x"), "'x' already is a former name of the stage 'other'"),
        ("payload", (), "no stage can be named 'payload'"),
        ("other", ("payload",), "no stage can be named 'payload'"),
        ("other", ("a b",), "the name of a stage"),
        ("other", 5, "was= takes the stage's former names, not 5"),
    ]:
        with pytest.raises(UsageError, match=message):
            pipeline.stage(name=name, was=was)(plain)
    assert [stage.name for stage in pipeline.stages] == ["fetch"], "what is refused leaves nothing behind"


def test_a_stage_is_found_by_its_former_names_too():
    pipeline = Pipeline("p")
    pipeline.stage(name="fetch", was="get")(plain)
    pipeline.stage(name="send")(plain)
    assert pipeline.find("get") is pipeline.find("fetch") is pipeline.stages[0]
    assert pipeline.find("nothing") is None
    assert pipeline.keys() == [("p", "fetch"), ("p", "get"), ("p", "send")]


def test_a_parameter_may_have_a_former_name():
    pipeline = Pipeline("p")
    pipeline.stage(name="fetch", was="get")(plain)
    pipeline.stage(name="scan")(plain)

    @pipeline.stage
    def send(job, get, scan): ...

    assert [each.source.name for each in pipeline.stages[2].parameters] == ["fetch", "scan"]


# --- the pipeline itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "nothing"}, "no profile or policy is named 'nothing'"),
        ({"max_payload": 0}, "max_payload is a whole number from 1 on, not 0"),
        ({"max_result": "big"}, "max_result is a whole number"),
        ({"supersede": "yes"}, "supersede must be true or false"),
        ({"breaker": 5}, "breaker= takes a Breaker or None, not int"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        Pipeline("p", **options)


def test_a_pipeline_has_a_breaker_unless_it_says_no():
    assert Pipeline("p").breaker == Breaker()
    assert Pipeline("p", breaker=None).breaker is None
    assert Pipeline("p", breaker=Breaker(after=9)).breaker.after == 9


def test_profiles_come_from_the_book_that_was_given(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[gentle]\nextends = "criticizer"\nmax_attempts = 2\n')
    book = reprieve.load_profiles(path)
    pipeline = Pipeline("p", profile="gentle", profiles=book)
    pipeline.stage(name="one")(plain)
    pipeline.stage(name="two", profile="orchestrator.transient")(plain)
    pipeline.stage(name="three", profile=reprieve.Policy(max_attempts=7))(plain)
    assert [stage.profile.policy.max_attempts for stage in pipeline.stages] == [2, 4, 7]


def test_without_stages_there_is_nothing_to_start_at():
    with pytest.raises(UsageError, match="the pipeline 'p' has no stages"):
        _ = Pipeline("p").first
    assert Pipeline("p").keys() == []


def test_a_newer_version_supersedes_until_people_are_told():
    def declared(**options):
        pipeline = Pipeline("p", **options)
        pipeline.stage(name="fetch", was="get")(plain)
        pipeline.stage(name="llm")(plain)
        pipeline.stage(name="notify", delivers=options.get("supersede", False))(plain)
        pipeline.stage(name="report")(plain)
        return pipeline

    assert declared(supersede=True).supersedes() == ("fetch", "get", "llm")
    assert declared().supersedes() == ()
    silent = Pipeline("p", supersede=True)
    silent.stage(plain)
    assert silent.supersedes() == ("plain",)


def test_a_stage_is_a_value():
    stage = three_stages().stages[0]
    assert isinstance(stage, Stage)
    with pytest.raises(dataclasses.FrozenInstanceError):
        stage.name = "other"


def test_a_fingerprint_changes_with_what_can_make_stored_values_fit():
    def declared(result=int, name="fetch", was=(), upgrade=None, payload=None):
        pipeline = Pipeline("p")

        def fetch(job): ...

        fetch.__annotations__ = {"return": result} | ({} if payload is None else {"job": Job[payload]})
        pipeline.stage(name=name, was=was)(fetch)
        if upgrade is not None:
            pipeline.upgrade(name)(upgrade)
        return pipeline.fingerprint

    def mend(old):
        return old

    def mend_well(old):
        return old + 1

    prints = [
        declared(),
        declared(result=str),
        declared(name="get"),
        declared(name="get", was="fetch"),
        declared(upgrade=mend),
        declared(upgrade=mend_well),
        declared(payload=Change),
        declared(upgrade=functools.partial(mend)),
    ]
    assert len(set(prints)) == len(prints)
    assert declared() == prints[0]
    assert declared(upgrade=mend) == prints[4]


def test_declaring_loads_pydantic_and_importing_does_not():
    code = "import reprieve, sys; reprieve.Pipeline('p'); reprieve.Job; print([m for m in ('pydantic', 'asyncio', 'logging', 'sqlalchemy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
