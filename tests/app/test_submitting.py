"""From what a caller hands over to intents: which of many is wrong, and how many go into one transaction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reprieve
from reprieve import Item, Job, Pipeline
from reprieve.app.submitting import chunks, intent_of, intents_of
from reprieve.errors import UsageError
from reprieve.ports.intents import Submit

NOW = 1_700_000_000.0
MEBIBYTE = 1024 * 1024

review = Pipeline("review", supersede=True, max_payload=100)


@review.stage
async def fetch(job: Job[str]) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (Item("x", idempotency_key=""), "idempotency_key must be a text"),
        (Item("x", idempotency_key=5), "idempotency_key must be a text"),
        (Item("x", idempotency_key="k" * 501), "idempotency_key has 501 characters"),
        (Item("x", idempotency_key="a\0b"), "idempotency_key holds a character"),
        (Item("x", idempotency_key="\ud800"), "idempotency_key holds a character"),
        (Item("x", subject="s"), "subject and version go together"),
        (Item("x", version=1), "subject and version go together"),
        (Item("x", subject="", version=1), "subject must be a text"),
        (Item("x", subject="s", version=0), "version must be from 1"),
        (Item("x", priority=True), "priority must be a whole number"),
        (Item("x", priority=False), "priority must be a whole number"),
        (Item("x", priority=None), "priority must be a whole number"),
        (Item("x", priority=2**31), "priority must be from"),
        (Item("x", delay=1.0, run_at=NOW), "delay and run_at say the same thing"),
        (Item("x", delay=-1.0), "delay must be from 0"),
        (Item("x" * 101), "takes 103 bytes, more than the 100 of max_payload"),
        (Item(5), "the payload of review"),
        (5, "the payload of review"),
    ],
)
def test_of_many_the_one_that_is_wrong_is_named(wrong, says):
    with pytest.raises(UsageError, match=rf"^item 2: {says}|^item 2: .*{says}") as caught:
        intents_of(review, ["good", Item("good", idempotency_key="k"), wrong, "good"], now=NOW)
    if isinstance(wrong, Item):
        with pytest.raises(type(caught.value)) as alone:
            intent_of(review, wrong, now=NOW)
        assert f"item 2: {alone.value}" == str(caught.value)


def test_what_a_caller_raises_while_it_makes_items_is_no_items_fault():
    def items():
        yield "good"
        raise UsageError("the caller's own")

    with pytest.raises(UsageError, match=r"^the caller's own$"):
        intents_of(review, items(), now=NOW)


def test_an_item_says_all_that_a_submission_can():
    wanted = Item("x", idempotency_key="schlüssel", subject="cl-1", version=3, priority=-7, delay=60.0)
    (intent,) = intents_of(review, [wanted], now=NOW)
    assert intent == Submit(
        idempotency_key="schlüssel", pipeline="review", stage="fetch", payload=b'"x"',
        payload_type=review.payload.fingerprint, created_at=NOW, priority=-7, run_at=NOW + 60.0, subject="cl-1", version=3,
        supersedes=("fetch",),
    )  # fmt: skip


def test_jobs_without_a_key_get_keys_of_their_own():
    keys = [intent.idempotency_key for intent in intents_of(review, ["x"] * 100, now=NOW)]
    assert len(set(keys)) == 100
    assert all(key.startswith("auto-") for key in keys)


def test_a_pipeline_without_stages_takes_no_jobs():
    with pytest.raises(UsageError, match=r"^the pipeline 'empty' has no stages"):
        intents_of(reprieve.Pipeline("empty"), [], now=NOW)


class Sized:
    """As much of an intent as its size."""

    def __init__(self, size):
        self.payload = range(size)


@given(st.lists(st.sampled_from([0, 1, MEBIBYTE, 5 * MEBIBYTE, 17 * MEBIBYTE]), max_size=40), st.integers(0, 2500))
def test_no_chunk_is_long_or_large_and_none_is_empty_and_all_is_in_its_order(sizes, small):
    intents = [Sized(size) for size in (*sizes, *[10] * small)]
    made = list(chunks(intents))
    assert [each for chunk in made for each in chunk] == intents
    for chunk in made:
        assert 0 < len(chunk) <= 1000
        assert len(chunk) == 1 or sum(len(each.payload) for each in chunk) <= 16 * MEBIBYTE
    if sum(sizes) <= 16 * MEBIBYTE - 25_000:
        assert len(made) == -(-len(intents) // 1000), "and no more of them than there have to be"
