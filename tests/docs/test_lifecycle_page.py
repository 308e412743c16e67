"""The page on a job's life says what the table says, no more and no less."""

import re
from pathlib import Path

from reprieve.core.lifecycle import TRANSITIONS, JobEvent, JobStatus
from reprieve.faces.cli.lifecycle import page

PAGE = (Path(__file__).parents[2] / "docs" / "lifecycle.md").read_text(encoding="utf-8")


def listed(text):
    """Every (status, event, target) of the tables of moves."""
    rows = re.findall(r"^\| `(\w+)` \| (`.*`) \| `(\w+)` \|$", text, re.MULTILINE)
    return [(status, event, target) for status, events, target in rows for event in re.findall(r"`(\w+)`", events)]


def drawn(text):
    """Every move of the diagram, from and to nowhere apart."""
    rows = re.findall(r"^    (\w+) --> (\w+): (.*)$", text, re.MULTILINE)
    return [(status, event, target) for status, target, events in rows for event in events.split(", ")]


def test_the_page_was_made_from_the_table():
    assert page() == PAGE, "run `make docs`"


def test_the_page_lists_every_move_once():
    assert sorted(listed(PAGE)) == sorted((status, event, target) for (status, event), target in TRANSITIONS.items())


def test_the_diagram_draws_every_move_but_those_that_need_no_claim():
    unclaimed = listed(PAGE.partition("Callers who run their own loop")[2])
    assert {status for status, _, _ in unclaimed} == {JobStatus.PENDING, JobStatus.RETRYABLE_FAILED}
    assert sorted(drawn(PAGE) + unclaimed) == sorted(listed(PAGE))


def test_the_diagram_ends_where_a_job_does():
    assert re.findall(r"^    (\w+) --> \[\*\]$", PAGE, re.MULTILINE) == [status for status in JobStatus if status.over]


def test_every_status_and_every_event_is_explained():
    explained = re.findall(r"^\| `(\w+)` \| [^`|].* \|$", PAGE, re.MULTILINE)
    assert explained == [*JobStatus, *JobEvent]
