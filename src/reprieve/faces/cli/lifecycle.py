"""The documentation's page on a job's life, made from the table; `make docs` runs this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.core.lifecycle import DEAD_LETTER_STATUS, TRANSITIONS, JobEvent, JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Move = tuple[JobStatus, JobEvent, JobStatus]

STATUSES: Final[Mapping[JobStatus, str]] = {
    JobStatus.PENDING: "accepted; no worker has had it yet",
    JobStatus.IN_PROGRESS: "a worker has it, or it waits for its next turn or for a deployment; it says what it waits on",
    JobStatus.RETRYABLE_FAILED: "an attempt failed, and another is due",
    JobStatus.NEEDS_REVIEW: "it waits for a person",
    JobStatus.SUCCEEDED: "over: what the last stage returned is its result",
    JobStatus.DEAD_LETTER: f"over: given up, kept for triage, status code {DEAD_LETTER_STATUS}",
    JobStatus.SKIPPED: "over: set aside by its profile, never sent again",
    JobStatus.CANCELLED: "over: ended by a person, or by a newer version of its subject",
}
EVENTS: Final[Mapping[JobEvent, str]] = {
    JobEvent.CLAIM: "a worker leases it",
    JobEvent.CHECKPOINT: "a stage is done and its result stored; the job goes on under the same lease",
    JobEvent.FINISH: "the last stage is done",
    JobEvent.RETRY: "an attempt failed; there will be another",
    JobEvent.BURY: "it is given up: dead letter and end in one transaction",
    JobEvent.SKIP: "the profile sets its failure aside",
    JobEvent.ASK: "it is handed to a person",
    JobEvent.RELEASE: "the lease is given back at no cost: the worker stops, the next stage is held, or a stored value does not fit",
    JobEvent.CANCEL: "somebody ends it; a running one is stopped by its worker",
    JobEvent.ANSWER: "the person has answered (no command does so yet)",
    JobEvent.REPLAY: "the dead letter is replayed (no command does so yet)",
}
_UNCLAIMED: Final = frozenset({JobStatus.PENDING, JobStatus.RETRYABLE_FAILED})
_REPORTS: Final = frozenset({JobEvent.FINISH, JobEvent.RETRY, JobEvent.BURY, JobEvent.SKIP, JobEvent.ASK})


def page() -> str:
    """The whole page."""
    moves = [(status, event, target) for (status, event), target in TRANSITIONS.items()]
    reported = [move for move in moves if move[0] in _UNCLAIMED and move[1] in _REPORTS]
    return "\n".join([
        "# A job's life",
        "",
        "<!-- made by `make docs` from core/lifecycle.py; a test keeps it true -->",
        "",
        "Every status that a job can have, and every way from one to another. `core.lifecycle.after` refuses any other with",
        "`IllegalTransitionError`; the stores guard each write by the job's fence and state, and change nothing where these do not",
        "match. How a status is read off the tables is told in [the engine](engine.md#status).",
        "",
        *_diagram([move for move in moves if move not in reported]),
        "",
        "| status | |",
        "|---|---|",
        *(f"| `{status}` | {STATUSES[status]} |" for status in JobStatus),
        "",
        "| event | |",
        "|---|---|",
        *(f"| `{event}` | {EVENTS[event]} |" for event in JobEvent),
        "",
        "## Every move",
        "",
        *_table([move for move in moves if move not in reported]),
        "",
        "Callers who run their own loop report what became of a job that no worker has claimed. So these are moves too, left out of",
        "the diagram:",
        "",
        *_table(reported),
        "",
    ])  # fmt: skip


def _diagram(moves: Sequence[Move]) -> list[str]:
    ways = _merged(moves)
    return [
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {JobStatus.PENDING}: submit",
        *(f"    {status} --> {target}: {', '.join(events)}" for (status, target), events in ways.items()),
        *(f"    {status} --> [*]" for status in JobStatus if status.over),
        "```",
    ]


def _table(moves: Sequence[Move]) -> list[str]:
    rows = [
        f"| `{status}` | {', '.join(f'`{event}`' for event in events)} | `{target}` |"
        for (status, target), events in _merged(moves).items()
    ]
    return ["| from | by | to |", "|---|---|---|", *rows]


def _merged(moves: Sequence[Move]) -> dict[tuple[JobStatus, JobStatus], list[JobEvent]]:
    """The events that lead from one status to another, in the order of the statuses."""
    ways: dict[tuple[JobStatus, JobStatus], list[JobEvent]] = {}
    order = list(JobStatus)
    for status, event, target in sorted(moves, key=lambda move: (order.index(move[0]), order.index(move[2]))):
        ways.setdefault((status, target), []).append(event)
    return ways


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - redirected into the page
