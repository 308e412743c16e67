"""What a batch changes in the counts of groups and campaigns: collected while it is applied, written at its very end.

Many transactions want these rows. They are written once, in the order of their keys, and nothing else is waited for after
that: so nobody can be locked out by somebody who waits for them.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.words import Ask, Put
from reprieve.core.canary import MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.adapters.sql.words import Talk, Words

_HOUR: Final = 3600
_NO_WAVE: Final = -1
"""Where members that wait for their turn are counted."""


class Tally:
    """How many letters of which group have come into which state or left it, and how many died in which hour."""

    def __init__(self) -> None:
        self._letters: Counter[tuple[int, str]] = Counter()
        self._deaths: Counter[tuple[int, int]] = Counter()
        self._seen: dict[int, tuple[float, float]] = {}
        self._members: Counter[tuple[int, int, str]] = Counter()

    def came(self, group_id: int, state: str) -> None:
        """A letter is in this state now."""
        self._letters[group_id, state] += 1

    def went(self, group_id: int, state: str) -> None:
        """A letter is not in this state any more."""
        self._letters[group_id, state] -= 1

    def moved(self, group_ids: Iterable[int], before: str, after: str) -> None:
        """A letter of each of these has changed its state."""
        for group_id, count in Counter(group_ids).items():
            self._letters[group_id, before] -= count
            self._letters[group_id, after] += count

    def died(self, group_id: int, at: float) -> None:
        """A job of this group was given up."""
        self._deaths[int(at // _HOUR), group_id] += 1
        first, last = self._seen.get(group_id, (at, at))
        self._seen[group_id] = (min(at, first), max(at, last))

    def enlisted(self, campaign_id: int, count: int) -> None:
        """So many more wait for their turn in a campaign, or fewer."""
        self._members[campaign_id, _NO_WAVE, MemberState.WAITING] += count

    def joined(self, campaign_id: int, wave: int, state: str, count: int) -> None:
        """So many have had their turn in this wave."""
        self._members[campaign_id, wave, state] += count

    def left(self, campaign_id: int, waves: Iterable[int], before: str, after: str) -> None:
        """A member of each of these waves has changed its state."""
        for wave, count in Counter(waves).items():
            self._members[campaign_id, wave, before] -= count
            self._members[campaign_id, wave, after] += count

    def write(self, words: Words) -> Talk[None]:
        """Write it all; nothing may follow in the transaction."""
        if self._seen and words.locks:
            yield Ask(_locked(words), {"ids": words.listed(self._seen)})
        changes, members = sorted(self._letters.items()), sorted(self._members.items())
        for statement, rows in (
            (_seen(words), [(group_id, *times) for group_id, times in sorted(self._seen.items())]),
            # All of them, which takes every lock in its order; then those that have become fewer.
            (_more(words), [(*key, max(0, change)) for key, change in changes if change]),
            (_fewer(words), [(*key, -change) for key, change in changes if change < 0]),
            (_dated(words), [(*key, deaths) for key, deaths in sorted(self._deaths.items())]),
            (_more_members(words), [(*key, max(0, change)) for key, change in members if change]),
            (_fewer_members(words), [(*key, -change) for key, change in members if change < 0]),
        ):
            if rows:
                yield Put(statement, rows)


@cache
def _locked(words: Words) -> str:
    return f"SELECT id FROM dead_letter_groups WHERE id {words.among('ids')} ORDER BY id {words.lock('FOR UPDATE')}"  # noqa: S608 - constants


@cache
def _seen(words: Words) -> str:
    return f"""
    UPDATE dead_letter_groups
    SET first_seen = {words.least}(first_seen, given.first), last_seen = {words.greatest}(last_seen, given.last)
    FROM {words.each(group_id="bigint", first="moment", last="moment")} WHERE dead_letter_groups.id = given.group_id
    """  # noqa: S608 - assembled from constants


@cache
def _more(words: Words) -> str:
    return f"""
    INSERT INTO dead_letter_counts (group_id, state, letters)
    SELECT group_id, state, letters FROM {words.each(group_id="bigint", state="text", letters="integer")} WHERE true
    ON CONFLICT (group_id, state) DO UPDATE SET letters = dead_letter_counts.letters + excluded.letters
    """  # noqa: S608 - assembled from constants


@cache
def _fewer(words: Words) -> str:
    return f"""
    UPDATE dead_letter_counts SET letters = dead_letter_counts.letters - given.letters
    FROM {words.each(group_id="bigint", state="text", letters="integer")}
    WHERE dead_letter_counts.group_id = given.group_id AND dead_letter_counts.state = given.state
    """  # noqa: S608 - assembled from constants


@cache
def _dated(words: Words) -> str:
    return f"""
    INSERT INTO dead_letter_hours (hour, group_id, deaths)
    SELECT hour, group_id, deaths FROM {words.each(hour="bigint", group_id="bigint", deaths="integer")} WHERE true
    ON CONFLICT (hour, group_id) DO UPDATE SET deaths = dead_letter_hours.deaths + excluded.deaths
    """  # noqa: S608 - assembled from constants


@cache
def _more_members(words: Words) -> str:
    return f"""
    INSERT INTO campaign_counts (campaign_id, wave, state, members)
    SELECT campaign_id, wave, state, members
    FROM {words.each(campaign_id="bigint", wave="integer", state="text", members="integer")} WHERE true
    ON CONFLICT (campaign_id, wave, state) DO UPDATE SET members = campaign_counts.members + excluded.members
    """  # noqa: S608 - assembled from constants


@cache
def _fewer_members(words: Words) -> str:
    same = " AND ".join(f"campaign_counts.{name} = given.{name}" for name in ("campaign_id", "wave", "state"))
    return f"""
    UPDATE campaign_counts SET members = campaign_counts.members - given.members
    FROM {words.each(campaign_id="bigint", wave="integer", state="text", members="integer")} WHERE {same}
    """  # noqa: S608 - assembled from constants
