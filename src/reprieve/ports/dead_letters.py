"""What can be looked up about dead letters, their groups and campaigns; values ready to be shown, all of them sanitized."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.core.canary import CampaignState, MemberState
    from reprieve.core.lifecycle import JobStatus, LetterState


class Sort(StrEnum):
    """Which come first."""

    NEWEST = "newest"
    OLDEST = "oldest"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which dead letters; None or empty: all."""

    states: frozenset[LetterState] = frozenset()
    pipeline: str | None = None
    stage: str | None = None
    error_class: str | None = None
    category: str | None = None
    fingerprint: str | None = None
    text: str | None = None
    """In the message, the stack or the context, whatever its case; not by an index."""
    since: float | None = None
    """Died at this time or later."""
    before: float | None = None
    """Died before this time."""
    sort: Sort = Sort.NEWEST
    after: str | None = None
    """The cursor of the row to go on after."""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterRow:
    """A dead letter in a list."""

    letter_id: int
    job_id: int
    state: LetterState
    pipeline: str
    stage: str
    error_class: str
    category: str
    fingerprint: str
    signature: str
    status_code: int | None
    attempts: int
    budget: int
    pages: bool
    escalated: bool
    cause: str | None
    """What an operator named as the cause."""
    replays: int
    campaign_id: int | None
    first_failure_at: float
    last_failure_at: float
    opened_at: float
    """When its job was given up for the first time."""
    closed_at: float | None
    waits_in: int | None = None
    """The campaign that will replay it when its turn comes."""

    @property
    def cursor(self) -> str:
        """Where a page that ends with this one goes on."""
        return f"{self.last_failure_at!r}:{self.letter_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One thing that happened to a dead letter."""

    at: float
    actor: str
    event: str
    before: LetterState
    after: LetterState
    note: str
    detail: str
    """A JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterDetail:
    """A dead letter, whole."""

    row: LetterRow
    message: str
    last_stack: str
    sanitized_context: str
    """JSON."""
    reason: str
    policy: str
    history: Sequence[HistoryEntry]
    """The oldest first."""
    summary: str | None
    """JSON: what is left of the history, and when the rest was pruned; None while nothing was."""
    job_status: JobStatus | None
    """None where the job was pruned."""
    job_ended_by: str | None
    """Who cancelled it."""
    job_reason: str | None
    """Why it was cancelled, skipped or given up."""
    finished_stages: Sequence[str]
    payload_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What became of a replayed job, and of what it was to deliver."""

    job_status: JobStatus | None
    undelivered: int = 0
    """How many recipients have not been told."""

    @property
    def passed(self) -> bool:
        """Whether its dead letter may be closed."""
        return self.job_status == "succeeded" and self.undelivered == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """Which groups: those with a member that is so."""

    states: frozenset[LetterState] = frozenset()
    pipeline: str | None = None
    stage: str | None = None
    error_class: str | None = None
    category: str | None = None
    by_count: bool = True
    """The largest first; else those seen last."""
    offset: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """All dead letters with one fingerprint."""

    fingerprint: str
    signature: str
    """Of its sample: members may have failed with other words."""
    error_class: str
    category: str
    pipelines: Sequence[str]
    stages: Sequence[str]
    first_seen: float
    last_seen: float
    count: int
    """Of those that the filter wants."""
    by_state: Mapping[LetterState, int]
    trend: Sequence[int]
    """Deaths in each of the last 24 hours by the clock, the oldest first."""
    sample_id: int
    """A dead letter of it, the newest there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStats:
    """The figures of ING-7.1, and what operators ask besides; rates are None where nothing happened."""

    by_state: Mapping[LetterState, int]
    size: int
    """In the queue: those that wait for somebody to do something."""
    inflow_last_hour: int
    """Deaths in the last 3,600 seconds: a letter that dies again flows in again."""
    inflow_per_hour: float
    """Deaths, on average over the window; of its first hour all, where jobs of that hour were pruned."""
    trend: Sequence[int]
    """Deaths in each of the last 24 hours by the clock, the oldest first."""
    errors: int
    terminal_error_rate: float | None
    """Of all failed attempts in the window, the share that was terminal."""
    retries: int
    retry_success_rate: float | None
    """Of all second and later attempts in the window, the share that succeeded."""
    oldest_at: float | None
    """When the one died that has been in the queue longest."""
    resolved: int
    """In the window."""
    median_resolution: float | None
    """Seconds from the first death to the closing, over the last 1,000 that were resolved in the window."""
    window: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRow:
    """A campaign, and what became of its members."""

    campaign_id: int
    state: CampaignState
    selection: str
    fingerprint: str | None
    created_by: str
    created_at: float
    changed_at: float
    changed_by: str
    reason: str
    waves: Sequence[int]
    wave: int
    """Which one it is at, from 0."""
    launched: int
    """Of this wave."""
    wave_at: float
    """When this wave began."""
    rate: float | None
    fence: int
    """How often it has been steered."""
    members: Mapping[MemberState, int]
    in_wave: Mapping[MemberState, int]
    """The members of the wave it is at; those that wait have none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEntry:
    """One thing that was done with a campaign: by whom, what it was then, and why."""

    at: float
    actor: str
    state: CampaignState
    wave: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignMember:
    """One member of a campaign: what became of it there, how its dead letter stands now, and what happened to that last."""

    letter_id: int
    state: MemberState
    letter_state: LetterState
    last_actor: str | None
    last_event: str | None


class DeadLetterReader(Protocol):
    """Everything that is looked up about dead letters; blocking, for threads."""

    def close(self) -> None:
        """Let go of the database."""
        ...

    def letters(self, wanted: LetterFilter) -> Sequence[LetterRow]:
        """A page; go on with `after`, the cursor of its last row."""
        ...

    def letter(self, letter_id: int) -> LetterDetail | None:
        """One, with its history."""
        ...

    def letter_of(self, job_id: int) -> int | None:
        """The id of the dead letter of a job; a job has at most one."""
        ...

    def verification(self, letter_id: int) -> Verification:
        """What there is to be seen of a replay's success."""
        ...

    def groups(self, wanted: GroupFilter, *, now: float) -> Sequence[GroupRow]:
        """A page of groups."""
        ...

    def group(self, fingerprint: str, *, now: float) -> GroupRow | None:
        """One; `count` counts all of its members."""
        ...

    def fingerprints(self, prefix: str, *, limit: int) -> Sequence[str]:
        """Those that begin so, in order; each once."""
        ...

    def stats(self, *, now: float, window: float, pipeline: str | None = None) -> DeadLetterStats:
        """The figures; those on attempts are of all pipelines."""
        ...

    def campaigns(self, *, states: frozenset[CampaignState] = frozenset(), limit: int = 50) -> Sequence[CampaignRow]:
        """The newest first; in these states, if any are named."""
        ...

    def campaign(self, campaign_id: int) -> CampaignRow | None:
        """One."""
        ...

    def members(self, campaign_id: int, states: frozenset[MemberState], *, limit: int) -> Sequence[CampaignMember]:
        """The first members of a campaign of which this became, in their order."""
        ...

    def waiting(self, letter_ids: Sequence[int]) -> Mapping[int, int]:
        """Of these dead letters, those that wait for their turn in a campaign that is not over; in which."""
        ...

    def campaign_history(self, campaign_id: int) -> Sequence[CampaignEntry]:
        """Who steered it since it began, the oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersPruned:
    """What a pruning reduced to its summary, or would."""

    letters: int
    more: bool = False
    after: int = 0
    """Where to go on: the id of the last one that was looked at."""


class DeadLetterKeeper(Protocol):
    """Upkeep of dead letters; blocking, in small transactions."""

    def prune_letters(self, *, before: float, limit: int, dry: bool, after: int = 0) -> LettersPruned:
        """Of the next `limit` that are closed, reduce those that were closed before to a summary: texts and entries go."""
        ...
