"""The ingestion agents' library calls: names, units, and what they leave on an item."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType, SimpleNamespace

import pytest

from reprieve.app.ingestion import (
    Classification,
    ErrorType,
    calculate_backoff,
    classify_error,
    get_retry_delay,
    handle_item_failure,
    should_move_to_dlq,
)
from reprieve.app.profiles import resolve
from reprieve.core.decide import Abort, DeadLetter, Park, RetryAt
from reprieve.core.policy import Policy
from reprieve.errors import NeedsReview, UsageError

NOW = 1_800_000_000.0
LAST_DRAW = 1.0 - 2**-53
SERVER_ERROR = {"statusCode": 500, "message": "Internal server error"}
RATE_LIMIT = {"statusCode": 429, "message": "Rate limit exceeded"}
NOT_FOUND = {"statusCode": 404, "message": "Not found"}


@pytest.mark.spec("ING-5.1")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RATE_LIMIT, "rate_limit"),
        (SERVER_ERROR, "retryable"),
        (NOT_FOUND, "terminal"),
        ({"message": "ETIMEDOUT"}, "retryable"),
        ({"message": "Invalid input"}, "terminal"),
        (SimpleNamespace(status_code=503, message="busy"), "retryable"),
        (SimpleNamespace(status="403", message="no"), "terminal"),
        ("too many requests", "rate_limit"),
        ("nobody has seen this before", "retryable"),
        (TimeoutError("read timed out"), "retryable"),
        (ConnectionRefusedError(111, "Connection refused"), "retryable"),
        ({"status": "failed", "message": "unauthorized"}, "terminal"),
        ({}, "retryable"),
        (None, "retryable"),
    ],
)
def test_classify_error_names_type_retryable_and_reason(error, kind):
    found = classify_error(error)
    assert (found.type, found.retryable) == (kind, kind != "terminal")
    assert found.reason


@pytest.mark.spec("ING-5.1", "ING-2.1")
@pytest.mark.parametrize(
    ("attempt", "standard", "limited"),
    [(1, 1000, 10_000), (2, 2000, 20_000), (3, 4000, 40_000), (4, 8000, 60_000), (9, 60_000, 60_000)],
)
def test_delays_are_milliseconds_a_fifth_either_way_of_the_table(attempt, standard, limited):
    for error, middle in ((SERVER_ERROR, standard), (RATE_LIMIT, limited)):
        delays = [get_retry_delay(attempt, error, draw=draw) for draw in (0.0, 0.5, LAST_DRAW)]
        assert delays == [0.8 * middle, middle, 1.2 * middle]
        assert 0.8 * middle <= get_retry_delay(attempt, error) <= 1.2 * middle
    assert calculate_backoff(attempt, draw=0.5) == standard
    assert calculate_backoff(attempt, rate_limit=True, draw=0.5) == limited
    assert 0.8 * standard <= calculate_backoff(attempt) <= 1.2 * standard


@pytest.mark.spec("ING-5.1")
def test_a_terminal_error_has_no_retry_delay():
    assert get_retry_delay(1, NOT_FOUND) is None


def test_a_retry_after_that_is_longer_than_the_backoff_is_waited_for():
    assert get_retry_delay(1, {**RATE_LIMIT, "headers": {"Retry-After": "90"}}) == 90_000


@pytest.mark.spec("ING-3.1", "ING-3.2", "ING-5.1")
@pytest.mark.parametrize(
    ("count", "kind", "moves"),
    [
        (0, ErrorType.RETRYABLE, False),
        (1, ErrorType.RETRYABLE, False),
        (2, ErrorType.RETRYABLE, False),
        (3, ErrorType.RETRYABLE, True),
        (4, ErrorType.RETRYABLE, True),
        (2, ErrorType.RATE_LIMIT, False),
        (3, ErrorType.RATE_LIMIT, True),
        (1, ErrorType.TERMINAL, True),
    ],
)
def test_an_item_moves_to_the_dlq_at_once_when_terminal_and_on_the_third_failure_else(count, kind, moves):
    assert should_move_to_dlq(count, Classification(kind, kind is not ErrorType.TERMINAL, "")) is moves


@pytest.mark.spec("ING-4.1", "ING-5.2")
def test_a_failure_updates_every_field_of_the_item():
    item = {"id": 7, "status_code": 210}
    decision = handle_item_failure(item, "fetcher", "download", RATE_LIMIT, now=NOW, draw=0.5)
    assert isinstance(decision, RetryAt)
    assert item == {
        "id": 7,
        "status_code": 210,
        "failure_count": 1,
        "last_failed_step": "download",
        "last_error_message": "Rate limit exceeded",
        "last_error_signature": "Rate limit exceeded",
        "last_error_at": datetime.fromtimestamp(NOW, tz=UTC),
        "error_type": "rate_limit",
        "error_retryable": True,
        "retry_after": datetime.fromtimestamp(NOW + 10.0, tz=UTC),
    }


@pytest.mark.spec("ING-3.2", "ING-3.3", "ING-4.1", "ING-5.2")
def test_the_third_failure_in_a_row_on_one_step_buries_the_item_under_599():
    item = SimpleNamespace(status_code=210)
    kinds = [type(handle_item_failure(item, "fetcher", "parse", SERVER_ERROR, now=NOW)) for _ in range(3)]
    assert kinds == [RetryAt, RetryAt, DeadLetter]
    assert (item.failure_count, item.status_code, item.retry_after) == (3, 599, None)
    assert (item.error_type, item.error_retryable) == ("retryable", True)


@pytest.mark.spec("ING-3.1", "ING-3.3")
def test_a_terminal_error_buries_the_item_on_its_first_failure():
    item: dict[str, object] = {}
    assert isinstance(handle_item_failure(item, "fetcher", "parse", NOT_FOUND), DeadLetter)
    assert (item["status_code"], item["failure_count"], item["error_type"]) == (599, 1, "terminal")
    assert item["retry_after"] is None


@pytest.mark.spec("ING-3.2", "ING-4.1")
def test_failures_are_counted_per_step():
    item: dict[str, object] = {}
    for step in ("parse", "parse", "store", "store", "parse"):
        assert isinstance(handle_item_failure(item, "fetcher", step, SERVER_ERROR), RetryAt)
    assert item["failure_count"] == 1


@pytest.mark.spec("ING-4.1")
def test_a_long_message_is_cut_and_its_signature_masks_numbers():
    item: dict[str, object] = {"failure_count": None}
    handle_item_failure(item, "fetcher", "parse", {"message": "row 42 is odd " * 200})
    assert len(item["last_error_message"]) <= 1000
    assert item["last_error_signature"].startswith("row N is odd row N")
    assert len(item["last_error_signature"]) <= 100


@pytest.mark.spec("ING-5.2")
def test_what_was_decided_is_logged_without_the_item_or_a_secret(caplog):
    token = "sk-" + "proj-" + "a1B2" * 12
    item = {"body": "a private letter", "failure_count": 2, "last_failed_step": "parse"}
    with caplog.at_level(logging.DEBUG, logger="reprieve.ingestion"):
        handle_item_failure({}, "fetcher", "parse", SERVER_ERROR, draw=0.5)
        handle_item_failure(item, "fetcher", "parse", RuntimeError(f"no luck\nwith api_key={token}"))
    first, second = caplog.messages
    assert "fetcher/parse: failure 1 (UPSTREAM_ERROR), retry in 1.0 s" in first
    assert "fetcher/parse: failure 3 (UNKNOWN), moved to the dead-letter queue (budget_spent): 'no luck" in second
    assert "\n" not in second
    assert token not in caplog.text
    assert token not in str(item)
    assert "private letter" not in caplog.text


@pytest.mark.spec("ORC-2.3")
def test_another_profile_can_be_given_as_the_configuration():
    item = {"failure_count": 3, "last_failed_step": "parse"}
    patient = resolve("ingestion").override(max_attempts=5)
    assert isinstance(handle_item_failure(item, "fetcher", "parse", SERVER_ERROR, patient), RetryAt)
    assert isinstance(handle_item_failure(item, "fetcher", "parse", SERVER_ERROR, Policy(max_attempts=5)), DeadLetter)


def test_what_asks_for_a_person_or_stops_a_stage_elsewhere_is_buried_here():
    for error, kind in ((NeedsReview("look"), Park), ({"statusCode": 401, "message": "no"}, (DeadLetter, Abort))):
        item: dict[str, object] = {}
        assert isinstance(handle_item_failure(item, "fetcher", "parse", error), kind)
        assert (item["status_code"], item["error_type"], item["retry_after"]) == (599, "terminal", None)


def test_a_deadline_is_refused_since_an_item_does_not_say_when_its_step_began():
    with pytest.raises(UsageError, match="deadline"):
        handle_item_failure({}, "fetcher", "parse", SERVER_ERROR, Policy(deadline=60.0))


@pytest.mark.parametrize("count", ["three", -1, 2.5, True])
def test_a_count_that_is_none_is_refused_and_the_item_stays_as_it_was(count):
    item = {"failure_count": count, "last_failed_step": "parse"}
    with pytest.raises(UsageError, match="failure_count"):
        handle_item_failure(item, "fetcher", "parse", SERVER_ERROR)
    assert item == {"failure_count": count, "last_failed_step": "parse"}


@dataclass(frozen=True)
class Frozen:
    failure_count: int = 0


@dataclass(slots=True)
class TooSmall:
    failure_count: int = 0


@pytest.mark.parametrize("item", [Frozen(), TooSmall(), MappingProxyType({}), None])
def test_an_item_that_cannot_take_the_fields_is_refused_and_not_half_written(item):
    with pytest.raises(UsageError, match="cannot take an item's"):
        handle_item_failure(item, "fetcher", "parse", SERVER_ERROR)
    assert getattr(item, "failure_count", 0) == 0


def test_leaving_is_no_failure():
    item: dict[str, object] = {}
    with pytest.raises(KeyboardInterrupt):
        handle_item_failure(item, "fetcher", "parse", KeyboardInterrupt())
    assert item == {}
