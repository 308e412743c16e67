"""Campaigns: their members written down once, then replayed wave by wave, whoever steps them and however many try."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reprieve.adapters.sql.dead_letters.members import take_turns
from reprieve.adapters.sql.dead_letters.remedying import look
from reprieve.adapters.sql.dead_letters.replaying import Order, put_back
from reprieve.adapters.sql.words import Ask, Put
from reprieve.core.canary import CampaignState, MemberState
from reprieve.core.lifecycle import LetterEvent, LetterState
from reprieve.core.remedies import RootCause
from reprieve.ports.intents import Launched, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reprieve.adapters.sql.dead_letters.hand import Hand
    from reprieve.adapters.sql.dead_letters.remedying import Letter
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.ports.intents import Enlist, Gather, Launch, Steer

_GATHERED: Final = {
    "state": "text", "selection": "text", "fingerprint": "text", "created_by": "text", "created_at": "moment",
    "changed_by": "text", "changed_at": "moment", "steps": "text", "waves": "text", "rate": "float8", "restart": "boolean",
    "stage": "text", "wave_at": "moment",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What has to be known of a campaign to step it."""

    state: str
    wave: int
    launched: int
    steps: str
    created_by: str
    restart: bool
    stage: str | None


def hold(words: Words, ids: Iterable[int]) -> Talk[None]:
    """Keep others from stepping these campaigns."""
    if words.locks:
        yield Ask(_locked(words), {"ids": words.listed(sorted(ids))})


class Enlisted(NamedTuple):
    """A member, and how its letter stood when it was written down."""

    letter_id: int
    replays: int
    state: str | None


def next_members(words: Words, wanted: Launch) -> Talk[list[Enlisted]]:
    """The letters whose turn it would be; only who holds the campaign can give it to them."""
    rows = yield Ask(_next(words), {"campaign": wanted.campaign_id, "count": wanted.count})
    return [Enlisted(*row) for row in rows]


def gather(hand: Hand, wanted: Gather) -> Talk[int | None]:
    """Begin a campaign; its id, or None where another one over this group is not over."""
    words = hand.words
    values: dict[str, Any] = {
        "state": CampaignState.GATHERING.value, "selection": wanted.selection, "fingerprint": wanted.fingerprint,
        "created_by": wanted.actor, "created_at": wanted.now, "changed_by": wanted.actor, "changed_at": wanted.now,
        "steps": _written(wanted.steps), "waves": json.dumps(wanted.waves), "rate": wanted.rate, "restart": wanted.restart,
        "stage": wanted.stage, "wave_at": wanted.now,
    }  # fmt: skip
    if hand.again:
        rows = yield Ask(_gathered(words), {name: values[name] for name in ("created_by", "created_at", "selection")})
        if rows:
            return int(rows[0][0])
    made = yield Ask(_gather(words), values)
    return int(made[0][0]) if made else None


def enlist(hand: Hand, wanted: Enlist) -> Talk[int]:
    """Write down members that are new, in their order."""
    words = hand.words
    campaign = yield from _campaign(words, wanted.campaign_id)
    if campaign is None or campaign.state != CampaignState.GATHERING:
        return 0
    ids = tuple(dict.fromkeys(wanted.letters))
    these = {"campaign": wanted.campaign_id, "ids": words.listed(ids)}
    there = {row[0] for row in (yield Ask(_members(words), these))}
    new = [letter_id for letter_id in ids if letter_id not in there]
    if new:
        ((last,),) = yield Ask(_last_place(words), {"campaign": wanted.campaign_id})
        yield Put(_enlist(words), [(wanted.campaign_id, each, last + at) for at, each in enumerate(new, 1)])
        hand.tally.enlisted(wanted.campaign_id, len(new))
        return len(new)
    if not hand.again:
        return 0
    # Whoever gathers does one after another: what an earlier try has added stands at the end.
    ((count,),) = yield Ask(_at_the_end(words), these)
    return int(count)


def steer(hand: Hand, wanted: Steer) -> Talk[bool]:
    """Change a campaign's state, or take it to its next wave; whether it was as it had been seen."""
    words = hand.words
    values = {
        "campaign": wanted.campaign_id, "fence": wanted.fence, "state": wanted.state.value, "actor": wanted.actor,
        "reason": wanted.reason, "now": wanted.now,
    }  # fmt: skip
    if hand.again and (yield Ask(_steered(words), values)):
        return True
    expects = {f"expected_{state.name.lower()}": state in wanted.expects for state in CampaignState}
    if not (yield Ask(_steer(words), {**values, **expects, "wave": wanted.wave})):
        return False
    yield Ask(_steered_so(words), {"campaign": wanted.campaign_id})
    return True


def launch(hand: Hand, wanted: Launch, members: Sequence[Enlisted] | None) -> Talk[Launched | None]:
    """Give these members their turn, if the campaign is where the caller believes; None: another launch gives it to them."""
    words = hand.words
    campaign = yield from _campaign(words, wanted.campaign_id)
    if campaign is None:
        return None
    if (campaign.wave, campaign.launched) != (wanted.wave, wanted.launched):
        return (yield from _launched_before(words, wanted, campaign)) if hand.again else None
    if campaign.state != CampaignState.RUNNING or members is None:
        return None
    if not members:
        return Launched(replayed=0, left_out=0)
    order = Order(
        steps=_read(campaign.steps), actor=campaign.created_by, now=wanted.now, restart=bool(campaign.restart),
        stage=campaign.stage, campaign_id=wanted.campaign_id,
    )  # fmt: skip
    found = yield from look(hand, [each.letter_id for each in members])
    fit = _unchanged(found, members)
    refused = yield from put_back(hand, fit, order, found)
    replayed = {letter_id for letter_id in fit if letter_id not in refused}
    turns: dict[MemberState, Sequence[int]] = {
        MemberState.REPLAYING: [each.letter_id for each in members if each.letter_id in replayed],
        MemberState.LEFT_OUT: [each.letter_id for each in members if each.letter_id not in replayed],
    }
    yield from take_turns(words, hand.tally, wanted.campaign_id, wanted.wave, turns)
    yield Ask(_count(words), {"campaign": wanted.campaign_id, "count": len(members)})
    return Launched(replayed=len(replayed), left_out=len(members) - len(replayed))


def _unchanged(found: Mapping[int, Letter], members: Sequence[Enlisted]) -> list[int]:
    """Those that nobody has replayed or handed to engineering since: what they fail with now may be something else."""
    escalated = LetterState.ESCALATED
    return [
        each.letter_id
        for each in members
        if (letter := found.get(each.letter_id)) is not None
        and letter.replays == each.replays
        and (letter.state is not escalated or each.state == escalated)
    ]


def _launched_before(words: Words, wanted: Launch, campaign: Campaign) -> Talk[Launched | None]:
    """What an earlier try, whose outcome was unknown, has launched; None: somebody else has."""
    values = {"campaign": wanted.campaign_id, "wave": wanted.wave, "now": wanted.now}
    ((replayed,),) = yield Ask(_replayed(words), values)
    if not replayed:
        return None
    turns = campaign.launched - wanted.launched if campaign.wave == wanted.wave else replayed
    return Launched(replayed=int(replayed), left_out=max(0, turns - int(replayed)))


def _campaign(words: Words, campaign_id: int) -> Talk[Campaign | None]:
    rows = yield Ask(_find(words), {"campaign": campaign_id})
    return Campaign(**dict(zip(Campaign.__slots__, rows[0], strict=True))) if rows else None


def _written(steps: Sequence[Step]) -> str:
    values = [{"event": step.event, "note": step.note, "cause": step.cause, "detail": step.detail} for step in steps]
    return json.dumps(values, ensure_ascii=False)


def _read(steps: str) -> tuple[Step, ...]:
    return tuple(
        Step(
            event=LetterEvent(step["event"]),
            note=step["note"],
            cause=None if step["cause"] is None else RootCause(step["cause"]),
            detail=step["detail"],
        )
        for step in json.loads(steps)
    )


# --- statements -------------------------------------------------------------------------------------------------------


@cache
def _locked(words: Words) -> str:
    return f"SELECT id FROM campaigns WHERE id {words.among('ids')} ORDER BY id {words.lock('FOR UPDATE')}"  # noqa: S608 - constants


@cache
def _find(words: Words) -> str:
    return f"SELECT {', '.join(Campaign.__slots__)} FROM campaigns WHERE id = {words.value('campaign', 'bigint')}"  # noqa: S608 - constants


@cache
def _next(words: Words) -> str:
    return f"""
    SELECT letter_id, replays, enlisted_as FROM campaign_members
    WHERE campaign_id = {words.value("campaign", "bigint")} AND state = 'waiting'
    ORDER BY place LIMIT {words.value("count", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _gather(words: Words) -> str:
    values = ", ".join(words.value(name, kind) for name, kind in _GATHERED.items())
    return f"INSERT INTO campaigns ({', '.join(_GATHERED)}) VALUES ({values}) ON CONFLICT DO NOTHING RETURNING id"  # noqa: S608 - constants


@cache
def _gathered(words: Words) -> str:
    return f"""
    SELECT id FROM campaigns WHERE created_by = {words.value("created_by")}
      AND created_at = {words.value("created_at", "moment")} AND selection = {words.value("selection")}
    """  # noqa: S608 - assembled from constants


@cache
def _members(words: Words) -> str:
    return f"""
    SELECT letter_id FROM campaign_members
    WHERE campaign_id = {words.value("campaign", "bigint")} AND letter_id {words.among("ids")}
    """  # noqa: S608 - assembled from constants


# While it is gathering, all of them wait: the last one stands at the end of their index.
@cache
def _last_place(words: Words) -> str:
    return f"""
    SELECT COALESCE((
      SELECT place FROM campaign_members
      WHERE campaign_id = {words.value("campaign", "bigint")} AND state = 'waiting' ORDER BY place DESC LIMIT 1), 0)
    """  # noqa: S608 - assembled from constants


@cache
def _enlist(words: Words) -> str:
    given = words.each(campaign_id="bigint", letter_id="bigint", place="integer")
    return f"""
    INSERT INTO campaign_members (campaign_id, letter_id, place, replays, enlisted_as)
    SELECT given.campaign_id, given.letter_id, given.place, COALESCE(letter.replays, 0), letter.state
    FROM {given} LEFT JOIN dead_letters letter ON letter.id = given.letter_id
    """  # noqa: S608 - assembled from constants


@cache
def _at_the_end(words: Words) -> str:
    campaign = words.value("campaign", "bigint")
    return f"""
    SELECT count(*) FROM campaign_members WHERE campaign_id = {campaign} AND place > (
      SELECT COALESCE(max(place), 0) FROM campaign_members WHERE campaign_id = {campaign} AND NOT letter_id {words.among("ids")})
    """  # noqa: S608 - assembled from constants


# Only what is still as it was seen is changed: a word that comes late, or again, undoes nobody's.
@cache
def _steer(words: Words) -> str:
    wave, state, now = words.value("wave", "integer"), words.value("state"), words.value("now", "moment")
    expected = " OR ".join(
        f"(state = '{each.value}' AND {words.value(f'expected_{each.name.lower()}', 'boolean')})"
        for each in CampaignState
    )
    return f"""
    UPDATE campaigns SET state = {state}, changed_by = {words.value("actor")}, changed_at = {now}, reason = {words.value("reason")},
      launched = CASE WHEN {wave} IS NULL THEN launched ELSE 0 END, wave_at = CASE WHEN {wave} IS NULL THEN wave_at ELSE {now} END,
      wave = COALESCE({wave}, wave), fence = fence + 1
    WHERE id = {words.value("campaign", "bigint")} AND fence = {words.value("fence", "integer")} AND ({expected})
      AND ({wave} IS NULL OR wave < {wave})
    RETURNING id
    """  # noqa: S608 - assembled from constants


@cache
def _steered_so(words: Words) -> str:
    return f"""
    INSERT INTO campaign_history (campaign_id, fence, at, actor, state, wave, reason)
    SELECT id, fence, changed_at, changed_by, state, wave, reason FROM campaigns WHERE id = {words.value("campaign", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _steered(words: Words) -> str:
    return f"""
    SELECT 1 FROM campaign_history
    WHERE campaign_id = {words.value("campaign", "bigint")} AND fence = {words.value("fence", "integer")} + 1
      AND state = {words.value("state")} AND actor = {words.value("actor")} AND at = {words.value("now", "moment")}
      AND reason = {words.value("reason")}
    """  # noqa: S608 - assembled from constants


@cache
def _count(words: Words) -> str:
    return f"""
    UPDATE campaigns SET launched = launched + {words.value("count", "integer")} WHERE id = {words.value("campaign", "bigint")}
    """  # noqa: S608 - assembled from constants


@cache
def _replayed(words: Words) -> str:
    return f"""
    SELECT count(DISTINCT member.letter_id) FROM campaign_members member
    JOIN dead_letter_history entry ON entry.letter_id = member.letter_id
    WHERE member.campaign_id = {words.value("campaign", "bigint")} AND member.wave = {words.value("wave", "integer")}
      AND entry.event IN ('replay', 'override') AND entry.at = {words.value("now", "moment")}
    """  # noqa: S608 - assembled from constants
