"""Named timeouts as data: their values are checked, and a profile file says them with line and remedy."""

from dataclasses import replace
from textwrap import dedent

import pytest

from reprieve.app.profiles import SHIPPED, resolve
from reprieve.core.classify import Context, classify
from reprieve.core.timeouts import OperationTimeout, TimeoutAction
from reprieve.errors import OperationTimeoutError, ProfileError, UsageError

CONTEXT = Context(now=0.0, scan=lambda text: (text, ()))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"seconds": 0}, "seconds must be more than 0"),
        ({"seconds": -1}, "seconds must be from 0"),
        ({"seconds": True}, "seconds must be a number"),
        ({"seconds": "5"}, "seconds must be a number"),
        ({"seconds": float("nan")}, "seconds must be from 0"),
        (
            {"action": "kil"},
            r"action must be one of retry, fail, cancel, kill, not 'kil' \(did you mean 'kill'\?\)",
        ),
        ({"action": 3}, "action must be one of"),
        ({"retry": 1}, "retry must be true or false"),
        ({"action": "fail", "retry": True}, "retry is for the actions cancel, kill; fail says it already"),
    ],
)
def test_a_timeout_that_cannot_be_followed_is_refused(values, problem):
    with pytest.raises(UsageError, match=problem):
        OperationTimeout(**{"seconds": 5, "action": "kill", **values})


@pytest.mark.parametrize("action", TimeoutAction)
@pytest.mark.parametrize("retry", [False, True])
def test_an_expiry_is_judged_by_its_action_and_the_evidence_names_it(action, retry):
    if retry and action not in {"cancel", "kill"}:
        return
    timeout = OperationTimeout(name="step", seconds=3, action=action, retry=retry)
    error = timeout.error("seen")
    error.__cause__ = ConnectionResetError(104, "a deeper link that says otherwise")
    for to_the_letter in (False, True):
        failure = classify(error, replace(CONTEXT, to_the_letter=to_the_letter))
        assert failure.retryable is timeout.retryable is (retry or action == "retry")
        assert failure.severity == ("transient" if failure.retryable else "permanent")
        assert failure.error_class == ("NETWORK_TIMEOUT" if action == "retry" else "OPERATION_TIMEOUT")
        (evidence,) = failure.evidence
        assert (evidence.rule, evidence.field, evidence.value) == ("timeout.step", "action", action)
        assert failure.message == "step took longer than its timeout of 3 s: seen"
        assert not failure.pages


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (
            "[orchestrator.timeouts.redis_comand]\nseconds = 2",
            1,
            "no operation is named 'redis_comand' (did you mean 'redis_command'?)",
        ),
        (
            "[orchestrator.timeouts.warm_up]\nseconds = 2",
            1,
            "action is missing: a timeout says `seconds` and `action`",
        ),
        ('[orchestrator.timeouts.warm_up]\naction = "fail"', 1, "seconds is missing"),
        (
            "[orchestrator.timeouts.redis_command]\nsecond = 2",
            2,
            "unknown key 'second' (did you mean 'seconds'?); there are: seconds, action, retry",
        ),
        ("[orchestrator.timeouts.redis_command]\nseconds = 0", 2, "seconds must be more than 0"),
        ('[orchestrator.timeouts.redis_command]\naction = "stop"', 2, "there are: retry, fail, cancel, kill"),
        ("[orchestrator.timeouts.redis_command]\nretry = true", 2, "retry is for the actions cancel, kill"),
        ("[orchestrator]\ntimeouts.redis_command = 2", 2, "redis_command must be a table, not 2"),
        (
            '[orchestrator]\n\ntimeouts."a b" = { seconds = 2, action = "fail" }',
            3,
            "an operation's name is letters",
        ),
    ],
)
def test_a_mistake_in_a_profile_file_is_refused_where_it_stands(text, line, problem):
    with pytest.raises(ProfileError) as caught:
        SHIPPED.extended(text, source="service.toml")
    assert caught.value.line == line
    assert problem in str(caught.value)


def test_a_file_changes_what_it_names_and_keeps_the_rest():
    text = """
        [orchestrator.timeouts]
        provisioning = { seconds = 60 }
        worker_spawn = { action = "cancel", retry = true }
    """
    profile = SHIPPED.extended(dedent(text), source="service.toml")["orchestrator"]
    assert profile.timeout("provisioning") == OperationTimeout(
        name="provisioning", seconds=60, action=TimeoutAction.KILL
    )
    assert profile.timeout("worker_spawn").retryable
    assert profile.timeout("redis_command") == resolve("orchestrator").timeout("redis_command")


def test_a_profile_takes_no_other_values_as_timeouts():
    with pytest.raises(UsageError, match=r"timeouts.x must be an OperationTimeout, not 5"):
        replace(resolve("orchestrator"), timeouts={"x": 5})
    with pytest.raises(UsageError, match="no operation with a timeout in orchestrator is named 'x'"):
        resolve("orchestrator").override(timeouts={"x": 5})


def test_the_error_names_the_operation_and_its_time():
    error = OperationTimeout(name="warm_up", seconds=0.5, action=TimeoutAction.FAIL).error()
    assert isinstance(error, OperationTimeoutError)
    assert str(error) == "warm_up took longer than its timeout of 0.5 s"
