"""What became of the members of campaigns: collected, and written for all that share a state at once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reprieve.adapters.sql.words import Ask
from reprieve.core.canary import MemberState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.adapters.sql.dead_letters.tally import Tally
    from reprieve.adapters.sql.words import Talk, Words


class Members:
    """Members that change, by campaign and by what they become; whoever changes them holds their letters."""

    def __init__(self) -> None:
        self._letters: dict[tuple[int, MemberState], list[int]] = {}

    def add(self, campaign_id: int, letter_id: int, state: MemberState) -> None:
        """This one is now so."""
        self._letters.setdefault((campaign_id, state), []).append(letter_id)

    def write(self, words: Words, tally: Tally) -> Talk[None]:
        """Write down what became of those that were being replayed."""
        for (campaign_id, state), letters in self._letters.items():
            values = {"campaign": campaign_id, "ids": words.listed(letters), "state": state.value}
            waves = [row[0] for row in (yield Ask(_change(words), values))]
            tally.left(campaign_id, waves, MemberState.REPLAYING, state)


def take_turns(
    words: Words, tally: Tally, campaign_id: int, wave: int, turns: dict[MemberState, Sequence[int]]
) -> Talk[None]:
    """Write down that members have had their turn in this wave, by what they are now."""
    for state, letters in turns.items():
        if letters:
            values = {"campaign": campaign_id, "ids": words.listed(letters), "state": state.value, "wave": wave}
            yield Ask(_turn(words), values)
            tally.enlisted(campaign_id, -len(letters))
            tally.joined(campaign_id, wave, state, len(letters))


@cache
def _change(words: Words) -> str:
    return f"""
    UPDATE campaign_members SET state = {words.value("state")}
    WHERE campaign_id = {words.value("campaign", "bigint")} AND letter_id {words.among("ids")} AND state = 'replaying'
    RETURNING wave
    """  # noqa: S608 - assembled from constants


@cache
def _turn(words: Words) -> str:
    return f"""
    UPDATE campaign_members SET state = {words.value("state")}, wave = {words.value("wave", "integer")}
    WHERE campaign_id = {words.value("campaign", "bigint")} AND letter_id {words.among("ids")}
    """  # noqa: S608 - assembled from constants
