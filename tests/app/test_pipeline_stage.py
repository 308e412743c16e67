"""A stage gets what earlier ones left behind, also after a deployment that renamed a stage or changed a type."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from typing import Any

import pytest

from reprieve.app.judging import classify
from reprieve.app.pipeline import Job, Pipeline
from reprieve.app.pipeline.values import TypeCodec
from reprieve.errors import Misfit, ResultError
from reprieve.ports.intents import StoredResult


@dataclasses.dataclass
class OldDiff:
    text: str


@dataclasses.dataclass
class Diff:
    text: str
    language: str


@dataclasses.dataclass
class Review:
    summary: str


def kept(stage, value, declared):
    codec = TypeCodec.of(declared)
    return StoredResult(stage=stage, data=codec.encode(value), type=codec.fingerprint)


def by_stage(*results):
    return {result.stage: result for result in results}


def declared(**options):
    pipeline = Pipeline("review")

    @pipeline.stage(**options)
    async def fetch(job) -> Diff: ...
    @pipeline.stage
    async def llm(job, diff: Diff) -> Review: ...
    @pipeline.stage
    async def notify(job, llm: Review, fetch: Diff) -> None: ...

    return pipeline


def test_arguments_are_the_results_in_the_order_of_the_parameters():
    stored = by_stage(kept("fetch", Diff("a", "py"), Diff), kept("llm", Review("fine"), Review))
    fetch, llm, notify = declared().stages
    assert fetch.arguments({}) == []
    assert llm.arguments(stored) == [Diff("a", "py")]
    assert notify.arguments(stored) == [Review("fine"), Diff("a", "py")]


def test_what_a_stage_encodes_another_reads():
    fetch, llm, _ = declared().stages
    data = fetch.encode({"text": "a", "language": "py"})
    stored = by_stage(StoredResult(stage="fetch", data=data, type=fetch.result.fingerprint))
    assert llm.arguments(stored) == [Diff("a", "py")]


def test_results_under_a_former_name_are_found():
    llm = declared(was=("get", "load")).stages[1]
    assert llm.arguments(by_stage(kept("load", Diff("a", "py"), Diff))) == [Diff("a", "py")]
    both = by_stage(kept("get", Diff("old", "py"), Diff), kept("fetch", Diff("new", "py"), Diff))
    assert llm.arguments(both) == [Diff("new", "py")], "the present name goes first"


def test_a_result_of_another_type_that_fits_is_taken():
    @dataclasses.dataclass
    class WiderDiff:
        text: str
        language: str
        size: int = 0

    llm = declared().stages[1]
    assert llm.arguments(by_stage(kept("fetch", WiderDiff("a", "py"), WiderDiff))) == [Diff("a", "py")]


def test_a_result_that_fits_no_more_is_a_misfit_that_says_whose_and_what():
    llm = declared().stages[1]
    with pytest.raises(Misfit) as caught:
        llm.arguments(by_stage(kept("fetch", OldDiff("private words"), OldDiff)))
    assert (caught.value.stage, caught.value.problem) == ("fetch", "does not fit Diff: Field required (at language)")
    assert "private" not in str(caught.value)


def test_a_result_that_was_never_made_is_a_misfit():
    llm = declared().stages[1]
    with pytest.raises(Misfit, match="fetch: has left no result, which llm takes: the job was past it"):
        llm.arguments(by_stage(kept("other", 1, int)))


def test_an_upgrade_makes_an_older_result_fit():
    pipeline = declared()
    seen = []

    @pipeline.upgrade("fetch")
    def with_language(old: Any) -> Any:
        seen.append(old)
        return {**old, "language": "unknown"}

    _, llm, notify = pipeline.stages
    older = by_stage(kept("fetch", OldDiff("a"), OldDiff), kept("llm", Review("fine"), Review))
    assert llm.arguments(older) == [Diff("a", "unknown")]
    assert notify.arguments(older) == [Review("fine"), Diff("a", "unknown")]
    assert seen == [{"text": "a"}] * 2


def test_an_upgrade_may_return_the_type_itself():
    pipeline = declared()
    pipeline.upgrade("fetch")(lambda old: Diff(old["text"], "unknown"))
    assert pipeline.stages[1].arguments(by_stage(kept("fetch", OldDiff("a"), OldDiff))) == [Diff("a", "unknown")]


def test_an_upgrade_leaves_alone_what_has_the_present_type():
    pipeline = declared()
    pipeline.upgrade("fetch")(lambda old: {**old, "text": "upgraded"})
    assert pipeline.stages[1].arguments(by_stage(kept("fetch", Diff("a", "py"), Diff))) == [Diff("a", "py")]


def test_an_upgrade_comes_before_an_older_value_that_would_fit_by_chance():
    pipeline = Pipeline("billing")

    @pipeline.stage
    async def price(job) -> int: ...
    @pipeline.stage
    async def bill(job, price: int): ...

    pipeline.upgrade("price")(lambda euros: round(euros * 100))
    assert pipeline.stages[1].arguments(by_stage(kept("price", 12.0, float))) == [1200]


def test_an_upgrade_is_declared_under_any_name_of_its_stage():
    pipeline = declared(was="get")
    pipeline.upgrade("get")(lambda old: {**old, "language": "unknown"})
    assert pipeline.stages[1].arguments(by_stage(kept("get", OldDiff("a"), OldDiff))) == [Diff("a", "unknown")]


def fails(old):
    raise KeyError(old["text"])


@pytest.mark.parametrize(
    ("upgrade", "problem"),
    [
        (fails, "as its upgrade makes it, raises KeyError"),
        (lambda old: old, "as its upgrade makes it, does not fit Diff: Field required (at language)"),
        (lambda old: object(), "as its upgrade makes it, cannot be written as the JSON of Diff: it holds something of class object, which has no form in JSON"),
    ],
)  # fmt: skip
def test_an_upgrade_that_does_not_mend_leaves_a_misfit(upgrade, problem):
    pipeline = declared()
    pipeline.upgrade("fetch")(upgrade)
    with pytest.raises(Misfit) as caught:
        pipeline.stages[1].arguments(by_stage(kept("fetch", OldDiff("private words"), OldDiff)))
    assert (caught.value.stage, caught.value.problem) == ("fetch", problem)
    assert "private" not in str(caught.value)


def test_the_failure_of_an_upgrade_is_kept_as_the_cause():
    pipeline = declared()
    pipeline.upgrade("fetch")(fails)
    with pytest.raises(Misfit) as caught:
        pipeline.stages[1].arguments(by_stage(kept("fetch", OldDiff("a"), OldDiff)))
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_is_no_json_is_a_misfit_with_and_without_an_upgrade():
    pipeline = declared()
    broken = by_stage(StoredResult(stage="fetch", data=b"\x80", type="v1:0"))
    with pytest.raises(Misfit, match="fetch: does not fit Diff: json invalid"):
        pipeline.stages[1].arguments(broken)
    pipeline.upgrade("fetch")(lambda old: old)
    with pytest.raises(Misfit, match="fetch: as its upgrade makes it, is not JSON"):
        pipeline.stages[1].arguments(broken)


def test_a_payload_is_upgraded_as_a_result_is():
    typed = Pipeline("p")

    @typed.stage
    async def fetch(job: Job[Diff]): ...

    old = TypeCodec.of(OldDiff)
    data = old.encode(OldDiff("a"))
    with pytest.raises(Misfit, match=r"payload: does not fit Diff: Field required \(at language\)"):
        typed.decode_payload(data, old.fingerprint)
    typed.upgrade("payload")(lambda value: {**value, "language": "unknown"})
    assert typed.decode_payload(data, old.fingerprint) == Diff("a", "unknown")
    present = typed.encode_payload(Diff("a", "py"))
    assert typed.decode_payload(present, typed.payload.fingerprint) == Diff("a", "py")


def test_a_stage_without_a_type_is_read_as_its_taker_asks():
    pipeline = Pipeline("p")

    @pipeline.stage
    async def fetch(job): ...
    @pipeline.stage
    async def typed(job, fetch: Diff): ...
    @pipeline.stage
    async def bare(job, fetch): ...

    stored = by_stage(kept("fetch", {"text": "a", "language": "py"}, Any))
    assert pipeline.stages[1].arguments(stored) == [Diff("a", "py")]
    assert pipeline.stages[2].arguments(stored) == [{"text": "a", "language": "py"}]
    pipeline.upgrade("fetch")(lambda old: {"text": "upgraded", "language": ""})
    assert pipeline.stages[1].arguments(stored) == [Diff("a", "py")], "stored without a type, as it is declared now"


def test_a_misfit_travels_and_is_judged_as_data():
    copy = pickle.loads(pickle.dumps(Misfit("fetch", "does not fit")))
    assert (copy.stage, copy.problem, str(copy)) == ("fetch", "does not fit", "fetch: does not fit")
    failure = classify(copy)
    assert (failure.error_class, failure.retryable) == ("SCHEMA_INVALID", False)


def test_the_stage_after_is_the_next_declared():
    pipeline = declared()
    fetch, llm, notify = pipeline.stages
    assert (pipeline.after(fetch), pipeline.after(llm), pipeline.after(notify)) == (llm, notify, None)


def test_a_result_is_read_by_the_name_of_its_stage():
    pipeline = declared(was="get")
    codec = TypeCodec.of(Diff)
    data = codec.encode(Diff("a", "py"))
    assert pipeline.decode_result("get", data, codec.fingerprint) == Diff("a", "py")
    pipeline.upgrade("fetch")(lambda old: {**old, "language": "unknown"})
    assert pipeline.decode_result("fetch", data, "v1:older") == Diff("a", "unknown")
    with pytest.raises(Misfit, match="send: is no stage of this pipeline"):
        pipeline.decode_result("send", data, codec.fingerprint)


def test_a_plain_wrapper_around_an_async_function_is_told_what_to_do():
    pipeline = Pipeline("p")

    async def work(job): ...

    @functools.wraps(work)
    def wrapper(job):
        return work(job)

    pipeline.stage(wrapper)
    assert pipeline.first.asynchronous is False
    with pytest.raises(ResultError, match="work returned a coroutine: what wraps it has to be async too"):
        pipeline.first.encode(pipeline.first.function(None))
