"""Signatures are held by one who asks, and settled once; every store keeps to it."""

import pytest

from reprieve.core.analysis import AnalysisStatus
from reprieve.errors import StoreRefusedError
from reprieve.ports import intents as i
from reprieve.ports.intents import Written
from reprieve.ports.modelling import Usage

NOW = 1_700_000_000.0
FIRST = int(NOW * 1000) + 1
"""The fence of who asks first."""
ACTIVE, SKIPPED, ANALYZED, REVIEW = AnalysisStatus


def take(*signatures, **values):
    defaults = {"question": "q1", "owner": "me", "until": NOW + 60, "now": NOW}
    return i.Reserve(signatures=signatures, **(defaults | values))


def conclude(signature, fence=FIRST, **values):
    return i.Conclude(signature=signature, fence=fence, **({"answer": b'"a"', "model": "m", "now": NOW + 1} | values))


def fault(signature, status, fence=FIRST, **values):
    defaults = {"error_type": "timeout", "error_reason": "it was slow", "now": NOW + 1}
    return i.Fault(signature=signature, fence=fence, status=status, **(defaults | values))


def reset(*signatures, **values):
    return i.Reset(signatures=signatures, **({"actor": "ada", "note": "the key was wrong", "now": NOW + 9} | values))


def row(desk, signature):
    (found,) = desk.run(desk.store.analyses([signature]))
    return found


@pytest.mark.spec("LLM-5.1")
def test_a_new_signature_is_held_by_the_one_who_asks_first_and_by_nobody_else(desk):
    mine = desk.do(take("a", "b"))
    assert mine.mine == {"a", "b"}
    assert [(each.signature, each.status, each.fence, each.leased_by) for each in mine.rows] == [
        ("a", ACTIVE, FIRST, "me"),
        ("b", ACTIVE, FIRST, "me"),
    ]
    theirs = desk.do(take("b", "c", owner="them"))
    assert theirs.mine == {"c"}
    assert theirs.rows[0].leased_by == "me"


def test_a_lease_that_ran_out_is_taken_over_and_the_first_one_cannot_write_any_more(desk):
    desk.do(take("a"))
    assert desk.do(take("a", owner="them", now=NOW + 60, until=NOW + 120)).mine == {"a"}
    assert desk.do(conclude("a", fence=FIRST)) is Written.STALE
    assert desk.do(fault("a", SKIPPED, fence=FIRST)) is Written.STALE
    assert desk.do(conclude("a", fence=FIRST + 1)) is Written.APPLIED
    assert row(desk, "a").answer == b'"a"'


@pytest.mark.spec("LLM-5.1", "LLM-6.1")
def test_an_answer_is_kept_and_nobody_holds_the_signature_again(desk):
    desk.do(take("a"))
    desk.do(fault("a", ACTIVE, until=NOW + 99, retry_after=NOW + 3))
    assert desk.do(conclude("a", now=NOW + 2)) is Written.APPLIED
    found = row(desk, "a")
    assert (found.status, found.answer, found.model, found.failure_count) == (ANALYZED, b'"a"', "m", 0)
    assert (found.error_type, found.last_error_at, found.retry_after, found.leased_by) == (None, None, None, None)
    assert desk.do(take("a", now=NOW + 5)).mine == frozenset()


@pytest.mark.spec("LLM-6.1")
def test_every_error_leaves_its_type_its_reason_its_time_and_one_more_failure(desk):
    desk.do(take("a"))
    for number in (1, 2, 3):
        last = number == 3
        said = fault("a", ACTIVE, now=NOW + number, retry_after=NOW + 50, until=None if last else NOW + 99)
        assert desk.do(said) is Written.APPLIED
        found = row(desk, "a")
        assert (found.status, found.error_type, found.error_reason) == (ACTIVE, "timeout", "it was slow")
        assert (found.failure_count, found.last_error_at, found.retry_after) == (number, NOW + number, NOW + 50)
        assert (found.leased_by is None) is last
    assert desk.do(take("a", now=NOW + 49)).mine == frozenset()
    assert desk.do(take("a", now=NOW + 50)).mine == {"a"}


@pytest.mark.spec("LLM-1.1", "LLM-5.1", "LLM-6.1")
def test_a_permanent_error_skips_for_good_without_a_time_for_another_try(desk):
    desk.do(take("a"))
    desk.do(fault("a", SKIPPED, error_type="invalid_request_error"))
    found = row(desk, "a")
    assert (found.status, found.retry_after, found.failure_count) == (SKIPPED, None, 1)
    assert desk.do(take("a", now=NOW + 1e6)).mine == frozenset()


def test_another_question_is_asked_anew_of_what_no_person_has_settled(desk):
    desk.do(take("a", "s"))
    desk.batch(conclude("a"), fault("s", SKIPPED))
    taken = desk.do(take("a", "s", question="q2", now=NOW + 5))
    assert taken.mine == {"a", "s"}
    assert {(each.status, each.answer, each.question) for each in taken.rows} == {(ACTIVE, None, "q2")}


def test_a_reset_asks_a_skipped_one_again_and_leaves_an_entry_and_nothing_else_can_be_reset(desk):
    desk.do(take("s", "a", "b"))
    desk.batch(fault("s", SKIPPED), conclude("a"))
    assert desk.do(reset("b", "s", "a")).signatures == ("s",)
    assert row(desk, "s").status is ACTIVE
    (entry,) = desk.rows("review_history")
    told = (entry["url_signature"], entry["actor"], entry["event"], entry["before"], entry["after"], entry["note"])
    assert told == ("s", "ada", "reset", "skipped", "active", "the key was wrong")
    assert desk.do(take("s", now=NOW + 70)).mine == {"s"}


def test_who_gives_a_lease_back_leaves_the_signature_to_the_next(desk):
    desk.do(take("a"))
    assert desk.do(i.LetGo(signature="a", fence=FIRST, now=NOW + 1)) is Written.APPLIED
    assert desk.do(i.LetGo(signature="a", fence=FIRST, now=NOW + 1)) is Written.STALE
    assert desk.do(take("a", owner="them", now=NOW + 1)).mine == {"a"}


def test_a_fence_does_not_come_back_with_a_signature_that_was_erased(desk):
    desk.do(take("a"))
    desk.write("DELETE FROM analysis_cache")
    desk.do(take("a", owner="them", now=NOW + 60, until=NOW + 90))
    assert desk.do(conclude("a")) is Written.STALE
    assert row(desk, "a").answer is None


def test_whoever_still_asks_holds_on_under_the_same_fence_and_nobody_else_does(desk):
    desk.do(take("a", "b", "c"))
    desk.do(conclude("b"))
    desk.do(take("c", owner="them", now=NOW + 60, until=NOW + 120))
    assert desk.do(i.Prolong(holds=(("a", FIRST), ("b", FIRST), ("c", FIRST), ("d", FIRST)), until=NOW + 90)) == 1
    assert (row(desk, "a").leased_until, row(desk, "a").leased_by) == (NOW + 90, "me")
    assert (row(desk, "b").leased_until, row(desk, "c").leased_until) == (None, NOW + 120)
    assert desk.do(take("a", owner="them", now=NOW + 89)).mine == frozenset()
    assert desk.do(take("a", owner="them", now=NOW + 90, until=NOW + 99)).mine == {"a"}


def test_a_lease_is_never_made_shorter(desk):
    desk.do(take("a"))
    assert desk.do(i.Prolong(holds=(("a", FIRST),), until=NOW + 5)) == 1
    assert row(desk, "a").leased_until == NOW + 60


def test_an_answer_that_does_not_fit_any_more_is_asked_anew_and_one_that_came_since_is_not(desk):
    desk.do(take("a", "b"))
    desk.batch(conclude("a"), conclude("b"))
    unfit = (("a", FIRST), ("b", 7))
    assert desk.do(take("a", "b", now=NOW + 5, unfit=unfit)).mine == {"a"}
    desk.do(conclude("a", fence=FIRST + 1))
    assert desk.do(take("a", now=NOW + 9, unfit=unfit)).mine == frozenset()


def test_what_asking_took_is_added_up_and_what_nobody_said_is_not_made_up(desk):
    desk.do(take("a", "b"))
    desk.do(fault("a", ACTIVE, until=NOW + 99, usage=Usage(input_tokens=10, output_tokens=2)))
    desk.do(fault("a", ACTIVE, until=NOW + 99, now=NOW + 2))
    desk.batch(conclude("a", usage=Usage(input_tokens=5, output_tokens=1, cost=0.25), now=NOW + 3), conclude("b"))
    assert row(desk, "a").usage == Usage(input_tokens=15, output_tokens=3, cost=0.25)
    assert row(desk, "b").usage == Usage()


AGAIN = {
    "take": [take("a", "b")],
    "conclude": [take("a"), conclude("a")],
    "fault": [take("a"), fault("a", ACTIVE, until=NOW + 9)],
    "ask": [take("a"), fault("a", REVIEW)],
    "prolong": [take("a"), i.Prolong(holds=(("a", FIRST),), until=NOW + 90)],
    "let go": [take("a"), i.LetGo(signature="a", fence=FIRST, now=NOW + 1)],
    "reset": [take("a"), fault("a", SKIPPED), reset("a")],
}


@pytest.mark.parametrize("said", AGAIN.values(), ids=AGAIN)
def test_what_was_done_in_an_unknown_outcome_is_answered_as_done_and_not_done_twice(desk, said):
    *before, last = said
    for each in before:
        desk.do(each)
    answer = desk.do(last)
    rows = desk.everything()
    assert desk.do(last, again=True) == answer
    assert desk.everything() == rows


def test_a_batch_takes_and_settles_in_the_order_of_saying(desk):
    answers = desk.batch(take("a"), take("a", owner="them"), conclude("a"), take("a"))
    assert [answers[0].mine, answers[1].mine, answers[2], answers[3].mine] == [{"a"}, set(), Written.APPLIED, set()]
    assert answers[3].rows[0].status is ANALYZED


def test_what_is_known_of_many_is_read_at_once_whatever_their_names(desk):
    names = ("it's", 'a "b"', "ümlaut/ß", "{x}", "%s", ":n", "\\")
    desk.do(take(*names))
    assert {found.signature for found in desk.run(desk.store.analyses([*names, "unknown"]))} == set(names)


@pytest.mark.parametrize(
    "broken",
    [
        "status = 'unheard-of'",
        "status = 'analyzed', leased_by = NULL, leased_until = NULL",
        "status = 'skipped'",
        "is_human_verified = true",
        "leased_by = NULL",
        "failure_count = 1",
    ],
)
def test_the_database_itself_refuses_what_no_state_explains(desk, broken):
    desk.do(take("a"))
    with pytest.raises(Exception, match=r"(?i)check"):
        desk.write(f"UPDATE analysis_cache SET {broken}")


def test_a_name_that_the_store_cannot_write_is_refused(desk):
    with pytest.raises(StoreRefusedError):
        desk.do(take("\ud800"))
