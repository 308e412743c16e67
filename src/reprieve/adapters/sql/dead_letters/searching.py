"""Which dead letters hold a text, whatever its case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import or_, select

from reprieve.adapters.sql.tables import dead_letter_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Select
    from sqlalchemy.engine import Connection

_SEARCHED: Final = (
    dead_letter_texts.c.message,
    dead_letter_texts.c.last_stack,
    dead_letter_texts.c.sanitized_context,
)


class Search:
    """A text that is looked for."""

    def __init__(self, text: str, connection: Connection) -> None:
        self._connection = connection
        self._folded = text.casefold()
        self._exact = text.isascii()
        # Databases agree on the case of ASCII alone: there any character stands for another one, and is judged here.
        pattern = "%{}%".format("".join(_escaped(each) if each.isascii() else "_" for each in text))
        folds = connection.dialect.name == "sqlite"
        self._holds = or_(
            *((each.like if folds else each.ilike)(pattern, escape="\\") for each in _SEARCHED),
        )

    def among(self, keys: Select[Any]) -> Sequence[tuple[float, int]]:
        """Those of these letters, given by their keys, whose texts hold it."""
        # First the letters, then their texts: PostgreSQL would rather read all texts there are.
        letters = keys.cte("letters").prefix_with("MATERIALIZED", dialect="postgresql")
        read = select(letters.c.last_failure_at, letters.c.id, *([] if self._exact else _SEARCHED))
        found = read.join(dead_letter_texts, dead_letter_texts.c.letter_id == letters.c.id).where(self._holds)
        return [
            (at, letter_id)
            for at, letter_id, *texts in self._connection.execute(found)
            if self._exact or any(self._folded in each.casefold() for each in texts)
        ]


def _escaped(character: str) -> str:
    return f"\\{character}" if character in "\\%_" else character
