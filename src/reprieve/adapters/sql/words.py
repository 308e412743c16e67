"""The few words in which the two dialects differ, so that a statement off the hot path is written once for both.

What is done with several statements is written as a talk: a generator that yields what is to be asked of the database, and
is sent the rows. Who drives it has the connection, and waits for it in its own way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    Rows = list[tuple[Any, ...]]

T = TypeVar("T")


class Ask(NamedTuple):
    """A statement with its values, by name."""

    statement: str
    values: Mapping[str, Any]


class Put(NamedTuple):
    """A statement without an answer that is said of many rows: it takes them from `Words.each`."""

    statement: str
    rows: Sequence[tuple[Any, ...]]


if TYPE_CHECKING:
    Talk = Generator[Ask | Put, Rows, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How one dialect says it."""

    is_postgres: bool
    least: str
    greatest: str

    @property
    def locks(self) -> bool:
        """Whether somebody else may be writing meanwhile; on SQLite a batch is alone."""
        return self.is_postgres

    def lock(self, clause: str) -> str:
        """`FOR UPDATE` and its kin, where there is somebody to keep out."""
        return clause if self.is_postgres else ""

    def value(self, name: str, kind: str = "text") -> str:
        """A value by its name; of which kind, where only the kind of a column would tell."""
        if not self.is_postgres:
            return f":{name}"
        return f"to_timestamp(%({name})s::float8)" if kind == "moment" else f"%({name})s::{kind}"

    def seconds(self, column: str) -> str:
        """A moment as it is read: seconds since the epoch."""
        return f"extract(epoch FROM {column})::float8" if self.is_postgres else column

    def among(self, name: str) -> str:
        """`IN (...)`, of ids that were `listed`: one value for any number of them."""
        if self.is_postgres:
            return f"= ANY(%({name})s::bigint[])"
        return f"IN (SELECT value FROM json_each(:{name}))"  # noqa: S608 - names of ours

    def listed(self, ids: Iterable[int]) -> str:
        """Ids as the one value that `among` takes."""
        numbers = ",".join(map(str, ids))
        return f"{{{numbers}}}" if self.is_postgres else f"[{numbers}]"

    def given(self, name: str, **kinds: str) -> str:
        """A table to be read from, of rows handed over as JSON."""
        if self.is_postgres:
            columns = (_typed(f"value ->> {place}", kind, name) for place, (name, kind) in enumerate(kinds.items()))
            return f"(SELECT {', '.join(columns)} FROM jsonb_array_elements(%({name})s::jsonb)) AS given"  # noqa: S608 - names of ours
        columns = (f"value ->> {place} AS {column}" for place, column in enumerate(kinds))
        return f"(SELECT {', '.join(columns)} FROM json_each(:{name})) AS given"  # noqa: S608 - names of ours

    def each(self, **kinds: str) -> str:
        """A table to be written from: all rows of a `Put` at once, or one after another where that is faster."""
        if self.is_postgres:
            return self.given("rows", **kinds)
        return f"(SELECT {', '.join(f'? AS {column}' for column in kinds)}) AS given"


def _typed(slot: str, kind: str, name: str) -> str:
    if kind == "moment":
        return f"to_timestamp(({slot})::float8) AS {name}"
    return f"({slot})::{kind} AS {name}"


def rows_as_json(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as `given` takes them; a text that cannot be written is still refused by the driver."""
    return json.dumps(list(rows), ensure_ascii=False, separators=(",", ":"))


SQLITE: Final = Words(is_postgres=False, least="min", greatest="max")
POSTGRES: Final = Words(is_postgres=True, least="LEAST", greatest="GREATEST")
