"""A page of a million dead letters: ranges of an index, merged here, whatever a planner thinks of the whole.

The order is that of (last_failure_at, id), the key. Without a word on kinds there is one range for each state. Filters on
kinds become ids of groups first; then each group and state that is not empty is a range of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, literal, or_, select, tuple_, union_all

from reprieve.adapters.sql.tables import Moment, dead_letter_counts, dead_letter_groups, dead_letter_texts, dead_letters
from reprieve.adapters.sql.views import LETTER
from reprieve.core.lifecycle import LetterState
from reprieve.errors import UsageError
from reprieve.ports.dead_letters import LetterFilter, LetterRow, Sort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Select, Subquery
    from sqlalchemy.engine import Connection

    from reprieve.ports.dead_letters import GroupFilter

    Key = tuple[float, int]

ROW: Final = tuple(LETTER[name] for name in LetterRow.__slots__)
FROM_ROWS: Final = dead_letters.join(dead_letter_groups, dead_letter_groups.c.id == dead_letters.c.group_id)
_KEY: Final = (dead_letters.c.last_failure_at, dead_letters.c.id)
_KINDS: Final = ("pipeline", "stage", "error_class", "category", "fingerprint")
_MANY: Final = 3_000
"""Ranges, from which on a look at the next rows of all kinds is worth its price."""
_LOOK: Final = 5_000
"""How many rows of all kinds such a look is worth."""
_FIRST_WINDOW: Final = 250
_WINDOW: Final = 4_000
"""Rows whose texts one statement searches, at first and at most."""
_LATEST: Final = 253_402_300_799.0
"""The last second that databases know."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which keys, both of them excluded, and from which end."""

    newest: bool
    low: Key | None
    high: Key | None

    @classmethod
    def of(cls, wanted: LetterFilter) -> Bounds:
        """What a filter says of time, and where its page begins; ids are above 0."""
        newest = wanted.sort is Sort.NEWEST
        low = None if wanted.since is None else (wanted.since, 0)
        high = None if wanted.before is None else (wanted.before, 0)
        bounds = cls(newest, low, high)
        return bounds if wanted.after is None else bounds.beyond(_cursor(wanted.after))

    def beyond(self, key: Key) -> Bounds:
        """Only what comes after this key in the order."""
        return self._below(key) if self.newest else self._above(key)

    def until(self, key: Key) -> Bounds:
        """Only what comes before this key in the order."""
        return self._above(key) if self.newest else self._below(key)

    def _above(self, key: Key) -> Bounds:
        return replace(self, low=key if self.low is None else max(self.low, key))

    def _below(self, key: Key) -> Bounds:
        return replace(self, high=key if self.high is None else min(self.high, key))

    def conditions(self) -> list[ColumnElement[bool]]:
        """As conditions that are a range of an index on the key."""
        key = tuple_(*_KEY)
        return [
            *([] if self.low is None else [key > _bound(self.low)]),
            *([] if self.high is None else [key < _bound(self.high)]),
        ]

    def ordered(self, *columns: ColumnElement[Any]) -> list[ColumnElement[Any]]:
        """The order, over these columns."""
        return [column.desc() if self.newest else column.asc() for column in columns]

    def merged(self, keys: Sequence[Key], more: Sequence[Key], limit: int) -> list[Key]:
        """The first of both."""
        return sorted([*keys, *more], reverse=self.newest)[:limit]


def read_page(connection: Connection, wanted: LetterFilter) -> Sequence[LetterRow]:
    """The page that is wanted."""
    bounds, kinds = Bounds.of(wanted), kinds_of(wanted)
    states = sorted(wanted.states or LetterState)
    if wanted.text:
        keys = _searched(connection, wanted, bounds, kinds, states)
    elif kinds:
        keys = _of_kinds(connection, wanted.limit, bounds, kinds, states)
    else:
        keys = _keys(connection, _window(bounds, states, wanted.limit), bounds)
    return rows_of(connection, keys)


def rows_of(connection: Connection, keys: Sequence[Key]) -> Sequence[LetterRow]:
    """The rows of these keys, in their order."""
    ids = [letter_id for _, letter_id in keys]
    found = connection.execute(select(*ROW).select_from(FROM_ROWS).where(dead_letters.c.id.in_(ids))) if ids else ()
    rows = {row.letter_id: letter_row(row) for row in found}
    return [rows[letter_id] for letter_id in ids]


def letter_row(row: Any) -> LetterRow:  # noqa: ANN401 - a row of ROW, or one that has more
    """A row of ROW as a value."""
    values = {name: getattr(row, name) for name in LetterRow.__slots__}
    return LetterRow(**values | {"state": LetterState(row.state)})


def kinds_of(wanted: LetterFilter | GroupFilter) -> list[ColumnElement[bool]]:
    """What a filter says of groups."""
    given = {name: getattr(wanted, name, None) for name in _KINDS}
    return [dead_letter_groups.c[name] == value for name, value in given.items() if value is not None]


def _of_kinds(
    connection: Connection, limit: int, bounds: Bounds, kinds: Sequence[ColumnElement[bool]], states: Sequence[str]
) -> Sequence[Key]:
    """The keys of a page of some kinds: all of one moment, as a page is read in one transaction."""
    ranges = connection.scalar(select(func.count()).select_from(_ranges(kinds, states).subquery()))
    if ranges is not None and ranges > _MANY:
        # Most kinds: some of the very next rows are likely to be of them.
        window = _window(bounds, states, _LOOK + limit)
        near = _keys(connection, window, bounds, window.c.group_id.in_(_groups(kinds)), limit=limit)
        if len(near) == limit:
            return near
    return _merged(connection, limit, bounds, kinds, states)


def _merged(
    connection: Connection, limit: int, bounds: Bounds, kinds: Sequence[ColumnElement[bool]], states: Sequence[str]
) -> Sequence[Key]:
    """The first keys of many ranges: only those are read that begin early enough."""
    found: list[Key] = []
    for group_id, state, head in connection.execute(_heads(limit, bounds, kinds, states)).all():
        if len(found) == limit:
            if (head < found[-1][0]) if bounds.newest else (head > found[-1][0]):
                break
            bounds = bounds.until(found[-1])
        of_range = select(*_KEY).where(dead_letters.c.group_id == group_id, dead_letters.c.state == state)
        some = of_range.where(*bounds.conditions()).order_by(*bounds.ordered(*_KEY)).limit(limit)
        found = bounds.merged(found, _read(connection, some), limit)
    return found


def _heads(limit: int, bounds: Bounds, kinds: Sequence[ColumnElement[bool]], states: Sequence[str]) -> Select[Any]:
    """The ranges that can have a row on this page, with the time of their first one; the earliest in the order first."""
    ranges = _ranges(kinds, states).subquery("ranges")
    of_range = and_(dead_letters.c.group_id == ranges.c.group_id, dead_letters.c.state == ranges.c.state)
    first = select(dead_letters.c.last_failure_at).where(of_range, *bounds.conditions())
    head = first.order_by(*bounds.ordered(*_KEY)).limit(1).scalar_subquery()
    heads = select(ranges.c.group_id, ranges.c.state, head.label("head")).cte("heads")
    # With those that begin at the same time as the last: the order among them is not known yet.
    ordered = bounds.ordered(heads.c.head)
    begun = select(heads.c.head).where(heads.c.head.is_not(None)).order_by(*ordered)
    last = begun.limit(1).offset(limit - 1).scalar_subquery()
    early = heads.c.head >= last if bounds.newest else heads.c.head <= last
    return select(heads).where(heads.c.head.is_not(None), or_(early, last.is_(None))).order_by(*ordered)


def _ranges(kinds: Sequence[ColumnElement[bool]], states: Sequence[str]) -> Select[Any]:
    """The groups and states that have letters."""
    counts = dead_letter_counts.c
    of_kinds = select(counts.group_id, counts.state, counts.letters).join_from(
        dead_letter_groups, dead_letter_counts, counts.group_id == dead_letter_groups.c.id
    )
    wanted = of_kinds.where(*kinds, counts.letters > 0)
    return wanted if len(states) == len(LetterState) else wanted.where(counts.state.in_(states))


def _groups(kinds: Sequence[ColumnElement[bool]]) -> Select[Any]:
    return select(dead_letter_groups.c.id).where(*kinds)


def _window(bounds: Bounds, states: Sequence[str], size: int) -> Subquery:
    """The next letters in these states, of whatever kind."""
    columns = (*_KEY, dead_letters.c.group_id)
    ranges = (
        select(*columns)
        .where(dead_letters.c.state == state, *bounds.conditions())
        .order_by(*bounds.ordered(*_KEY))
        .limit(size)
        .subquery()
        for state in states
    )
    every = union_all(*(select(each) for each in ranges))
    ordered = every.order_by(*bounds.ordered(every.selected_columns.last_failure_at, every.selected_columns.id))
    return ordered.limit(size).subquery("nearest")


def _keys(
    connection: Connection, window: Subquery, bounds: Bounds, *conditions: ColumnElement[bool], limit: int | None = None
) -> Sequence[Key]:
    """Those in the window that fit."""
    found = select(window.c.last_failure_at, window.c.id).where(*conditions)
    return _read(connection, found.order_by(*bounds.ordered(window.c.last_failure_at, window.c.id)).limit(limit))


def _searched(
    connection: Connection,
    wanted: LetterFilter,
    bounds: Bounds,
    kinds: Sequence[ColumnElement[bool]],
    states: Sequence[str],
) -> Sequence[Key]:
    """Search the texts of the letters in their order, some at a time, until the page is full or nothing is left."""
    search = _Search(wanted.text or "", folds=connection.dialect.name == "postgresql")
    if kinds:
        ranges = _ranges(kinds, states).subquery()
        if (connection.scalar(select(func.sum(ranges.c.letters))) or 0) <= _WINDOW:
            few = select(*_KEY).join_from(dead_letters, dead_letter_groups, FROM_ROWS.onclause)
            of_kinds = few.where(*kinds, dead_letters.c.state.in_(states), *bounds.conditions())
            return bounds.merged([], search.among(connection, of_kinds), wanted.limit)
    found: list[Key] = []
    size = _FIRST_WINDOW
    while True:
        window = _window(bounds, states, size)
        last = select(window.c.last_failure_at, window.c.id).order_by(
            *bounds.ordered(window.c.last_failure_at, window.c.id)
        )
        end = _read(connection, last.limit(1).offset(size - 1))
        fitting = select(window.c.last_failure_at, window.c.id)
        fitting = fitting.where(window.c.group_id.in_(_groups(kinds))) if kinds else fitting
        found = bounds.merged(found, search.among(connection, fitting), wanted.limit)
        if not end or len(found) == wanted.limit:
            return found
        bounds, size = bounds.beyond(end[0]), min(2 * size, _WINDOW)


class _Search:
    """A text that is looked for, whatever its case."""

    def __init__(self, text: str, *, folds: bool) -> None:
        self._text = text.casefold()
        # Databases agree on the case of ASCII alone: any character is taken for another one there, and judged here.
        pattern = "".join(_escaped(character) if character.isascii() else "_" for character in text)
        self._exact = text.isascii()
        said = dead_letter_texts.c
        self._columns = (said.message, said.last_stack, said.sanitized_context)
        self._fits = or_(
            *(
                column.ilike(f"%{pattern}%", escape="\\") if folds else column.like(f"%{pattern}%", escape="\\")
                for column in self._columns
            )
        )

    def among(self, connection: Connection, keys: Select[Any]) -> Sequence[Key]:
        """Those of these letters whose texts hold it."""
        letters = keys.cte("letters").prefix_with("MATERIALIZED", dialect="postgresql")
        held = select(letters.c.last_failure_at, letters.c.id).join(
            dead_letter_texts, dead_letter_texts.c.letter_id == letters.c.id
        )
        if self._exact:
            return _read(connection, held.where(self._fits))
        rows = connection.execute(held.add_columns(*self._columns).where(self._fits))
        return [
            (at, letter_id) for at, letter_id, *texts in rows if any(self._text in each.casefold() for each in texts)
        ]


def _escaped(character: str) -> str:
    return f"\\{character}" if character in "\\%_" else character


def _read(connection: Connection, keys: Select[Any]) -> Sequence[Key]:
    return [(at, letter_id) for at, letter_id in connection.execute(keys)]


def _bound(key: Key) -> Any:  # noqa: ANN401 - a tuple of SQLAlchemy's
    return tuple_(literal(key[0], Moment), literal(key[1], dead_letters.c.id.type))


def _cursor(text: str) -> Key:
    """The key that a cursor stands for."""
    at, _, letter_id = text.partition(":")
    try:
        key = (float(at), int(letter_id))
    except ValueError:
        key = (math.nan, 0)
    if not 0 <= key[0] <= _LATEST or not 0 <= key[1] < 2**63:
        raise UsageError(f"{text!r} is no place to go on at: give the cursor of the last row of a page, as it was told")
    return key
