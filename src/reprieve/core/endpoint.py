"""A model's endpoint: an address and prices that can be used, and what of the environment may go there.

A key that somebody else could read on the way may not.
"""

from __future__ import annotations

from math import inf
from typing import Final
from urllib.parse import urlsplit

from reprieve.errors import UsageError

HELD_BACK: Final = (
    "the endpoint wants a key; %s was not sent, as a key of the environment never goes over plain http: "
    "give api_key=, or set REPRIEVE_MODEL_KEY for a model that is named by its address"
)


def usable_address(address: str) -> str:
    """The address, or a refusal that repeats none of it: there may be a secret in it."""
    try:
        parts = urlsplit(address)
        usable = (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and address.isprintable()
        )
    except ValueError:
        usable = False
    if not usable or " " in address:
        raise UsageError("a model's address is http://HOST/... or https://HOST/..., with a port from 1 to 65535 if any")
    if "?" in address or "#" in address:
        raise UsageError("a model's address ends with its path: no ?... or #...; a key is given as api_key=")
    return address


def usable_prices(prices: object) -> tuple[float, float] | None:
    """Dollars for a million tokens in and out; None where nobody said."""
    if prices is None:
        return None
    match prices:
        case [int() | float() as taken, int() | float() as made] if 0 <= taken < inf and 0 <= made < inf:
            return (taken, made)
    raise UsageError("prices are two numbers, dollars for a million tokens in and out: prices=(1.0, 5.0)")


def is_https(address: str) -> bool:
    """Whether nobody reads along; what is no address is not."""
    return address.strip().lower().startswith("https://")


def usable_key(key: str | None) -> str | None:
    """The key without the line end that files and shells leave behind it; None for none at all."""
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the key of a model has a sign in it that a header cannot hold: a line end, or no ASCII")
    return key or None


def secret_headers(lines: str | None) -> dict[str, str]:
    """Of headers, a `name: value` on each line, those whose names say that they are secret, without `Bearer` and its like."""
    if not lines:
        return {}
    from reprieve.core.redact.keys import kind_of  # noqa: PLC0415 - heavy, and hardly anybody has such headers

    named = [
        (name.strip(), value.split()) for name, colon, value in (line.partition(":") for line in lines.split("\n"))
    ]
    return {name: words[-1] for name, words in named if words and kind_of(name.encode()) is not None}
