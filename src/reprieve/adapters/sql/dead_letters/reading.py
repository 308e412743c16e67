"""Look-ups on dead letters, the same for both dialects; each is of one moment."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from reprieve.adapters.sql import views
from reprieve.adapters.sql.dead_letters.figures import read_stats
from reprieve.adapters.sql.dead_letters.groups import read_fingerprints, read_group, read_groups
from reprieve.adapters.sql.dead_letters.membership import read_members, read_waiting
from reprieve.adapters.sql.dead_letters.pages import ROW, letter_row, read_page
from reprieve.adapters.sql.deliveries.reading import read_unserved
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import (
    campaign_counts,
    campaign_history,
    campaigns,
    dead_letter_history,
    dead_letters,
    jobs,
)
from reprieve.core.canary import CampaignState, MemberState
from reprieve.core.lifecycle import LetterState
from reprieve.ports.dead_letters import CampaignEntry, CampaignRow, HistoryEntry, LetterDetail, Verification

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Select
    from sqlalchemy.engine import Connection

    from reprieve.ports.dead_letters import (
        CampaignMember,
        DeadLetterStats,
        GroupFilter,
        GroupRow,
        LetterFilter,
        LetterRow,
    )
    from reprieve.ports.reader import JobView


class SqlDeadLetterReader:
    """`ports.dead_letters.DeadLetterReader` on SQLite and PostgreSQL; safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self._database = Database.at(url, writes=False)
        if self._database.engine.dialect.name == "postgresql":
            # SQLite sees one moment in a transaction anyway.
            engine = self._database.engine.execution_options(isolation_level="REPEATABLE READ")
            self._database = replace(self._database, engine=engine)

    def close(self) -> None:
        """Let go of the connections; may be called twice."""
        self._database.close()

    def letters(self, wanted: LetterFilter) -> Sequence[LetterRow]:
        """A page; go on with `after`, the cursor of its last row."""
        with self._database.transaction() as connection:
            return read_page(connection, wanted)

    def letter(self, letter_id: int) -> LetterDetail | None:
        """One, with its history."""
        texts = [views.LETTER[name] for name in ("message", "last_stack", "sanitized_context", "reason", "policy")]
        whole = select(*ROW, *texts, dead_letters.c.summary).select_from(views.FROM_LETTERS)
        with self._database.transaction() as connection:
            found = connection.execute(whole.where(dead_letters.c.id == letter_id)).one_or_none()
            if found is None:
                return None
            job = _job(connection, found.job_id)
            return LetterDetail(
                row=letter_row(found),
                message=found.message,
                last_stack=found.last_stack,
                sanitized_context=found.sanitized_context,
                reason=found.reason,
                policy=found.policy,
                history=_history(connection, letter_id),
                summary=found.summary,
                job_status=None if job is None else job.status,
                job_ended_by=None if job is None else job.ended_by,
                job_reason=None if job is None else job.reason,
                finished_stages=[row.stage for row in connection.execute(views.acknowledged(found.job_id))],
                payload_kept=job is not None and job.payload_size is not None,
            )

    def letter_of(self, job_id: int) -> int | None:
        """The id of the dead letter of a job; a job has at most one."""
        with self._database.transaction() as connection:
            return connection.scalar(select(dead_letters.c.id).where(dead_letters.c.job_id == job_id))

    def verification(self, letter_id: int) -> Verification:
        """What there is to be seen of a replay's success."""
        with self._database.transaction() as connection:
            job_id = connection.scalar(select(dead_letters.c.job_id).where(dead_letters.c.id == letter_id))
            job = None if job_id is None else _job(connection, job_id)
            unserved = {} if job_id is None else read_unserved(connection, job_id)
            return Verification(job_status=None if job is None else job.status, undelivered=sum(unserved.values()))

    def groups(self, wanted: GroupFilter, *, now: float) -> Sequence[GroupRow]:
        """A page of groups; all that a row tells is of the pipeline, stage, class and category that were asked for."""
        with self._database.transaction() as connection:
            return read_groups(connection, wanted, now=now)

    def group(self, fingerprint: str, *, now: float) -> GroupRow | None:
        """One; `count` counts all of its members."""
        with self._database.transaction() as connection:
            return read_group(connection, fingerprint, now=now)

    def fingerprints(self, prefix: str, *, limit: int) -> Sequence[str]:
        """Those that begin so, in order; each once."""
        with self._database.transaction() as connection:
            return read_fingerprints(connection, prefix, limit=limit)

    def stats(self, *, now: float, window: float, pipeline: str | None = None) -> DeadLetterStats:
        """The figures; those on attempts are of all pipelines."""
        with self._database.transaction() as connection:
            return read_stats(connection, now=now, window=window, pipeline=pipeline)

    def campaigns(self, *, states: frozenset[CampaignState] = frozenset(), limit: int = 50) -> Sequence[CampaignRow]:
        """The newest first; in these states, if any are named."""
        newest = select(campaigns).order_by(campaigns.c.id.desc()).limit(limit)
        return self._campaigns(newest.where(campaigns.c.state.in_(sorted(states))) if states else newest)

    def campaign(self, campaign_id: int) -> CampaignRow | None:
        """One."""
        found = self._campaigns(select(campaigns).where(campaigns.c.id == campaign_id))
        return found[0] if found else None

    def members(self, campaign_id: int, states: frozenset[MemberState], *, limit: int) -> Sequence[CampaignMember]:
        """The first members of a campaign of which this became, in their order."""
        with self._database.transaction() as connection:
            return read_members(connection, campaign_id, states, limit=limit)

    def waiting(self, letter_ids: Sequence[int]) -> Mapping[int, int]:
        """Of these dead letters, those that wait for their turn in a campaign that is not over; in which."""
        with self._database.transaction() as connection:
            return read_waiting(connection, letter_ids)

    def campaign_history(self, campaign_id: int) -> Sequence[CampaignEntry]:
        """Who steered it since it began, the oldest first."""
        of_campaign = select(campaign_history).where(campaign_history.c.campaign_id == campaign_id)
        with self._database.transaction() as connection:
            return [
                CampaignEntry(
                    at=row.at, actor=row.actor, state=CampaignState(row.state), wave=row.wave, reason=row.reason
                )
                for row in connection.execute(of_campaign.order_by(campaign_history.c.fence))
            ]

    def _campaigns(self, wanted: Select[Any]) -> Sequence[CampaignRow]:
        with self._database.transaction() as connection:
            rows = connection.execute(wanted).all()
            members = _members(connection, [row.id for row in rows])
            return [_campaign(row, members[row.id]) for row in rows]


def _job(connection: Connection, job_id: int) -> JobView | None:
    of_job: Select[Any] = select(*views.JOB).select_from(views.FROM_JOBS).where(jobs.c.id == job_id)
    found = connection.execute(of_job).one_or_none()
    return None if found is None else views.job_view(found)


def _history(connection: Connection, letter_id: int) -> Sequence[HistoryEntry]:
    of_letter = select(dead_letter_history).where(dead_letter_history.c.letter_id == letter_id)
    return [
        HistoryEntry(
            at=row.at,
            actor=row.actor,
            event=row.event,
            before=LetterState(row.before),
            after=LetterState(row.after),
            note=row.note,
            detail=row.detail,
        )
        for row in connection.execute(of_letter.order_by(dead_letter_history.c.id))
    ]


def _members(connection: Connection, ids: Sequence[int]) -> Mapping[int, Mapping[tuple[int, str], int]]:
    """By campaign: how many members of which wave are in which state."""
    found: defaultdict[int, dict[tuple[int, str], int]] = defaultdict(dict)
    for row in connection.execute(select(campaign_counts).where(campaign_counts.c.campaign_id.in_(ids))):
        found[row.campaign_id][row.wave, row.state] = row.members
    return found


def _campaign(row: Any, members: Mapping[tuple[int, str], int]) -> CampaignRow:  # noqa: ANN401 - a row of the table
    return CampaignRow(
        campaign_id=row.id,
        state=CampaignState(row.state),
        selection=row.selection,
        fingerprint=row.fingerprint,
        created_by=row.created_by,
        created_at=row.created_at,
        changed_at=row.changed_at,
        changed_by=row.changed_by,
        reason=row.reason,
        waves=tuple(json.loads(row.waves)),
        wave=row.wave,
        launched=row.launched,
        wave_at=row.wave_at,
        rate=row.rate,
        fence=row.fence,
        members={each: _sum(members, each) for each in MemberState},
        in_wave={each: members.get((row.wave, each), 0) for each in MemberState},
    )


def _sum(members: Mapping[tuple[int, str], int], state: MemberState) -> int:
    return sum(count for (_, each), count in members.items() if each == state)
