"""Rules that users add for their own exceptions."""

import pytest

from reprieve.app.judging import classify
from reprieve.app.registry import DEFAULT, rule
from reprieve.core.failure import Category, ErrorClass
from reprieve.errors import NeedsReview, Permanent, Retryable, UsageError


class LedgerError(ValueError):
    wait = 9


class LedgerBusy(LedgerError):
    pass


@pytest.fixture(autouse=True)
def forget():
    yield
    DEFAULT.forget()


def test_a_rule_is_asked_before_anything_else_and_for_derived_types_too():
    @rule(LedgerError)
    def busy(exc):
        return Retryable(retry_after=exc.wait)

    failure = classify(LedgerBusy("x"))
    assert (failure.error_class, failure.retryable, failure.retry_after) == (ErrorClass.DECLARED_RETRYABLE, True, 9)
    assert failure.evidence[0].rule == "user.busy"


def test_a_rule_that_answers_none_leaves_it_to_the_others():
    rule(LedgerError)(lambda _exc: None)
    assert classify(LedgerBusy("x")).error_class is ErrorClass.BUG


@pytest.mark.parametrize(
    ("answer", "error_class", "retryable"),
    [
        (ErrorClass.OVERLOADED, ErrorClass.OVERLOADED, True),
        (Permanent(error_class="LEDGER_CLOSED", category="not_found"), "LEDGER_CLOSED", False),
        (Retryable(error_class="RATE_LIMITED"), ErrorClass.RATE_LIMITED, True),
        (NeedsReview(), ErrorClass.NEEDS_REVIEW, False),
        (True, ErrorClass.DECLARED_RETRYABLE, True),
        (False, ErrorClass.DECLARED_PERMANENT, False),
    ],
    ids=str,
)
def test_a_fixed_answer_can_be_given(answer, error_class, retryable):
    rule(LedgerError, answer=answer)
    failure = classify(LedgerError("x"))
    assert (failure.error_class, failure.retryable) == (error_class, retryable)
    assert failure.category in Category


@pytest.mark.parametrize("broken", [lambda exc: exc.missing, lambda _exc: "soon"], ids=["raises", "nonsense"])
def test_a_rule_that_fails_does_not_hide_the_failure_it_judges(broken):
    rule(LedgerError)(broken)
    assert classify(LedgerError("x")).error_class is ErrorClass.BUG


def test_a_rule_needs_exception_types():
    with pytest.raises(UsageError, match="at least one exception type"):
        rule()
    with pytest.raises(UsageError, match="exception types"):
        rule(7)(lambda _exc: True)


def test_a_rule_can_be_forgotten():
    rule(LedgerError, answer=True)
    DEFAULT.forget(LedgerError)
    assert classify(LedgerError("x")).retryable is False
