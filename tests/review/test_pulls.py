"""Pull requests of a GitHub-style API, over a real socket; its failures are judged as what they are."""

import asyncio
import time
from dataclasses import replace

import pytest

import reprieve
from reprieve.review.changes import pull_of, submit
from reprieve.review.github import Hub
from reprieve.testing import FlakyHTTP, Reply, inline, json_reply, replies

DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -0,0 +1,1 @@\n+print(1)\n"
BASE, HEAD = "b" * 40, "a" * 40


@pytest.fixture
def api():
    """An API with one pull request."""
    with FlakyHTTP() as upstream:
        pull = json_reply({"title": "Print", "base": {"sha": BASE}, "head": {"sha": HEAD}})
        upstream.always(404)
        upstream.always(pull, path="/repos/o/r/pulls/7")
        upstream.always(Reply(200, DIFF), path=f"/repos/o/r/compare/{BASE}...{HEAD}")
        upstream.always(Reply(200, "*.py ada@example.org\n"), path="/repos/o/r/contents/.github/CODEOWNERS")
        authors = [{"commit": {"author": {"email": "bo@example.org"}}}, {"commit": None}]
        upstream.always(json_reply(authors), path="/repos/o/r/pulls/7/commits")
        yield upstream


def test_a_pull_request_is_reviewed_and_its_owners_and_authors_are_told(api, reviewing, critic):
    pipeline, parts = reviewing(critic(), github={"url": api.url("/").rstrip("/"), "token": "ghp_no_token_of_anybody"})

    async def main():
        change = await pull_of(parts.hub, "o/r#7")
        async with inline() as app:
            made = await submit(app, pipeline, change)
            await app.run(pipeline, change, idempotency_key=made.idempotency_key)
            return change, app.outcome(made.job_id, pipeline=pipeline)

    change, outcome = asyncio.run(main())
    assert (change.changelist_id, change.base, change.head) == ("o/r#7", BASE, HEAD)
    assert outcome.raise_for_status().result.sent == ("mailto:ada@example.org", "mailto:bo@example.org")
    assert {request.headers["authorization"] for request in api.requests} == {"Bearer ghp_no_token_of_anybody"}


@pytest.mark.parametrize(
    ("act", "error_class", "retryable"),
    [
        (replies.github.rate_limit(int(time.time()) + 7200), "RATE_LIMITED", True),
        (replies.github.secondary_rate_limit("20"), "RATE_LIMITED", True),
        (replies.github.forbidden(), "PERMISSION_DENIED", False),
        (replies.github.bad_credentials(), "AUTH_DENIED", False),
        (replies.github.not_found(), "NOT_FOUND", False),
        (Reply(503, headers={"Retry-After": "3"}), "UPSTREAM_UNAVAILABLE", True),
    ],
)
def test_what_the_api_refuses_is_judged_as_what_it_is(api, act, error_class, retryable):
    api.next(act, path="/repos/o/r/pulls/7")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the client raises
        asyncio.run(pull_of(Hub(api.url("/").rstrip("/")), "o/r#7"))
    failure = reprieve.classify(caught.value)
    assert (failure.error_class, failure.retryable) == (error_class, retryable)
    if error_class == "RATE_LIMITED":
        assert failure.retry_after > 10


def test_an_answer_that_is_no_pull_request_or_too_long_is_refused(api):
    hub = Hub(api.url("/").rstrip("/"))
    api.next(json_reply({"message": "hello"}), path="/repos/o/r/pulls/7")
    with pytest.raises(reprieve.Permanent, match="something else"):
        asyncio.run(pull_of(hub, "o/r#7"))
    with pytest.raises(reprieve.Permanent) as caught:
        asyncio.run(hub.diff("o/r", BASE, HEAD, most=10))
    assert caught.value.error_class == "PAYLOAD_TOO_LARGE"


def test_a_file_that_is_too_large_is_as_good_as_none_as_it_is_in_a_repository(api):
    api.next(Reply(200, "# much\n" * 200_000), path="/repos/o/r/contents/CODEOWNERS")
    assert asyncio.run(Hub(api.url("/").rstrip("/")).file("o/r", BASE, "CODEOWNERS")) is None


@pytest.mark.parametrize("text", ["o/r", "o/r#0", "o/../r#1", "o/r#1?x", "-o#1"])
def test_what_is_no_pull_request_is_refused(text):
    with pytest.raises(reprieve.UsageError):
        asyncio.run(pull_of(Hub(), text))


def test_tokens_are_not_sent_in_the_open():
    with pytest.raises(reprieve.UsageError, match="https"):
        Hub("http://api.example.org")


def test_a_pull_request_that_moved_on_is_the_next_version(api, reviewing, critic):
    pipeline, parts = reviewing(critic(), github={"url": api.url("/").rstrip("/")})

    async def main():
        change = await pull_of(parts.hub, "o/r#7")
        async with inline() as app:
            first = await submit(app, pipeline, change)
            again = await submit(app, pipeline, change)
            moved = await submit(app, pipeline, replace(change, head="c" * 40))
            rerun = await submit(app, pipeline, change, version=9)
            with pytest.raises(reprieve.SubmitError, match="not above version 9"):
                await submit(app, pipeline, change, version=5)
            return first, again, moved, rerun

    first, again, moved, rerun = asyncio.run(main())
    assert (first.version, again.version, again.duplicate, moved.version) == (1, 1, True, 2)
    assert moved.superseded == (first.job_id,)
    assert rerun.superseded == (moved.job_id,)
