"""Which dead letters belong to which campaign, and what became of single ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select, text

from reprieve.adapters.sql.tables import campaign_members, campaigns, dead_letter_history, dead_letters
from reprieve.core.canary import OVER, MemberState
from reprieve.core.lifecycle import LetterState
from reprieve.ports.dead_letters import CampaignMember

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

_NOTABLE: Final = frozenset({MemberState.RETURNED, MemberState.FAILED, MemberState.LEFT_OUT})
_INDEXED: Final = text("campaign_members.state IN ('returned', 'failed', 'left_out')")
"""The same in the words of their index: only so it is used."""


def read_waiting(connection: Connection, letter_ids: Collection[int]) -> Mapping[int, int]:
    """By dead letter: the campaign that is not over and in which it has not had its turn."""
    open_ones = list(connection.scalars(select(campaigns.c.id).where(campaigns.c.state.not_in(sorted(OVER)))))
    if not open_ones:
        return {}
    member = campaign_members.c
    found = select(member.letter_id, member.campaign_id).where(
        member.campaign_id.in_(open_ones), member.letter_id.in_(list(letter_ids)), member.state == MemberState.WAITING
    )
    return {row.letter_id: row.campaign_id for row in connection.execute(found)}


def read_members(
    connection: Connection, campaign_id: int, states: Collection[MemberState], *, limit: int
) -> Sequence[CampaignMember]:
    """The first members of a campaign that are so, in their order, with what happened to each last."""
    member, entry = campaign_members.c, dead_letter_history.c
    every = dead_letter_history.alias().c
    of_member = select(func.max(every.id)).where(every.letter_id == member.letter_id)
    last = of_member.correlate(campaign_members).scalar_subquery()
    whole = campaign_members.join(dead_letters, dead_letters.c.id == member.letter_id).outerjoin(
        dead_letter_history, entry.id == last
    )
    found = (
        select(member.letter_id, member.state, dead_letters.c.state.label("letter_state"), entry.actor, entry.event)
        .select_from(whole)
        .where(member.campaign_id == campaign_id, member.state.in_(sorted(states)))
        .order_by(member.place)
        .limit(limit)
    )
    if _NOTABLE.issuperset(states):
        found = found.where(_INDEXED)
    return [
        CampaignMember(
            letter_id=row.letter_id, state=MemberState(row.state), letter_state=LetterState(row.letter_state),
            last_actor=row.actor, last_event=row.event,
        )
        for row in connection.execute(found)
    ]  # fmt: skip
