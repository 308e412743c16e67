"""The documentation's page on the lives of jobs and dead letters, made from their tables; `make docs` runs this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from reprieve.core.lifecycle import (
    DEAD_LETTER_STATUS,
    LETTER_TRANSITIONS,
    TRANSITIONS,
    JobEvent,
    JobStatus,
    LetterEvent,
    LetterState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Move = tuple[str, str, str]

T = TypeVar("T", bound=str)

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
    JobEvent.REPLAY: "the dead letter is replayed",
}
LETTER_STATES: Final[Mapping[LetterState, str]] = {
    LetterState.OPEN: "its job was given up; nobody has looked at it yet",
    LetterState.TRIAGED: "its cause is named",
    LetterState.REMEDIATED: "what was done about the cause is on record",
    LetterState.APPROVED: "somebody has confirmed that running it again does no harm",
    LetterState.REPLAYING: "its job is in the queue again, or runs",
    LetterState.REPLAYED: "its job has succeeded; waits for verification",
    LetterState.RESOLVED: "closed: verified, with a note",
    LetterState.ESCALATED: "for engineering",
    LetterState.DISCARDED: "closed: without a replay, or its replayed job was cancelled",
}
LETTER_EVENTS: Final[Mapping[LetterEvent, str]] = {
    LetterEvent.TRIAGE: "an operator names the cause; another cause than before needs new evidence",
    LetterEvent.REMEDIATE: "an operator records what was done about it",
    LetterEvent.APPROVE: "an operator confirms that a replay is idempotent, or does no harm",
    LetterEvent.REPLAY: "the job goes back into the queue",
    LetterEvent.OVERRIDE: "the same though a gate was not passed, for a reason that is kept",
    LetterEvent.RECOVER: "the replayed job has succeeded",
    LetterEvent.FAIL: "the replayed job was given up again",
    LetterEvent.RELAPSE: "the same with the class it had before, which is not retryable: an alert is raised",
    LetterEvent.WITHDRAW: "the replayed job was cancelled or skipped",
    LetterEvent.VERIFY: "somebody has looked whether the job succeeded and everybody was told",
    LetterEvent.RESOLVE: "closed with a note, once that is so",
    LetterEvent.ESCALATE: "handed to engineering",
    LetterEvent.DISCARD: "closed without a replay",
    LetterEvent.REOPEN: "a discarded one is opened again",
    LetterEvent.NOTE: "somebody has added a note",
}
_UNCLAIMED: Final = frozenset({JobStatus.PENDING, JobStatus.RETRYABLE_FAILED})
_REPORTS: Final = frozenset({JobEvent.FINISH, JobEvent.RETRY, JobEvent.BURY, JobEvent.SKIP, JobEvent.ASK})


def page() -> str:
    """The whole page."""
    moves: list[Move] = [(status, event, target) for (status, event), target in TRANSITIONS.items()]
    reported = [move for move in moves if move[0] in _UNCLAIMED and move[1] in _REPORTS]
    claimed = [move for move in moves if move not in reported]
    return "\n".join([
        "# The lives of a job and of a dead letter",
        "",
        "<!-- made by `make docs` from core/lifecycle.py; a test keeps it true -->",
        "",
        "## A job",
        "",
        "Every status that a job can have, and every way from one to another. `core.lifecycle.after` refuses any other with",
        "`IllegalTransitionError`; the stores guard each write by the job's fence and state, and change nothing where these do not",
        "match. How a status is read off the tables is told in [the engine](engine.md#status).",
        "",
        *_diagram(claimed, JobStatus, begins=(JobStatus.PENDING, "submit"), ends=[each for each in JobStatus if each.over]),
        "",
        *_explained("status", STATUSES),
        "",
        *_explained("event", EVENTS),
        "",
        "### Every move of a job",
        "",
        *_table(claimed, JobStatus),
        "",
        "Callers who run their own loop report what became of a job that no worker has claimed. So these are moves too, left out of",
        "the diagram:",
        "",
        *_table(reported, JobStatus),
        "",
        *_letters(),
        "",
    ])  # fmt: skip


def _letters() -> list[str]:
    moves: list[Move] = [(state, event, target) for (state, event), target in LETTER_TRANSITIONS.items()]
    drawn = [move for move in moves if move[1] != LetterEvent.NOTE]
    closed = [each for each in LetterState if each.closed]
    return [
        "## A dead letter",
        "",
        "A job has one dead letter at most, for its whole life. Every event leaves an entry in its history, which is only added to;",
        "`core.lifecycle.letter_after` refuses what is not here, and so do the stores, which change nothing then. How it is worked with is",
        "told in [dead letters](dead-letters.md).",
        "",
        *_diagram(drawn, LetterState, begins=(LetterState.OPEN, "bury"), ends=closed),
        "",
        *_explained("state", LETTER_STATES),
        "",
        *_explained("event", LETTER_EVENTS),
        "",
        "### Every move of a dead letter",
        "",
        *_table(moves, LetterState),
    ]  # fmt: skip


def _explained(heading: str, words: Mapping[T, str]) -> list[str]:
    return [f"| {heading} | |", "|---|---|", *(f"| `{name}` | {told} |" for name, told in words.items())]


def _diagram(moves: Sequence[Move], order: Iterable[str], *, begins: tuple[str, str], ends: Sequence[str]) -> list[str]:
    first, by = begins
    ways = _merged(moves, order)
    return [
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {first}: {by}",
        *(f"    {state} --> {target}: {', '.join(events)}" for (state, target), events in ways.items()),
        *(f"    {state} --> [*]" for state in ends),
        "```",
    ]


def _table(moves: Sequence[Move], order: Iterable[str]) -> list[str]:
    rows = [
        f"| `{state}` | {', '.join(f'`{event}`' for event in events)} | `{target}` |"
        for (state, target), events in _merged(moves, order).items()
    ]
    return ["| from | by | to |", "|---|---|---|", *rows]


def _merged(moves: Sequence[Move], order: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """The events that lead from one state to another, in the order of the states."""
    ways: dict[tuple[str, str], list[str]] = {}
    places = {name: place for place, name in enumerate(order)}
    for state, event, target in sorted(moves, key=lambda move: (places[move[0]], places[move[2]])):
        ways.setdefault((state, target), []).append(event)
    return ways


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - redirected into the page
