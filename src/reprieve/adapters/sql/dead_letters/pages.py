"""A page of a million dead letters: ranges of an index, merged here, whatever a planner thinks of the whole.

The order is that of (last_failure_at, id), the key. Without a word on kinds there is one range for each state. Filters on
kinds become ids of groups first; then each group and state that is not empty is a range of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, literal, select, tuple_, union_all

from reprieve.adapters.sql.dead_letters.searching import Search
from reprieve.adapters.sql.tables import Moment, dead_letter_counts, dead_letter_groups, dead_letters
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

_STORED: Final = tuple(name for name in LetterRow.__slots__ if name != "waits_in")
"""The others are looked up for those that are shown."""
ROW: Final = tuple(LETTER[name] for name in _STORED)
FROM_ROWS: Final = dead_letters.join(dead_letter_groups, dead_letter_groups.c.id == dead_letters.c.group_id)
_KEY: Final = (dead_letters.c.last_failure_at, dead_letters.c.id)
_KINDS: Final = ("pipeline", "stage", "error_class", "category", "fingerprint")
_MANY: Final = 2_000
"""Ranges, from which on a look at the next rows of all kinds is worth its price."""
_LOOK: Final = 20
"""At how many rows of all kinds, for each that is wanted."""
_FIRST_WINDOW: Final = 250
_WINDOW: Final = 4_000
"""Rows whose texts one statement searches, at first and at most."""
_LATEST: Final = 253_402_300_799.0
"""The last second that databases know; the first is 0."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which keys, both of them excluded, and from which end."""

    newest: bool
    low: Key | None
    high: Key | None

    @classmethod
    def of(cls, wanted: LetterFilter) -> Bounds:
        """What a filter says of time, and where its page begins; ids are above 0."""
        low = None if wanted.since is None else (wanted.since, 0)
        high = None if wanted.before is None else (wanted.before, 0)
        bounds = cls(wanted.sort is Sort.NEWEST, low, high)
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

    def first(self, keys: Sequence[Key], limit: int) -> list[Key]:
        """The first of these."""
        return sorted(keys, reverse=self.newest)[:limit]


def read_page(connection: Connection, wanted: LetterFilter) -> Sequence[LetterRow]:
    """The page that is wanted; all of one moment if the transaction is."""
    bounds, kinds = Bounds.of(wanted), kinds_of(wanted)
    letters = _Letters(connection, kinds, [state.value for state in sorted(wanted.states or LetterState)])
    if wanted.text:
        keys = letters.holding(wanted.text, bounds, wanted.limit)
    elif kinds:
        keys = letters.of_kinds(bounds, wanted.limit)
    else:
        keys = letters.near(bounds, wanted.limit)
    return _rows(connection, keys)


def letter_row(row: Any) -> LetterRow:  # noqa: ANN401 - a row of ROW, or one that has more
    """A row of ROW as a value."""
    values = {name: getattr(row, name) for name in _STORED}
    return LetterRow(**values | {"state": LetterState(row.state)})


def kinds_of(wanted: LetterFilter | GroupFilter) -> list[ColumnElement[bool]]:
    """What a filter says of groups."""
    given = {name: getattr(wanted, name, None) for name in _KINDS}
    return [dead_letter_groups.c[name] == value for name, value in given.items() if value is not None]


@dataclass(frozen=True, slots=True)
class _Letters:
    """Those of some kinds, or of all where nothing is said of kinds, in some states."""

    connection: Connection
    kinds: Sequence[ColumnElement[bool]]
    states: Sequence[str]

    def near(self, bounds: Bounds, limit: int, *, within: int | None = None) -> Sequence[Key]:
        """The first keys; not beyond so many rows of all kinds."""
        window = self._window(bounds, within or limit)
        return self._read(_in_order(self._of_window(window), bounds).limit(limit))

    def of_kinds(self, bounds: Bounds, limit: int) -> Sequence[Key]:
        """The first keys, by group and state."""
        ranges = self.connection.scalar(select(func.count()).select_from(self._ranges().subquery()))
        if ranges is not None and ranges > _MANY:
            # Many kinds: the very next rows are likely to be of them.
            near = self.near(bounds, limit, within=_LOOK * limit)
            if len(near) == limit:
                return near
        found: Sequence[Key] = []
        for group_id, state, head in self.connection.execute(self._heads(bounds, limit)).all():
            if len(found) == limit:
                if (head < found[-1][0]) if bounds.newest else (head > found[-1][0]):
                    break
                bounds = bounds.until(found[-1])
            of_range = select(*_KEY).where(dead_letters.c.group_id == group_id, dead_letters.c.state == state)
            some = of_range.where(*bounds.conditions()).order_by(*bounds.ordered(*_KEY)).limit(limit)
            found = bounds.first([*found, *self._read(some)], limit)
        return found

    def holding(self, text: str, bounds: Bounds, limit: int) -> Sequence[Key]:
        """The first keys whose texts hold this one: some rows at a time, until these are found or nothing is left."""
        search = Search(text, self.connection)
        if self.kinds:
            ranges = self._ranges().subquery()
            if (self.connection.scalar(select(func.sum(ranges.c.letters))) or 0) <= _WINDOW:
                few = select(*_KEY).where(
                    dead_letters.c.group_id.in_(self._groups()), dead_letters.c.state.in_(self.states)
                )
                return bounds.first(search.among(few.where(*bounds.conditions())), limit)
        found: Sequence[Key] = []
        size = _FIRST_WINDOW
        while True:
            window = self._window(bounds, size)
            last = self._read(_in_order(_keys(window), bounds).limit(1).offset(size - 1))
            found = bounds.first([*found, *search.among(self._of_window(window))], limit)
            if not last or len(found) == limit:
                return found
            bounds, size = bounds.beyond(last[0]), min(2 * size, _WINDOW)

    def _window(self, bounds: Bounds, size: int) -> Subquery:
        """The next letters in these states, of whatever kind."""
        ranges: list[Select[Any]] = [
            select(*_KEY, dead_letters.c.group_id).where(dead_letters.c.state == state, *bounds.conditions())
            for state in self.states
        ]
        if self.connection.dialect.name == "postgresql":
            # Else it sorts all of them. SQLite merges them as they come, unless it is told the same.
            ordered = (each.order_by(*bounds.ordered(*_KEY)).limit(size) for each in ranges)
            ranges = [select(each.subquery()) for each in ordered]
        every = union_all(*ranges)
        key = (every.selected_columns.last_failure_at, every.selected_columns.id)
        return every.order_by(*bounds.ordered(*key)).limit(size).subquery("nearest")

    def _of_window(self, window: Subquery) -> Select[Any]:
        return _keys(window).where(window.c.group_id.in_(self._groups())) if self.kinds else _keys(window)

    def _groups(self) -> Select[Any]:
        return select(dead_letter_groups.c.id).where(*self.kinds)

    def _ranges(self) -> Select[Any]:
        """The groups and states that have letters."""
        counts = dead_letter_counts.c
        found = select(counts.group_id, counts.state, counts.letters).join_from(
            dead_letter_groups, dead_letter_counts, counts.group_id == dead_letter_groups.c.id
        )
        return found.where(*self.kinds, counts.letters > 0, counts.state.in_(self.states))

    def _heads(self, bounds: Bounds, limit: int) -> Select[Any]:
        """The ranges that can have a row among the first, with the time of their own first one; in the order of that."""
        ranges = self._ranges().subquery("ranges")
        of_range = and_(dead_letters.c.group_id == ranges.c.group_id, dead_letters.c.state == ranges.c.state)
        first = select(dead_letters.c.last_failure_at).where(of_range, *bounds.conditions())
        head = first.order_by(*bounds.ordered(*_KEY)).limit(1).scalar_subquery()
        heads = select(ranges.c.group_id, ranges.c.state, head.label("head")).cte("heads")
        begun = select(heads.c.head).where(heads.c.head.is_not(None)).order_by(*bounds.ordered(heads.c.head))
        last = begun.limit(1).offset(limit - 1).scalar_subquery()
        # With those that begin when the last one does: the order among them is not known yet.
        if bounds.newest:
            early = heads.c.head >= func.coalesce(last, literal(0.0, Moment))
        else:
            early = heads.c.head <= func.coalesce(last, literal(_LATEST, Moment))
        return select(heads).where(early).order_by(*bounds.ordered(heads.c.head))

    def _read(self, keys: Select[Any]) -> Sequence[Key]:
        return [(at, letter_id) for at, letter_id in self.connection.execute(keys)]


def _rows(connection: Connection, keys: Sequence[Key]) -> Sequence[LetterRow]:
    """The rows of these keys, in their order."""
    ids = [letter_id for _, letter_id in keys]
    found = connection.execute(select(*ROW).select_from(FROM_ROWS).where(dead_letters.c.id.in_(ids))) if ids else ()
    rows = {row.letter_id: letter_row(row) for row in found}
    return [rows[letter_id] for letter_id in ids]


def _keys(window: Subquery) -> Select[Any]:
    return select(window.c.last_failure_at, window.c.id)


def _in_order(keys: Select[Any], bounds: Bounds) -> Select[Any]:
    return keys.order_by(*bounds.ordered(*keys.selected_columns))


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
