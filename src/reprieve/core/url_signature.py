"""The shape of a URL: what pages of one kind have in common, so that a model is asked about the kind once."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from reprieve.errors import UsageError

_UUID: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
_DATE: Final = re.compile(
    r"(?<!\d)(?:19|20)\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])(?!\d)(?:T[\d:.]+Z?)?", re.IGNORECASE
)
_HEX: Final = re.compile(r"(?=[a-f]*\d)[0-9a-f]{12,}", re.IGNORECASE)
_TOKEN: Final = re.compile(r"(?=[^\d]*\d)(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9_-]{16,}")
_NUMBER: Final = re.compile(r"\d+")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_TWO_DIGITS: Final = re.compile(r"\d{1,2}")
_LONGEST: Final = 500
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def url_signature(url: str) -> str:
    """Host and path with ids, UUIDs, hashes, dates and numbers masked, and the names of the query, sorted, without values.

    `https://Shop.example:443/items/4711/reviews?page=2&sort=new` is `shop.example/items/N/reviews?page&sort`. Scheme,
    user, password and fragment are left out. What is no URL with a host is a UsageError.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise UsageError("that is no URL: its host or port cannot be read") from None
    if not host or not parts.scheme:
        raise UsageError("a signature is made of a whole URL: https://host/path")
    told = host if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{host}:{port}"
    segments = [each for each in parts.path.split("/") if each]
    path = "".join(f"/{each}" for each in _masked_dates([unquote(each) for each in segments]))
    names = sorted({_mask(unquote(pair.partition("=")[0])) for pair in parts.query.split("&")} - {""})
    query = f"?{'&'.join(names)}" if names else ""
    return _clean(f"{told}{path or '/'}{query}")[:_LONGEST]


def _masked_dates(segments: list[str]) -> list[str]:
    """Each segment masked; a year that is followed by a month, and by a day where there is one, is a date."""
    masked: list[str] = []
    place = 0
    while place < len(segments):
        long = 0
        if _YEAR.fullmatch(segments[place]):
            following = segments[place + 1 : place + 3]
            long = next((at for at, each in enumerate(following) if not _TWO_DIGITS.fullmatch(each)), len(following))
        if long:
            masked.append("DATE")
            place += 1 + long
        else:
            masked.append(_mask(segments[place]))
            place += 1
    return masked


def _mask(segment: str) -> str:
    """One segment without what tells one page from the next."""
    if _TOKEN.fullmatch(segment):
        return "ID"
    segment = _UUID.sub("UUID", segment)
    segment = _DATE.sub("DATE", segment)
    segment = _HEX.sub("HASH", segment)
    return _NUMBER.sub("N", segment)


def _clean(text: str) -> str:
    """A text that every database takes; a percent-encoded byte may have become anything."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
