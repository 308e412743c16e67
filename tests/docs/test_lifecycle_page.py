"""The page on the lives of jobs and dead letters says what the tables say, no more and no less."""

import re
from pathlib import Path

import pytest

from reprieve.core.analysis import (
    ANALYSIS_TRANSITIONS,
    REVIEW_TRANSITIONS,
    AnalysisEvent,
    AnalysisStatus,
    ReviewEvent,
    ReviewState,
)
from reprieve.core.lifecycle import (
    DELIVERY_TRANSITIONS,
    LETTER_TRANSITIONS,
    TRANSITIONS,
    DeliveryEvent,
    DeliveryStatus,
    JobEvent,
    JobStatus,
    LetterEvent,
    LetterState,
)
from reprieve.faces.cli.lifecycle import page

PAGE = (Path(__file__).parents[2] / "docs" / "lifecycle.md").read_text(encoding="utf-8")
OF_JOBS, OF_LETTERS, OF_DELIVERIES, OF_ANALYSES, OF_REVIEWS = re.split(
    r"\n## (?:A dead letter|A delivery|An analysis|A review)\n", PAGE
)
EACH = pytest.mark.parametrize(
    ("text", "table"),
    [
        (OF_JOBS, TRANSITIONS),
        (OF_LETTERS, LETTER_TRANSITIONS),
        (OF_DELIVERIES, DELIVERY_TRANSITIONS),
        (OF_ANALYSES, ANALYSIS_TRANSITIONS),
        (OF_REVIEWS, REVIEW_TRANSITIONS),
    ],
    ids=["jobs", "dead letters", "deliveries", "analyses", "reviews"],
)


def listed(text):
    """Every (status, event, target) of the tables of moves."""
    rows = re.findall(r"^\| `(\w+)` \| (`.*`) \| `(\w+)` \|$", text, re.MULTILINE)
    return [(status, event, target) for status, events, target in rows for event in re.findall(r"`(\w+)`", events)]


def drawn(text):
    """Every move of the diagram, from and to nowhere apart."""
    rows = re.findall(r"^    (\w+) --> (\w+): (.*)$", text, re.MULTILINE)
    return [(status, event, target) for status, target, events in rows for event in events.split(", ")]


def ends(text):
    return re.findall(r"^    (\w+) --> \[\*\]$", text, re.MULTILINE)


def explained(text):
    return re.findall(r"^\| `(\w+)` \| [^`|].* \|$", text, re.MULTILINE)


def test_the_page_was_made_from_the_tables():
    assert page() == PAGE, "run `make docs`"


@EACH
def test_the_page_lists_every_move_once(text, table):
    assert sorted(listed(text)) == sorted((status, event, target) for (status, event), target in table.items())


def test_the_diagram_of_jobs_draws_every_move_but_those_that_need_no_claim():
    unclaimed = listed(OF_JOBS.partition("Callers who run their own loop")[2])
    assert {status for status, _, _ in unclaimed} == {JobStatus.PENDING, JobStatus.RETRYABLE_FAILED}
    assert sorted(drawn(OF_JOBS) + unclaimed) == sorted(listed(OF_JOBS))


def test_the_diagram_of_dead_letters_draws_every_move_but_notes():
    notes = [(state, LetterEvent.NOTE, state) for state in LetterState]
    assert sorted(drawn(OF_LETTERS) + notes) == sorted(listed(OF_LETTERS))


@pytest.mark.parametrize("text", [OF_DELIVERIES, OF_ANALYSES, OF_REVIEWS], ids=["deliveries", "analyses", "reviews"])
def test_the_diagrams_of_deliveries_analyses_and_reviews_draw_every_move(text):
    assert sorted(drawn(text)) == sorted(listed(text))


def test_the_diagrams_end_where_a_job_and_a_dead_letter_do():
    assert ends(OF_JOBS) == [status for status in JobStatus if status.over]
    assert ends(OF_LETTERS) == [state for state in LetterState if state.closed]
    assert ends(OF_DELIVERIES) == [status for status in DeliveryStatus if status.settled]


def test_every_status_and_every_event_is_explained():
    assert explained(OF_JOBS) == [*JobStatus, *JobEvent]
    assert explained(OF_LETTERS) == [*LetterState, *LetterEvent]
    assert explained(OF_DELIVERIES) == [*DeliveryStatus, *DeliveryEvent]
    assert explained(OF_ANALYSES) == [*AnalysisStatus, *AnalysisEvent]
    assert explained(OF_REVIEWS) == [*ReviewState, *ReviewEvent]
