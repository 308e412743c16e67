"""A workflow run that takes too long is cancelled through the API, and its task fails."""

import asyncio
import json
from functools import partial

import pytest

import reprieve
from reprieve import Job, OperationTimeoutError, Pipeline, UsageError
from reprieve.app.profiles import resolve
from reprieve.core.timeouts import TimeoutAction
from reprieve.integrations.github import CANCEL_POLICY, REQUEST_SECONDS, WorkflowRuns
from reprieve.testing import FakeClock, FlakyHTTP, Moment, Reply, Reset, Stall, replies, run_inline
from reprieve.timeouts import STOP_SECONDS

TOKEN = "ghp_" + "Ab3" * 12
SHORT = resolve("orchestrator").override(timeouts={"github_workflow": 0.02})


class Forge:
    """A server with the shape of GitHub's, and a client of it."""

    def __init__(self, server):
        self.server = server
        self.clock = FakeClock()
        self.runs = WorkflowRuns(TOKEN, url=server.url("/api"), clock=self.clock)
        server.always(Reply(202, "{}"))

    def cancel(self, run_id=30433642):
        return asyncio.run(self.runs.cancel("acme/shop", run_id))

    def expiry(self):
        """What a task raises whose run takes too long."""

        async def main():
            async with reprieve.timeout_for(
                "github_workflow", profile=SHORT, stop=partial(self.runs.cancel, "acme/shop", 7)
            ):
                await asyncio.sleep(60)

        with pytest.raises(OperationTimeoutError) as caught:
            asyncio.run(main())
        return caught.value


@pytest.fixture
def forge():
    with FlakyHTTP() as server:
        yield Forge(server)


@pytest.mark.spec("ORC-3.3")
def test_a_run_that_takes_too_long_is_cancelled_and_its_task_fails(forge):
    pipeline = Pipeline("deploy", profile=SHORT)

    @pipeline.stage
    async def build(job: Job[int]) -> None:
        async with reprieve.timeout_for(
            "github_workflow", profile=SHORT, stop=partial(forge.runs.cancel, "acme/shop", job.payload)
        ):
            await asyncio.sleep(60)

    outcome = run_inline(pipeline, 30433642)
    (request,) = forge.server.requests
    assert (request.method, request.path) == ("POST", "/api/repos/acme/shop/actions/runs/30433642/cancel")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert (outcome.dead_letter.error_class, outcome.dead_letter.attempts) == ("OPERATION_TIMEOUT", 1)
    assert str(outcome.exception).endswith(": the work was ended")


@pytest.mark.spec("ORC-3.3")
def test_the_specification_gives_a_workflow_half_an_hour():
    timeout = resolve("orchestrator").timeout("github_workflow")
    assert (timeout.seconds, timeout.action, timeout.retryable) == (30 * 60, TimeoutAction.CANCEL, False)


@pytest.mark.parametrize(
    "fault",
    [500, 502, Reset(at=Moment.BODY), Reset(at=Moment.CONNECT), replies.github.secondary_rate_limit()],
    ids=str,
)
def test_a_fault_is_retried_and_the_run_is_cancelled(forge, fault):
    forge.server.next(fault, fault)
    assert forge.cancel() is True
    assert len(forge.clock.slept) == 2
    assert sum(forge.clock.slept) <= 2


def test_an_answer_that_does_not_come_is_a_fault_like_others(forge, monkeypatch):
    monkeypatch.setattr("reprieve.integrations.github.REQUEST_SECONDS", 0.1)
    forge.server.next(Stall(at=Moment.REPLY))
    assert forge.cancel() is True
    assert len(forge.server.requests) == 2


def test_a_run_that_has_finished_needs_no_cancelling(forge):
    forge.server.next(Reply(409, json.dumps({"message": "Cannot cancel a workflow run that is completed."})))
    assert forge.cancel() is False
    assert len(forge.server.requests) == 1


@pytest.mark.spec("ORC-3.3")
def test_a_run_that_cannot_be_cancelled_in_three_requests_may_go_on_and_the_error_says_so(forge):
    forge.server.next(500, 500, 500)
    error = forge.expiry()
    assert len(forge.server.requests) == 3
    assert str(error).startswith("github_workflow took longer than its timeout of 0.02 s: ending the work failed")
    assert "(HTTPStatusError" in str(error)
    assert "so it may go on" in str(error)
    assert reprieve.classify(error).severity == "permanent"
    assert TOKEN not in str(error)


@pytest.mark.parametrize(
    "refusal",
    [replies.github.not_found(), replies.github.forbidden(), replies.github.bad_credentials()],
    ids=lambda each: str(each.status),
)
def test_a_refusal_is_not_repeated_and_the_run_may_go_on(forge, refusal):
    forge.server.next(refusal)
    error = forge.expiry()
    assert len(forge.server.requests) == 1
    assert f"{refusal.status}" in str(error)
    assert "so it may go on" in str(error)


def test_a_redirect_is_not_followed_with_the_token(forge):
    forge.server.next(*[Reply(307, headers={"Location": forge.server.url("/elsewhere")})] * 3)
    assert "so it may go on" in str(forge.expiry())
    assert {each.path for each in forge.server.requests} == {"/api/repos/acme/shop/actions/runs/7/cancel"}


def test_three_requests_with_their_waits_take_less_time_than_ending_the_work_may():
    waits = [CANCEL_POLICY.backoff.delay(failures, 0.999) for failures in (1, 2)]
    longest = [max(wait, CANCEL_POLICY.retry_after_ceiling) for wait in waits]
    assert CANCEL_POLICY.max_attempts * REQUEST_SECONDS + sum(longest) < STOP_SECONDS


@pytest.mark.parametrize(
    "url",
    [
        "http://forge.example",
        "https://user@forge.example",
        "https://forge.example?x=1",
        "ftp://x",
        "https://",
    ],
)
def test_a_token_goes_to_an_https_address_only(url):
    with pytest.raises(UsageError, match="an https address"):
        WorkflowRuns(TOKEN, url=url)


@pytest.mark.parametrize(
    ("repository", "run_id"),
    [
        ("shop", 1),
        ("acme/../shop", 1),
        ("acme/..", 1),
        ("acme/shop?x", 1),
        ("acme/shop", 0),
        ("acme/shop", "7"),
        ("acme/shop", True),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_anything_is_sent(forge, repository, run_id):
    with pytest.raises(UsageError):
        asyncio.run(forge.runs.cancel(repository, run_id))
    assert forge.server.requests == ()


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "café"])
def test_a_token_that_a_header_cannot_hold_is_refused(token):
    with pytest.raises(UsageError, match="token="):
        WorkflowRuns(token)
