"""What the columns of all tables share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, DateTime, Float, Index, Integer, MetaData, TypeDecorator, event

if TYPE_CHECKING:
    from sqlalchemy import TextClause
    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine


class Moment(TypeDecorator[float]):
    """Seconds since the epoch in Python; a timestamp with time zone on PostgreSQL, a number on SQLite."""

    impl = Float
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose by dialect."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(DateTime(timezone=True))
        return dialect.type_descriptor(Float(53))

    def process_bind_param(self, value: float | None, dialect: Dialect) -> object:
        """Seconds to what the column takes."""
        if value is None or dialect.name != "postgresql":
            return value
        return datetime.fromtimestamp(value, tz=UTC)

    def process_result_value(self, value: object, dialect: Dialect) -> float | None:
        """What the column gives to seconds."""
        _ = dialect
        if isinstance(value, datetime):
            return value.timestamp()
        return value if value is None else float(value)  # type: ignore[arg-type]  # a REAL of SQLite


metadata = MetaData(
    naming_convention={"ix": "ix_%(column_0_N_label)s", "uq": "uq_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s",
                       "ck": "ck_%(table_name)s_%(constraint_name)s"}
)  # fmt: skip

Id = BigInteger().with_variant(Integer(), "sqlite")
"""An id that SQLite gives out by itself only where it is called INTEGER."""

Key = BigInteger().with_variant(Integer(), "sqlite")
"""The id of another table as this one's own."""


def partial_index(name: str, *columns: str | TextClause, where: TextClause, unique: bool = False) -> Index:
    """An index of the rows that fit a condition, on both dialects.

    SQLAlchemy loads a dialect when one of its options is used. Those of PostgreSQL are set when tables are created, so
    that look-ups on SQLite do not wait for them.
    """
    return Index(name, *columns, unique=unique, sqlite_where=where, info={"where": where})


@event.listens_for(metadata, "before_create")
def _set_conditions(target: MetaData, *_: object, **__: object) -> None:
    for index in (each for table in target.tables.values() for each in table.indexes if "where" in each.info):
        index.dialect_kwargs["postgresql_where"] = index.info["where"]
