"""What became of the members of campaigns: collected, and written for all that share a state at once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reprieve.adapters.sql.words import Ask

if TYPE_CHECKING:
    from reprieve.adapters.sql.words import Talk, Words
    from reprieve.core.canary import MemberState


class Members:
    """Members that change, by campaign and by what they become; whoever changes them holds their letters."""

    def __init__(self) -> None:
        self._letters: dict[tuple[int, MemberState], list[int]] = {}

    def add(self, campaign_id: int, letter_id: int, state: MemberState) -> None:
        """This one is now so."""
        self._letters.setdefault((campaign_id, state), []).append(letter_id)

    def write(self, words: Words, *, wave: int | None = None) -> Talk[None]:
        """Write them down; in this wave, where they have just had their turn."""
        for (campaign_id, state), letters in self._letters.items():
            values = {"campaign": campaign_id, "ids": words.listed(letters), "state": state.value, "wave": wave}
            yield Ask(_change(words), values)


@cache
def _change(words: Words) -> str:
    return f"""
    UPDATE campaign_members SET state = {words.value("state")}, wave = COALESCE({words.value("wave", "integer")}, wave)
    WHERE campaign_id = {words.value("campaign", "bigint")} AND letter_id {words.among("ids")}
    """  # noqa: S608 - assembled from constants
