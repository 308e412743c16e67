"""The states of an analysis and of a review, who may ask when, and the policy's words for failures."""

import itertools

import pytest

import reprieve
from reprieve.core.analysis import (
    ANALYSIS_TRANSITIONS,
    AnalysisEvent,
    AnalysisStatus,
    ReviewEvent,
    ReviewState,
    Standing,
    analysis_after,
    error_type_of,
    question_of,
    review_after,
    standing,
)
from reprieve.core.failure import ErrorClass
from reprieve.errors import IllegalTransitionError

# Written out a second time, so that a change of a table has to be meant.
ANALYSIS = {
    "active": {"analyze": "analyzed", "skip": "skipped", "put_off": "active", "ask": "needs_review"},
    "skipped": {"reset": "active", "renew": "active", "undo": "needs_review"},
    "analyzed": {"renew": "active", "ask": "needs_review", "undo": "needs_review"},
    "needs_review": {"verify": "analyzed", "reject": "skipped"},
}
_WORKED_ON = {"claim": "claimed", "verify": "verified", "reject": "rejected", "withdraw": "withdrawn"}
REVIEW = {
    "open": _WORKED_ON,
    "claimed": _WORKED_ON | {"release": "open"},
    "verified": {"undo": "open"},
    "rejected": {"undo": "open", "reset": "rejected"},
    "withdrawn": {},
}


@pytest.mark.spec("LLM-5.1")
@pytest.mark.parametrize(("status", "event"), list(itertools.product(AnalysisStatus, AnalysisEvent)))
def test_every_status_of_an_analysis_leads_where_it_should_or_refuses(status, event):
    if event in ANALYSIS[status]:
        assert analysis_after(status, event) == ANALYSIS[status][event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"a signature that is {status} cannot {event}"):
            analysis_after(status, event)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(ReviewState, ReviewEvent)))
def test_every_state_of_a_review_leads_where_it_should_or_refuses(state, event):
    if event in REVIEW[state]:
        assert review_after(state, event) == REVIEW[state][event]
    else:
        with pytest.raises(IllegalTransitionError):
            review_after(state, event)


@pytest.mark.spec("LLM-5.1")
def test_only_a_person_leads_on_from_what_waits_for_a_person():
    ways = {event for status, event in ANALYSIS_TRANSITIONS if status is AnalysisStatus.NEEDS_REVIEW}
    assert ways == {AnalysisEvent.VERIFY, AnalysisEvent.REJECT}


def stands(status, **values):
    defaults = {"same_question": True, "by_hand": False, "leased_until": None, "retry_after": None, "now": 100.0}
    return standing(AnalysisStatus(status), **(defaults | values))


def test_an_active_signature_is_free_unless_somebody_asks_or_it_is_put_off_and_the_edges_are_free():
    assert stands("active") is Standing.FREE
    assert stands("active", leased_until=100.001) is Standing.BUSY
    assert stands("active", leased_until=100.0) is Standing.FREE
    assert stands("active", retry_after=100.001) is Standing.LATER
    assert stands("active", retry_after=100.0) is Standing.FREE
    assert stands("active", retry_after=200.0, same_question=False) is Standing.FREE


@pytest.mark.spec("LLM-5.1", "LLM-8.3")
@pytest.mark.parametrize("same", [True, False])
def test_what_is_settled_stays_so_and_another_question_frees_only_what_no_person_has_settled(same):
    assert stands("needs_review", same_question=same) is Standing.SETTLED
    for status in ("analyzed", "skipped"):
        assert stands(status, same_question=same) is (Standing.SETTLED if same else Standing.FREE)
        assert stands(status, same_question=same, by_hand=True) is Standing.SETTLED


@pytest.mark.parametrize(
    ("status", "body", "word"),
    [
        (400, {"error": {"type": "invalid_request_error", "message": "bad"}}, "invalid_request_error"),
        (404, {"error": {"code": "model_not_found", "message": "no"}}, "invalid_request_error"),
        (400, {"error": {"code": "context_length_exceeded", "message": "long"}}, "context_length_exceeded"),
        (401, {"error": {"code": "invalid_api_key", "message": "no"}}, "invalid_api_key"),
        (401, {"error": {"type": "authentication_error", "message": "no"}}, "authentication_error"),
        (429, {"error": {"code": "rate_limit_exceeded", "message": "slow"}}, "rate_limit_error"),
        (429, {"error": {"code": "insufficient_quota", "message": "pay"}}, "insufficient_quota"),
        (402, {"error": {"message": "pay"}}, "insufficient_quota"),
        (500, {"error": {"message": "oops"}}, "server_error"),
        (503, {"error": {"message": "oops"}}, "server_error"),
        (529, {"error": {"type": "overloaded_error", "message": "oops"}}, "server_error"),
    ],
)
@pytest.mark.spec("LLM-6.1")
def test_a_providers_failure_has_the_policys_word(status, body, word):
    assert error_type_of(reprieve.classify_response(status, {}, body)) == word


def test_failures_of_the_network_and_of_the_answer_have_their_words_too():
    assert error_type_of(reprieve.classify(TimeoutError("slow"))) == "timeout"
    assert error_type_of(reprieve.classify(ConnectionRefusedError(111, "no"))) == "network_error"
    assert error_type_of(reprieve.classify(reprieve.Unusable("no", material={}))) == "json_schema_error"
    assert error_type_of(reprieve.classify(RuntimeError("who knows"))) == ErrorClass.UNKNOWN.lower()


def test_a_question_has_one_version_until_its_prompt_or_its_schema_changes():
    schema = {"type": "object", "required": ["a"]}
    assert question_of("ask", schema) == question_of("ask", {"required": ["a"], "type": "object"})
    assert len({question_of("ask", schema), question_of("ask!", schema), question_of("ask", {"type": "object"})}) == 3
