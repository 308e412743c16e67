"""The documentation's page on the lives of jobs, dead letters, deliveries, analyses and reviews; `make docs` runs this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from reprieve.core.analysis import (
    ANALYSIS_TRANSITIONS,
    REVIEW_TRANSITIONS,
    AnalysisEvent,
    AnalysisStatus,
    ReviewEvent,
    ReviewState,
)
from reprieve.core.lifecycle import (
    DEAD_LETTER_STATUS,
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
    JobStatus.SKIPPED: "over: set aside by its profile or rejected by a person, never sent again",
    JobStatus.CANCELLED: "over: ended by a person, or by a newer version of its subject",
}
EVENTS: Final[Mapping[JobEvent, str]] = {
    JobEvent.CLAIM: "a worker leases it",
    JobEvent.CHECKPOINT: "a stage is done and its result stored; the job goes on under the same lease",
    JobEvent.FINISH: "the last stage is done",
    JobEvent.RETRY: "an attempt failed; there will be another",
    JobEvent.BURY: "it is given up: dead letter and end in one transaction",
    JobEvent.SKIP: "the profile sets its failure aside, or a person rejects it",
    JobEvent.ASK: "it is handed to a person",
    JobEvent.RELEASE: "the lease is given back at no cost: the worker stops, the next stage is held, or a stored value does not fit",
    JobEvent.CANCEL: "somebody ends it; a running one is stopped by its worker",
    JobEvent.ANSWER: "the person has answered: it goes on from the next stage, or has succeeded",
    JobEvent.REOPEN: "the person who rejected it, or another, takes that back",
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
ANALYSIS_STATUSES: Final[Mapping[AnalysisStatus, str]] = {
    AnalysisStatus.ACTIVE: "to be asked of the model, being asked, or put off until its `retry_after`",
    AnalysisStatus.SKIPPED: "never sent again, but for a reset or another question",
    AnalysisStatus.ANALYZED: "answered by the model or by a person, and served from the cache",
    AnalysisStatus.NEEDS_REVIEW: "waits for a person",
}
ANALYSIS_EVENTS: Final[Mapping[AnalysisEvent, str]] = {
    AnalysisEvent.ANALYZE: "the model's answer fits the schema",
    AnalysisEvent.SKIP: "a permanent error",
    AnalysisEvent.PUT_OFF: "a transient error; another try follows, now or after its `retry_after`",
    AnalysisEvent.ASK: "no answer of the model fits, or a verified one does not fit the new schema",
    AnalysisEvent.VERIFY: "a person has set the classification: `is_human_verified`",
    AnalysisEvent.REJECT: "a person says that there is no answer",
    AnalysisEvent.UNDO: "a person's ruling is taken back",
    AnalysisEvent.RESET: "an operator has a skipped one asked again",
    AnalysisEvent.RENEW: "prompt or schema have changed; never of what a person has settled",
}
REVIEW_STATES: Final[Mapping[ReviewState, str]] = {
    ReviewState.OPEN: "anybody may take it",
    ReviewState.CLAIMED: "somebody is at it",
    ReviewState.VERIFIED: "closed: a person has answered",
    ReviewState.REJECTED: "closed: a person says that there is no answer",
    ReviewState.WITHDRAWN: "closed: what it was about does not wait any more",
}
REVIEW_EVENTS: Final[Mapping[ReviewEvent, str]] = {
    ReviewEvent.ASK: "it is opened, in the transaction that makes its signature or job wait",
    ReviewEvent.CLAIM: "somebody takes it, or takes it over",
    ReviewEvent.RELEASE: "the one who had it gives it back",
    ReviewEvent.VERIFY: "an answer that fits the schema, or the type of the job's stage",
    ReviewEvent.REJECT: "the signature or the job is skipped",
    ReviewEvent.UNDO: "taken back, as a new entry of the history; of a job only until somebody goes on with it",
    ReviewEvent.WITHDRAW: "its job was cancelled, or has gone on by other means",
    ReviewEvent.RESET: "an operator has its skipped signature asked of the model again",
}
DELIVERY_STATUSES: Final[Mapping[DeliveryStatus, str]] = {
    DeliveryStatus.PENDING: "nothing of it has reached the provider, for all that is known: it may be sent",
    DeliveryStatus.SENDING: "somebody is at it, or was when its process ended",
    DeliveryStatus.SENT: "the recipient has been told",
    DeliveryStatus.FAILED: "refused for good, or given up; a person, or a replay of its job, may have it sent again",
    DeliveryStatus.UNCERTAIN: "it may have been taken: nobody sends it again before the provider was asked, unless it drops the second",
    DeliveryStatus.RECONCILING: "the provider is being asked, or will be again",
    DeliveryStatus.HELD: "what became of it cannot be known: a person decides",
}
DELIVERY_EVENTS: Final[Mapping[DeliveryEvent, str]] = {
    DeliveryEvent.BEGIN: "somebody is about to send it; on disk before the first byte leaves",
    DeliveryEvent.ACCEPT: "the provider has taken it: its id, the time and the status are written at once",
    DeliveryEvent.PUT_OFF: "it was not taken, and another try may help",
    DeliveryEvent.REFUSE: "it was not taken, and never will be",
    DeliveryEvent.DOUBT: "it may have been taken, or the provider did not say",
    DeliveryEvent.LOOK: "somebody is about to ask the provider",
    DeliveryEvent.FIND: "the provider has it: marked, not sent",
    DeliveryEvent.MISS: "the provider definitely does not have it: what is marked is cleared, and it is to be sent",
    DeliveryEvent.HOLD: "nobody can find out: a person is asked",
    DeliveryEvent.CONFIRM: "a person says that it was received",
    DeliveryEvent.RESEND: "a person, or the replay of its job, has it sent again",
    DeliveryEvent.GIVE_UP: "it shall not be sent: a person says so, or its job has ended without it",
}
_UNCLAIMED: Final = frozenset({JobStatus.PENDING, JobStatus.RETRYABLE_FAILED})
_REPORTS: Final = frozenset({JobEvent.FINISH, JobEvent.RETRY, JobEvent.BURY, JobEvent.SKIP, JobEvent.ASK})


def page() -> str:
    """The whole page."""
    moves: list[Move] = [(status, event, target) for (status, event), target in TRANSITIONS.items()]
    reported = [move for move in moves if move[0] in _UNCLAIMED and move[1] in _REPORTS]
    claimed = [move for move in moves if move not in reported]
    return "\n".join([
        "# The lives of a job, of a dead letter, of a delivery, of an analysis and of a review",
        "",
        "<!-- made by `make docs` from core/lifecycle.py and core/analysis.py; a test keeps it true -->",
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
        *_deliveries(),
        "",
        *_analyses(),
        "",
        *_reviews(),
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


def _deliveries() -> list[str]:
    moves: list[Move] = [(status, event, target) for (status, event), target in DELIVERY_TRANSITIONS.items()]
    settled = [each for each in DeliveryStatus if each.settled]
    return [
        "## A delivery",
        "",
        "One recipient of one version. `core.lifecycle.delivery_after` refuses what is not here, and so do the stores; which of the ways that",
        "are open is taken, `core.delivery` decides from the row, the phase that a send got to, and what its provider can do. How it is worked",
        "with is told in [delivering](delivering.md).",
        "",
        *_diagram(moves, DeliveryStatus, begins=(DeliveryStatus.PENDING, "prepare"), ends=settled),
        "",
        *_explained("status", DELIVERY_STATUSES),
        "",
        *_explained("event", DELIVERY_EVENTS),
        "",
        "### Every move of a delivery",
        "",
        *_table(moves, DeliveryStatus),
    ]  # fmt: skip


def _analyses() -> list[str]:
    moves: list[Move] = [(status, event, target) for (status, event), target in ANALYSIS_TRANSITIONS.items()]
    return [
        "## An analysis",
        "",
        "One row of `analysis_cache` for each signature; see [analysis](analysis.md).",
        "",
        *_diagram(moves, AnalysisStatus, begins=(AnalysisStatus.ACTIVE, "take"), ends=()),
        "",
        *_explained("status", ANALYSIS_STATUSES),
        "",
        *_explained("event", ANALYSIS_EVENTS),
        "",
        "### Every move of an analysis",
        "",
        *_table(moves, AnalysisStatus),
    ]


def _reviews() -> list[str]:
    moves: list[Move] = [(state, event, target) for (state, event), target in REVIEW_TRANSITIONS.items()]
    return [
        "## A review",
        "",
        "What waits for a person, a signature or a job. Every event leaves an entry in the history, which is only added to.",
        "",
        *_diagram(moves, ReviewState, begins=(ReviewState.OPEN, ReviewEvent.ASK), ends=[each for each in ReviewState if each.closed]),
        "",
        *_explained("state", REVIEW_STATES),
        "",
        *_explained("event", REVIEW_EVENTS),
        "",
        "### Every move of a review",
        "",
        *_table(moves, ReviewState),
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
