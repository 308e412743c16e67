"""Reads facts off exceptions and responses without importing their libraries, and without trusting them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, cast

_QUOTED = re.compile(r"""(?<!\w)(?:"[^"\n]{0,2000}"|'[^'\n]{0,2000}'(?!\w)|`[^`\n]{0,2000}`|“[^”\n]{0,2000}”)""")
_ERROR_STATUS = range(100, 600)
_BODY_LIMIT = 65_536
_LONGEST_WAIT = 1e9
_MOST_HEADERS = 500
_HEADER_SOURCES = ("headers", "response_headers", "litellm_response_headers")


def attribute(thing: object, name: str) -> object:
    """An attribute, or None where it is missing or its property fails."""
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a foreign property may raise anything; then the fact is not there
        return None


def item(thing: object, key: object) -> object:
    """A mapping's or sequence's item, or None."""
    try:
        return thing[key]  # type: ignore[index]  # foreign containers: whatever they raise means "not there"
    except Exception:  # noqa: BLE001 - see above
        return None


def integer(value: object) -> int | None:
    """An int, an enum of ints, or digits; None for all else, booleans included."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:  # noqa: PLR2004 - bounded
        return int(value)
    return None


def text_of(value: object) -> str | None:
    """A non-empty string (bytes decoded), or None."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) and value else None


def seconds(value: object) -> float | None:
    """A duration that can be meant; None for all else, booleans included."""
    kind = type(value)  # `isinstance` would ask a hostile value for its class
    if kind is bool or not issubclass(kind, int | float):
        return None
    number = cast("float", value)
    return float(number) if 0 <= number <= _LONGEST_WAIT else None  # compared before it is made a float: it may not fit


def words_of(exc: object) -> str:
    """What an exception says; nothing where saying it fails."""
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return ""


def without_quotes(message: str) -> str:
    """A message without what stands in quotes: that is somebody else speaking."""
    return _QUOTED.sub(" ", message)


def status_of(thing: object) -> tuple[int, str] | None:
    """The HTTP status that an exception carries and the field it sat in."""
    response = attribute(thing, "response")
    if response is not None:
        for name in ("status_code", "status"):
            if (found := _status(attribute(response, name))) is not None:
                return found, f"response.{name}"
    for name in ("status_code", "status", "http_status", "statusCode", "response_code"):
        if (found := _status(attribute(thing, name))) is not None:
            return found, name
    for holder, name in (("resp", "status"), ("meta", "status")):
        if (found := _status(attribute(attribute(thing, holder), name))) is not None:
            return found, f"{holder}.{name}"
    if (found := _status(attribute(thing, "code"))) is not None:
        return found, "code"
    return None


def _status(value: object) -> int | None:
    number = integer(value)
    return number if number in _ERROR_STATUS else None


def headers_of(thing: object) -> object:
    """The response headers, wherever this library keeps them."""
    for holder in (attribute(thing, "response"), thing, attribute(thing, "resp"), attribute(thing, "meta")):
        if holder is None:
            continue
        for name in _HEADER_SOURCES:
            found = attribute(holder, name)
            if found is not None and not callable(found) and not _is_empty(found):
                return found
    return None


def _is_empty(headers: object) -> bool:
    """An empty mapping is a gateway's stand-in for an answer that it did not pass on."""
    try:
        return not headers
    except Exception:  # noqa: BLE001 - a foreign mapping
        return False


def header(headers: object, name: str) -> str | None:
    """One header by its lower-case name, from any kind of mapping or pairs."""
    if headers is None or isinstance(headers, str | bytes):
        return None
    try:
        getter = getattr(headers, "get", None)
        direct = _header_value(getter(name)) if callable(getter) else None
        if direct is not None:
            return direct
        items = getattr(headers, "items", None)
        pairs: Any = items() if callable(items) else headers
        return _header_in_pairs(list(islice(iter(pairs), _MOST_HEADERS)), name)
    except Exception:  # noqa: BLE001 - a foreign container
        return None


def _header_value(value: object) -> str | None:
    """A header's text; a number is taken as one, for headers that somebody wrote by hand."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else text_of(value)


def _header_in_pairs(pairs: list[object], name: str) -> str | None:
    for pair in pairs:
        if isinstance(pair, Sequence) and not isinstance(pair, str | bytes):
            key, value = item(pair, 0), item(pair, 1)
        else:  # gRPC metadata: named tuples are sequences; objects with key and value are not
            key, value = attribute(pair, "key"), attribute(pair, "value")
        if isinstance(key, bytes):
            key = key.decode("latin-1")
        if isinstance(key, str) and key.lower() == name:
            return _header_value(value[0] if isinstance(value, list) and value else value)
    return None


def body_of(thing: object) -> object:
    """The parsed error body that the exception already holds; never reads from a connection."""
    for name in ("body", "json_body", "details"):
        found = attribute(thing, name)
        if isinstance(found, Mapping):
            return found
        if isinstance(found, str | bytes) and found:
            return parse(found)
    response = attribute(thing, "response")
    if isinstance(response, Mapping):
        return response
    content = attribute(response, "_content")
    return parse(content) if isinstance(content, bytes) else None


def parse(body: str | bytes) -> object:
    """A JSON body as values; None where it is no JSON or too large to be an error body."""
    if len(body) > _BODY_LIMIT or body.lstrip()[:1] not in ("{", "[", b"{", b"["):
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=4096)
def type_names(kind: type) -> tuple[str, ...]:
    """`package.Class` of a class and its bases, the most special first, without object and the roots."""
    return tuple(
        f"{str(attribute(base, '__module__')).partition('.')[0]}.{base.__name__}"
        for base in kind.__mro__
        if base not in (object, BaseException, Exception)
    )


def qualified(kind: type) -> str:
    """The name to show for a class: `package.module.Class`, builtins bare."""
    module = attribute(kind, "__module__")
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
