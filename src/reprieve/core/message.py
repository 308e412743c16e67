"""The words of an exception, without the payloads that some libraries put into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.core.facts import attribute, text_of, type_names, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN = 5


def message_of(exc: BaseException) -> str:
    """What the exception says; its type where it says nothing, or cannot say it."""
    kind: type = type(exc)
    for name in type_names(kind):
        speaker = _SPEAKERS.get(name)
        if speaker is not None:
            words = speaker(exc)
            if words is not None:
                return words
    return words_of(exc) or type(exc).__name__


def _of_pydantic(exc: BaseException) -> str | None:
    """Where it does not fit and why, without the values."""
    errors = attribute(exc, "errors")
    try:
        found = errors(include_input=False, include_url=False, include_context=False) if callable(errors) else ()
        lines = [
            f"{'.'.join(str(part) for part in one['loc']) or '(root)'}: {one['msg']} [{one['type']}]" for one in found
        ]
    except Exception:  # noqa: BLE001 - another version of the library
        return None
    more = f" (+{len(lines) - _SHOWN} more)" if len(lines) > _SHOWN else ""
    return f"{len(lines)} validation errors for {attribute(exc, 'title')}: {'; '.join(lines[:_SHOWN])}{more}"


def _of_jsonschema(exc: BaseException) -> str | None:
    """Which rule of the schema was broken where, without the instance."""
    rule, path = attribute(exc, "validator"), attribute(exc, "json_path")
    return f"{path} does not satisfy {rule!r}" if isinstance(rule, str) and isinstance(path, str) else None


def _of_sqlalchemy(exc: BaseException) -> str | None:
    """The driver's words, without the statement and its parameters."""
    original = attribute(exc, "orig")
    if isinstance(original, BaseException):
        return message_of(original)
    return text_of(words_of(exc).partition("\n[SQL:")[0])


def _without_detail(exc: BaseException) -> str | None:
    """PostgreSQL's first line: DETAIL shows whole rows."""
    return words_of(exc).partition("\nDETAIL:")[0].partition("\nLINE ")[0] or None


_SPEAKERS: Final[dict[str, Callable[[BaseException], str | None]]] = {
    "pydantic_core.ValidationError": _of_pydantic,
    "jsonschema._Error": _of_jsonschema,
    "sqlalchemy.StatementError": _of_sqlalchemy,
    "psycopg.Error": _without_detail,
    "psycopg2.Error": _without_detail,
    "asyncpg.PostgresError": _without_detail,
}
