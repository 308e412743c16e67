"""What is done about dead letters: remedied, replayed, settled; and campaigns that replay many.

Of a batch they are applied last: first all of `Bury`, then these in the order of saying. They end with writing the counts
of groups, whose rows many transactions want, and nobody may hold one of those while waiting for anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.canary import CampaignState
    from reprieve.core.lifecycle import LetterEvent, LetterState
    from reprieve.core.remedies import RootCause


@value
class Step:
    """One entry of a dead letter's history; sanitized."""

    event: LetterEvent
    note: str
    """Evidence, a reason, a resolution: what a person wrote."""
    cause: RootCause | None = None
    """With a triage: what the cause is."""
    detail: str = "{}"
    """More of it, as a JSON object."""


@value
class Remedy:
    """Take these steps, all or none for each dead letter, as its state allows."""

    letters: tuple[int, ...]
    """At most 1,000, each once."""
    steps: tuple[Step, ...]
    actor: str
    now: float


@value
class Revision:
    """A payload in place of the one that was wrong; the earlier ones are kept."""

    payload: bytes
    payload_type: str


@value
class Replay:
    """Take these steps, the last of which is REPLAY or OVERRIDE, and put the jobs back into the queue with a fresh budget.

    From the stage that failed, every finished stage kept; with `restart` from the first, with `stage` from that one,
    which must be the failed one or have finished: it and what came after lose their results and memos. A revision makes
    the stage that is run first forget its memos too.
    """

    letters: tuple[int, ...]
    steps: tuple[Step, ...]
    actor: str
    now: float
    restart: bool = False
    stage: str | None = None
    revision: Revision | None = None
    """For one dead letter alone."""
    insists: bool = False
    """Also where a later version of the subject came after it, which is not dead or cancelled; so does an OVERRIDE."""


@value
class Refused:
    """Why nothing was done about one dead letter."""

    letter_id: int
    state: LetterState | None
    """As it is; None: there is none."""
    why: str
    """For people."""


@value
class Remedied:
    """What was done."""

    applied: tuple[int, ...]
    refused: tuple[Refused, ...] = ()


@value
class Settle:
    """See which replayed jobs are over: succeeded -> `replayed`; cancelled or skipped -> `discarded`. Answered by how many.

    A job that is buried again is settled by that very burial.
    """

    now: float
    limit: int = 1000


@value
class Gather:
    """Begin a campaign, which is gathering; answered by its id, or None where another one over this group is not over."""

    actor: str
    now: float
    selection: str
    """Which dead letters, as a JSON object: for show."""
    fingerprint: str | None
    steps: tuple[Step, ...]
    """Taken for each member when it is replayed; the last is REPLAY or OVERRIDE."""
    waves: tuple[int, ...]
    rate: float | None = None
    """Replays a second, at most."""
    restart: bool = False
    stage: str | None = None


@value
class Enlist:
    """Add members to a campaign that is gathering, in this order; answered by how many were new."""

    campaign_id: int
    letters: tuple[int, ...]


@value
class Steer:
    """Change a campaign's state, if it is as it was seen, in one of these; answered by whether it was. Each leaves an entry."""

    campaign_id: int
    fence: int
    """How often it had been steered when it was seen; it moves on by one."""
    expects: tuple[CampaignState, ...]
    state: CampaignState
    actor: str
    reason: str
    now: float
    wave: int | None = None
    """Where the campaign goes on to another wave."""


@value
class Launch:
    """Replay the next members of a running campaign, if it is where the caller believes.

    Members that can no longer be replayed are left out, and so are those that were replayed or escalated since they were enlisted;
    the answer counts them too. Two who launch at once: one is answered None.
    """

    campaign_id: int
    wave: int
    launched: int
    """How many of this wave have been launched before."""
    count: int
    """At most 1,000."""
    now: float


@value
class Launched:
    """How many members had their turn; 0: nobody is left."""

    replayed: int
    left_out: int
