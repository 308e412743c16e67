"""Which dead letters: by their ids, by their jobs, by their group, by a filter; whole selections in chunks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from reprieve.core.backoff import shown
from reprieve.errors import UnknownNameError, UsageError
from reprieve.ports.dead_letters import GroupFilter, LetterFilter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reprieve.core.lifecycle import LetterState
    from reprieve.ports.dead_letters import DeadLetterReader, LetterRow

Which = int | str | Sequence[int | str] | LetterFilter
"""A dead letter by its id, or `job:ID` for the one of a job; several; or all that a filter finds."""

AT_ONCE: Final = 1000
"""Dead letters in one intent, and in one page."""
_HIGHEST_ID: Final = 2**63 - 1
_REFERENCE: Final = re.compile(r"(job:)?([0-9]{1,30})")
_CURSOR: Final = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?:\d+")
_ALL: Final = LetterFilter()
_GROUPS: Final = 10_000
"""In one page, where they are only counted."""
_SHARED: Final = ("states", "pipeline", "stage", "error_class", "category")
"""What dead letters and groups of them can both be filtered by."""
_VERSION: Final = "v1:"
"""With which every fingerprint begins."""
_NAMED: Final = 5
"""Groups that are named where a prefix fits several."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Finds dead letters."""

    letters: DeadLetterReader

    async def one(self, letter: int | str) -> int:
        """The id of a dead letter that is given by its id or as `job:ID`; whether there is one is not looked at."""
        named = None if isinstance(letter, bool) else _REFERENCE.fullmatch(str(letter))
        if named is None:
            raise UsageError(f"a dead letter is known by its id, or as job:ID by its job's, not by {shown(letter)}")
        number = int(named[2])
        if not 0 < number <= _HIGHEST_ID:
            raise UnknownNameError("dead letter", str(letter))
        if not named[1]:
            return number
        found = await asyncio.to_thread(self.letters.letter_of, number)
        if found is None:
            raise UnknownNameError("dead letter", str(letter))
        return found

    async def fingerprint(self, prefix: str) -> str:
        """The fingerprint that begins so; its version may be left out."""
        wanted = prefix if ":" in prefix or _VERSION.startswith(prefix) else f"{_VERSION}{prefix}"
        found = await asyncio.to_thread(self.letters.fingerprints, wanted, limit=_NAMED + 1) if prefix else ()
        if wanted in found or len(found) == 1:
            return wanted if wanted in found else found[0]
        if not found:
            raise UnknownNameError("group of dead letters", prefix)
        more = ", ..." if len(found) > _NAMED else ""
        raise UsageError(f"more than one group begins with {prefix!r}: {', '.join(found[:_NAMED])}{more}")

    async def whole(self, wanted: LetterFilter) -> LetterFilter:
        """The filter with its fingerprint in full; what cannot be is refused."""
        if wanted.limit < 1:
            raise UsageError(f"limit must be at least 1, not {wanted.limit}")
        if wanted.after is not None and not _CURSOR.fullmatch(wanted.after):
            raise UsageError(f"{wanted.after!r} is no cursor: take the one that a page ends with")
        if wanted.fingerprint is None:
            return wanted
        return replace(wanted, fingerprint=await self.fingerprint(wanted.fingerprint))

    async def pages(self, wanted: LetterFilter) -> AsyncIterator[Sequence[LetterRow]]:
        """All that there are now, the newest first unless the filter says otherwise.

        Newest first, those that die meanwhile stand before the page that is being read, so that nobody comes in later.
        """
        wanted = replace(wanted, limit=AT_ONCE)
        while rows := await asyncio.to_thread(self.letters.letters, wanted):
            yield rows
            if len(rows) < AT_ONCE:
                return
            wanted = replace(wanted, after=rows[-1].cursor)

    async def chunks(self, which: Which, states: frozenset[LetterState]) -> AsyncIterator[tuple[int, ...]]:
        """The ids of a selection, at most 1,000 at a time; `states` are those of a filter that names none."""
        if isinstance(which, LetterFilter):
            async for rows in self.pages(await self._selection(which, states)):
                yield tuple(row.letter_id for row in rows)
            return
        given = [which] if isinstance(which, int | str) else which
        if not given:
            raise UsageError("say which dead letters: their ids, job:ID, or a filter")
        ids = list(dict.fromkeys([await self.one(each) for each in given]))
        for start in range(0, len(ids), AT_ONCE):
            yield tuple(ids[start : start + AT_ONCE])

    async def count(self, which: Which, states: frozenset[LetterState]) -> int:
        """How many a selection is now; from the counts of groups where these tell, as nobody looks through a million for it."""
        if not isinstance(which, LetterFilter):
            return sum([len(ids) async for ids in self.chunks(which, states)])
        wanted = await self._selection(which, states)
        if wanted == LetterFilter(states=wanted.states, fingerprint=wanted.fingerprint) and wanted.fingerprint:
            group = await asyncio.to_thread(self.letters.group, wanted.fingerprint, now=0.0)
            return 0 if group is None else sum(group.by_state.get(state, 0) for state in wanted.states)
        kinds = GroupFilter(
            states=wanted.states, pipeline=wanted.pipeline, stage=wanted.stage, error_class=wanted.error_class,
            category=wanted.category, limit=_GROUPS,
        )  # fmt: skip
        if wanted != LetterFilter(**{each: getattr(kinds, each) for each in _SHARED}):
            return sum([len(rows) async for rows in self.pages(wanted)])
        found = 0
        while groups := await asyncio.to_thread(self.letters.groups, kinds, now=0.0):
            found += sum(group.count for group in groups)
            if len(groups) < _GROUPS:
                break
            kinds = replace(kinds, offset=kinds.offset + _GROUPS)
        return found

    async def _selection(self, which: LetterFilter, states: frozenset[LetterState]) -> LetterFilter:
        plain = replace(which, after=None, limit=_ALL.limit, sort=_ALL.sort)
        return await self.whole(replace(plain, states=plain.states or states))
