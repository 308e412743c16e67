"""The taxonomy and the record."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.failure import TAXONOMY, Category, ErrorClass, Evidence, Failure, Scope, Severity
from reprieve.errors import UsageError

texts = st.text(max_size=40)
failures = st.builds(
    Failure,
    category=st.sampled_from(Category),
    error_class=st.one_of(st.sampled_from(ErrorClass), st.just("LEDGER_BUSY")),
    retryable=st.booleans(),
    requires_idempotent=st.booleans(),
    retry_after=st.none() | st.floats(0, 1e6),
    status_code=st.none() | st.integers(100, 599),
    severity=st.sampled_from(Severity),
    outcome_unknown=st.booleans(),
    scope=st.sampled_from(Scope),
    message=texts,
    signature=texts,
    fingerprint=texts,
    exception_type=texts,
    code=st.none() | texts,
    evidence=st.lists(st.builds(Evidence, rule=texts, link=texts, field=texts, value=texts), max_size=3).map(tuple),
    redactions=st.dictionaries(texts, st.integers(1, 9), max_size=3).map(lambda counts: tuple(counts.items())),
)


@given(failures)
def test_a_failure_comes_back_from_json_as_it_was(failure):
    again = Failure.from_json(failure.to_json())
    assert again == failure
    assert all(type(getattr(again, name)) is type(getattr(failure, name)) for name in ("category", "severity", "scope"))


@given(failures)
def test_its_json_holds_every_field_by_name(failure):
    assert set(json.loads(failure.to_json())) == {field.name for field in dataclasses.fields(Failure)}


def test_every_class_has_its_row_and_every_category_its_class():
    assert set(TAXONOMY) == set(ErrorClass)
    assert {kind.category for kind in TAXONOMY.values()} == set(Category)


def test_remedies_are_the_classes_own():
    remedies = [kind.remedy for kind in TAXONOMY.values()]
    assert len(set(remedies)) == len(remedies)
    assert all("\n" not in remedy and remedy.endswith(".") for remedy in remedies)


@pytest.mark.parametrize("name", ErrorClass)
def test_a_row_does_not_contradict_itself(name):
    kind = TAXONOMY[name]
    assert kind.retryable == (kind.severity in (Severity.TRANSIENT, Severity.UPSTREAM))
    assert kind.retryable == (kind.scope not in (Scope.HUMAN, Scope.AFTER_REPAIR))
    assert kind.pages or kind.severity is not Severity.FATAL
    assert not kind.requires_idempotent or kind.retryable


@pytest.mark.spec("CRIT-1.9")
def test_bugs_and_bad_configuration_page_an_operator():
    rows = [kind for kind in TAXONOMY.values() if kind.category is Category.CONFIGURATION]
    assert rows
    assert all(kind.pages and not kind.retryable for kind in rows)


@given(failures)
def test_a_record_of_another_version_is_read(failure):
    values = failure.as_dict()
    values["a_field_of_tomorrow"] = 1
    del values["redactions"]
    again = Failure.from_dict(values)
    assert again == dataclasses.replace(failure, redactions=())


@pytest.mark.parametrize(
    "values",
    [{}, {"error_class": 7}, {"retryable": "yes"}, {"retry_after": "soon"}, {"evidence": [{}]}, {"category": "x"}],
)
def test_what_is_no_record_is_refused_with_a_reason(values):
    with pytest.raises(UsageError, match="no record of a failure"):
        Failure.from_dict(values)
