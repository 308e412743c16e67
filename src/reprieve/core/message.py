"""The words of an exception, without the payloads that some libraries put into them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reprieve.core.facts import attribute, text_of, type_names, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN = 5
_AFTER_COLON = re.compile(r""": (["']).*\1""", re.DOTALL)


def message_of(exc: BaseException) -> str:
    """What the exception says; its type where it says nothing, or cannot say it."""
    kind: type = type(exc)
    for name in type_names(kind):
        speaker = _SPEAKERS.get(name)
        if speaker is not None:
            try:
                words = speaker(exc)
            except Exception:  # noqa: BLE001 - a foreign object may do anything when it is looked at
                words = None
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
        return _without_detail(original)
    return text_of(words_of(exc).partition("\n[SQL:")[0])


def _without_detail(exc: BaseException) -> str | None:
    """PostgreSQL's first line: DETAIL shows whole rows; and where a value did not fit, not the value."""
    words = words_of(exc).partition("\nDETAIL:")[0].partition("\nLINE ")[0]
    if (text_of(attribute(exc, "sqlstate")) or "").startswith("22") or "invalid input for query argument" in words:
        words = _AFTER_COLON.sub(r": \1…\1", words)
    return words or None


def _without_arguments(exc: BaseException) -> str:
    """Redis repeats the arguments of a command that it does not know; one of them may be a password."""
    return words_of(exc).partition(", with args beginning with")[0]


def _without_header(exc: BaseException) -> str | None:
    """A header that could not be sent, without its value: that is often a credential with a stray newline."""
    words = words_of(exc)
    return words.partition("header value")[0] + "header value" if "header value" in words else None


_SPEAKERS: Final[dict[str, Callable[[BaseException], str | None]]] = {
    "pydantic_core.ValidationError": _of_pydantic,
    "jsonschema._Error": _of_jsonschema,
    "sqlalchemy.StatementError": _of_sqlalchemy,
    "psycopg.Error": _without_detail,
    "psycopg2.Error": _without_detail,
    "asyncpg.PostgresError": _without_detail,
    "asyncpg.DataError": _without_detail,
    "redis.ResponseError": _without_arguments,
    "httpx.LocalProtocolError": _without_header,
    "httpx2.LocalProtocolError": _without_header,
    "h11.LocalProtocolError": _without_header,
    "requests.InvalidHeader": _without_header,
    "builtins.ValueError": _without_header,
}
