"""What waits for a person, and what people make of it; every store keeps to it."""

import pytest

from reprieve.core.analysis import REVIEW_TRANSITIONS, AnalysisStatus, ReviewEvent, ReviewState
from reprieve.core.lifecycle import JobStatus
from reprieve.ports import intents as i
from reprieve.ports.intents import Written

NOW = 1_700_000_000.0
MATERIAL = i.Material(schema=b"{}", samples=b'["x"]', answers=b'[{"text": "?"}]')


def rule(event, review_id=1, **values):
    defaults = {"actor": "ada", "note": "seen", "now": NOW + 10}
    return i.Rule(review_id=review_id, event=ReviewEvent(event), **(defaults | values))


def ask_about_signature(desk, signature="a"):
    taken = desk.do(i.Reserve(signatures=(signature,), question="q1", owner="me", until=NOW + 60, now=NOW))
    fault = i.Fault(
        signature=signature, fence=taken.rows[0].fence, status=AnalysisStatus.NEEDS_REVIEW, error_type="json_schema_error",
        error_reason="it does not fit", now=NOW + 1, material=MATERIAL,
    )  # fmt: skip
    assert desk.do(fault) is Written.APPLIED


def ask_about_job(desk, say, **values):
    lease = desk.lease()
    assert desk.do(say.review(lease.job_id, lease.fence, **values)) is Written.APPLIED
    return lease.job_id


def known(desk, signature="a"):
    (found,) = desk.run(desk.store.analyses([signature]))
    return found


def history(desk):
    return [(entry["event"], entry["actor"], entry["before"], entry["after"]) for entry in desk.rows("review_history")]


ON = i.Continuation(stage="fetch", next_stage="llm", result_type="Diff")


@pytest.mark.spec("LLM-1.5", "LLM-4.3", "LLM-5.1")
def test_a_signature_without_a_fitting_answer_waits_in_the_queue_with_all_that_a_person_needs(desk):
    ask_about_signature(desk)
    assert known(desk).status is AnalysisStatus.NEEDS_REVIEW
    (review,) = desk.rows("reviews")
    assert (review["url_signature"], review["job_id"], review["state"], review["question"]) == ("a", None, "open", "q1")
    assert (review["schema"], review["samples"], review["answers"]) == (b"{}", b'["x"]', b'[{"text": "?"}]')
    assert (review["error_type"], review["reason"]) == ("json_schema_error", "it does not fit")
    assert history(desk) == [("ask", "reprieve", None, "open")]
    assert desk.do(i.Reserve(signatures=("a",), question="q2", owner="me", until=NOW + 99, now=NOW + 70)).mine == set()


@pytest.mark.spec("LLM-8.2", "LLM-8.3")
def test_a_persons_classification_is_the_answer_and_no_question_ever_returns_it_to_the_model(desk):
    ask_about_signature(desk)
    assert desk.do(rule("verify", answer=b'"by hand"')) == i.Ruled(state=ReviewState.VERIFIED)
    found = known(desk)
    assert (found.status, found.answer, found.is_human_verified) == (AnalysisStatus.ANALYZED, b'"by hand"', True)
    for question in ("q1", "q2"):
        taken = desk.do(i.Reserve(signatures=("a",), question=question, owner="me", until=NOW + 1e7, now=NOW + 1e6))
        assert taken.mine == frozenset()
        assert taken.rows[0].answer == b'"by hand"'


def test_a_rejected_signature_is_skipped_by_hand_and_only_a_reset_asks_it_again(desk):
    ask_about_signature(desk)
    desk.do(rule("reject"))
    found = known(desk)
    assert (found.status, found.is_human_verified) == (AnalysisStatus.SKIPPED, True)
    wanted = i.Reserve(signatures=("a",), question="q2", owner="me", until=NOW + 99, now=NOW + 70)
    assert desk.do(wanted).mine == set()
    assert desk.do(i.Reset(signatures=("a",), actor="bob", note="", now=NOW + 80)).signatures == ("a",)
    assert desk.do(wanted).mine == {"a"}


@pytest.mark.parametrize("event", ["verify", "reject"])
def test_undo_is_a_new_entry_and_opens_the_review_again(desk, event):
    ask_about_signature(desk)
    answer = {"answer": b"1"} if event == "verify" else {}
    desk.do(rule(event, **answer))
    assert desk.do(rule("undo", actor="bob", now=NOW + 11)) == i.Ruled(state=ReviewState.OPEN)
    found = known(desk)
    assert (found.status, found.answer, found.is_human_verified) == (AnalysisStatus.NEEDS_REVIEW, None, False)
    assert desk.do(rule("verify", answer=b"2", now=NOW + 12)).why == ""
    ended = ReviewState.VERIFIED if event == "verify" else ReviewState.REJECTED
    assert history(desk) == [
        ("ask", "reprieve", None, "open"),
        (event, "ada", "open", ended),
        ("undo", "bob", ended, "open"),
        ("verify", "ada", "open", "verified"),
    ]
    answers = [entry["answer"] for entry in desk.rows("review_history")]
    assert answers == [None, b"1" if event == "verify" else None, None, b"2"]


def test_what_has_changed_since_cannot_be_undone(desk):
    ask_about_signature(desk)
    desk.do(rule("reject"))
    desk.do(i.Reset(signatures=("a",), actor="bob", note="", now=NOW + 80))
    before = desk.everything()
    assert "has changed since" in desk.do(rule("undo", now=NOW + 90)).why
    assert desk.everything() == before


def test_a_claimed_review_is_its_claimers_unless_it_is_taken_over(desk):
    ask_about_signature(desk)
    assert desk.do(rule("claim")).state is ReviewState.CLAIMED
    for event in ("claim", "verify", "reject", "release"):
        assert desk.do(rule(event, actor="bob", answer=b"1")).why == "ada is at it: take it over if that is meant"
    assert desk.do(rule("claim", actor="bob", take_over=True)).why == ""
    assert desk.do(rule("release", actor="bob")).state is ReviewState.OPEN
    assert desk.do(rule("verify", answer=b"1")).state is ReviewState.VERIFIED


@pytest.mark.parametrize("state", ReviewState)
@pytest.mark.parametrize("event", [each for each in ReviewEvent if each is not ReviewEvent.ASK])
def test_what_the_table_does_not_have_is_refused_and_changes_nothing(desk, state, event):
    if (state, event) in REVIEW_TRANSITIONS:
        return
    ask_about_signature(desk)
    closed = "NULL" if not state.closed else "opened_at"
    claim = ", claimed_by = 'ada', claimed_at = opened_at" if state is ReviewState.CLAIMED else ""
    desk.write(f"UPDATE reviews SET state = '{state}', closed_at = {closed}{claim}")
    before = desk.everything()
    assert desk.do(rule(event, answer=b"1")) == i.Ruled(state=state, why=f"a review that is {state} cannot {event}")
    assert desk.everything() == before


def test_a_review_that_is_not_there_is_told(desk):
    assert desk.do(rule("claim", review_id=7)) == i.Ruled(state=None, why="there is no review 7")


def test_a_job_that_needs_a_person_is_in_the_same_queue(desk, say):
    job_id = ask_about_job(desk, say, material=MATERIAL)
    (review,) = desk.rows("reviews")
    told = (review["url_signature"], review["job_id"], review["pipeline"], review["stage"], review["state"])
    assert told == (None, job_id, "review", "fetch", "open")
    assert (review["samples"], review["error_type"]) == (b'["x"]', "NETWORK_TIMEOUT")


def test_a_job_whose_end_the_store_does_not_take_is_in_the_queue_too(desk):
    lease = desk.lease()
    desk.do(i.Await(job_id=lease.job_id, fence=lease.fence, waits_on="review:refused", now=NOW))
    assert [review["job_id"] for review in desk.rows("reviews")] == [lease.job_id]


def test_a_job_goes_on_from_its_next_stage_with_the_persons_answer(desk, say):
    job_id = ask_about_job(desk, say)
    assert desk.do(rule("verify", answer=b'"diff"', continuation=ON)).state is ReviewState.VERIFIED
    (lease,) = desk.claim(2, "llm")
    assert (lease.job_id, lease.stage, lease.counters) == (job_id, "llm", i.Counters())
    assert [(each.stage, each.data, each.type) for each in lease.results] == [("fetch", b'"diff"', "Diff")]


def test_a_rejection_is_taken_back_while_nothing_else_has_happened_to_the_job(desk, say):
    job_id = ask_about_job(desk, say)
    desk.do(rule("reject", note="nobody can tell"))
    undo = rule("undo", now=NOW + 20)
    assert desk.do(undo).state is ReviewState.OPEN
    assert desk.status(job_id) is JobStatus.NEEDS_REVIEW
    assert desk.do(undo, again=True).state is ReviewState.OPEN
    desk.do(rule("reject", note="no", now=NOW + 30))
    desk.write("UPDATE jobs SET payload = NULL")
    assert "is not as it was left" in desk.do(rule("undo", now=NOW + 40)).why
    assert desk.status(job_id) is JobStatus.SKIPPED


def test_an_answer_to_the_last_stage_ends_the_job(desk, say):
    job_id = ask_about_job(desk, say)
    last = i.Continuation(stage="fetch", next_stage=None, result_type="Review")
    assert desk.do(rule("verify", answer=b'"done"', continuation=last)).why == ""
    outcome = desk.outcome(job_id)
    assert (outcome["status"], outcome["result"], outcome["result_type"]) == ("succeeded", b'"done"', "Review")
    assert desk.queued(job_id) is None


def test_an_answer_that_nobody_has_gone_on_with_can_be_taken_back(desk, say):
    job_id = ask_about_job(desk, say)
    desk.do(rule("verify", answer=b'"diff"', continuation=ON))
    assert desk.do(rule("undo", now=NOW + 20)).state is ReviewState.OPEN
    assert desk.status(job_id) is JobStatus.NEEDS_REVIEW
    assert desk.rows("checkpoints") == []
    assert desk.claim(2, "llm", "fetch") == ()
    assert desk.do(rule("verify", answer=b'"other"', continuation=ON, now=NOW + 30)).why == ""
    assert desk.claim(2, "llm")[0].results[0].data == b'"other"'


def test_a_rejected_job_is_skipped_with_the_persons_reason(desk, say):
    job_id = ask_about_job(desk, say)
    desk.do(rule("reject", note="nobody can tell"))
    outcome = desk.outcome(job_id)
    assert (outcome["status"], outcome["reason"], outcome["ended_by"]) == ("skipped", "nobody can tell", "ada")


def test_the_review_of_a_job_that_does_not_wait_any_more_is_withdrawn_when_somebody_acts_on_it(desk, say):
    job_id = ask_about_job(desk, say)
    desk.do(i.Cancel(job_id=job_id, actor="bob", reason="", now=NOW + 2))
    answer = desk.do(rule("verify", answer=b"1", continuation=ON))
    assert (answer.state, "does not wait" in answer.why) == (ReviewState.WITHDRAWN, True)
    assert desk.rows("reviews")[0]["state"] == "withdrawn"
    assert desk.status(job_id) is JobStatus.CANCELLED


def test_a_job_that_was_taken_out_by_other_means_and_asks_again_has_one_open_review(desk, say):
    job_id = ask_about_job(desk, say)
    fence = desk.queued(job_id)["fence"]
    assert desk.do(say.retry(job_id, fence, unleased=True)) is Written.APPLIED
    assert desk.do(say.review(job_id, fence + 1, unleased=True)) is Written.APPLIED
    assert [review["state"] for review in desk.rows("reviews")] == ["withdrawn", "open"]


@pytest.mark.parametrize("event", ["claim", "verify", "reject"])
def test_what_was_ruled_in_an_unknown_outcome_is_ruled_once(desk, say, event):
    ask_about_job(desk, say)
    said = rule(event, answer=b"1", continuation=ON) if event == "verify" else rule(event)
    answer = desk.do(said)
    rows = desk.everything()
    assert desk.do(said, again=True) == answer
    assert desk.everything() == rows


def test_a_job_asked_about_in_an_unknown_outcome_has_one_review(desk, say):
    lease = desk.lease()
    said = say.review(lease.job_id, lease.fence)
    assert desk.do(said) is Written.APPLIED
    assert desk.do(said, again=True) is Written.APPLIED
    assert len(desk.rows("reviews")) == 1


@pytest.mark.spec("LLM-8.3")
def test_a_verified_answer_that_does_not_fit_a_new_schema_goes_back_to_a_person_and_not_to_the_model(desk):
    ask_about_signature(desk)
    desk.do(rule("verify", answer=b"1"))
    recall = i.Recall(
        signature="a", fence=known(desk).fence, question="q2", reason="not a text", now=NOW + 20, material=MATERIAL
    )
    assert desk.do(recall) is Written.APPLIED
    assert desk.do(recall) is Written.STALE
    assert known(desk).status is AnalysisStatus.NEEDS_REVIEW
    assert [(review["state"], review["question"]) for review in desk.rows("reviews")] == [
        ("verified", "q1"),
        ("open", "q2"),
    ]
    taken = desk.do(i.Reserve(signatures=("a",), question="q2", owner="me", until=NOW + 99, now=NOW + 70))
    assert taken.mine == frozenset()
