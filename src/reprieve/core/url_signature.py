"""The shape of a URL: what pages of one kind have in common, so that a model is asked about the kind once."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from reprieve.errors import UsageError

_READABLE: Final = re.compile(r"[a-z]{1,32}(?:-[a-z]{1,32}){0,20}")
_EMAIL: Final = re.compile(r"[^@]@[\w.-]*\.[^\W\d_]{2,}")
_JWT: Final = re.compile(r"eyJ[\w-]+(?:\.[\w-]*){1,4}", re.ASCII)
_UUID: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
_DATE: Final = re.compile(
    r"(?<!\d)(?:19|20)\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])(?!\d)(?:T[\d:.]+Z?)?", re.IGNORECASE
)
_HEX: Final = re.compile(r"[0-9a-f]{12,}", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[\w.:=~+-]{16,}", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_PLAIN: Final = re.compile(r"[A-Z]?[a-z]{2,}\d?")
_RUN: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
"""What reads as one: `MacBookPro16` has four of them, and `dQw4w9WgXcQ` eight."""
_IDS: Final = (
    (re.compile(r"[A-Za-z]*\d[A-Za-z0-9]*"), 6, 5, 2.5),
    (re.compile(r"[A-Z0-9]+"), 8, 3, 4.0),
    (re.compile(r"[A-Z0-9]+"), 16, 5, 6.0),
    (re.compile(r"[a-f0-9]+"), 7, 4, 4.0),
    (re.compile(r"[a-z0-9]+"), 7, 5, 3.0),
    (re.compile(r"[a-z0-9]+"), 16, 5, 4.0),
    (re.compile(r"[A-Za-z]+"), 10, 5, 2.2),
)
"""Words that are ids: of these letters, so many at least, in so many runs at least, and so many a run at most."""
_NUMBER: Final = re.compile(r"\d+")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_TWO_DIGITS: Final = re.compile(r"\d{1,2}")
_LONGEST: Final = 500
_LONGEST_WORD: Final = 48
_LONGEST_LABEL: Final = 63
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_TRACKING: Final = frozenset({
    "_ga", "_gl", "_hsenc", "_hsmi", "_openstat", "dclid", "epik", "fbclid", "gad_source", "gbraid", "gclid",
    "gclsrc", "igsh", "igshid", "jsessionid", "li_fat_id", "mc_cid", "mc_eid", "mkt_tok", "msclkid", "phpsessid",
    "pk_campaign", "pk_kwd", "pk_source", "rb_clickid", "srsltid", "ttclid", "twclid", "vero_id", "wbraid",
    "wickedid", "yclid", "ysclid",
})  # fmt: skip
_TRACKING_FAMILIES: Final = ("utm_", "mtm_", "hsa_")


def url_signature(url: str) -> str:
    """Host and path with ids, e-mail addresses, hashes, dates and numbers masked, and the names of the query without values.

    `https://Shop.example:443/items/4711/reviews?page=2&sort=new` is `shop.example/items/N/reviews?page&sort`. Scheme,
    user, password, fragment and what only tracks are left out. What is no URL with a host is a UsageError.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = _one_form((parts.hostname or "").rstrip(".")), parts.port
    except ValueError:
        raise UsageError("that is no URL: its host or port cannot be read") from None
    if not host or not parts.scheme:
        raise UsageError("a signature is made of a whole URL: https://host/path")
    told = host if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{host}:{port}"
    segments = [each for each in unquote(parts.path).split("/") if each]
    path = "".join(f"/{each}" for each in _masked_dates(segments))
    names = _names(parts.query.split("&"))
    query = f"?{'&'.join(names)}" if names else ""
    return _clean(f"{told}{path or '/'}{query}")[:_LONGEST]


def _one_form(host: str) -> str:
    """The same for an internationalized name and its ASCII form."""
    return ".".join(_readable(label) for label in normalize("NFKC", host).lower().replace("\u3002", ".").split("."))


def _readable(label: str) -> str:
    if not label.startswith("xn--") or len(label) > _LONGEST_LABEL:
        return label
    try:
        decoded = label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
    return decoded if decoded.isprintable() and normalize("NFKC", decoded).lower() == decoded else label


def _names(pairs: list[str]) -> list[str]:
    """The names of parameters, masked and sorted, but for those that tell a visit from the next."""
    names = {unquote(pair.partition("=")[0]) for pair in pairs}
    return sorted({_mask(name) for name in names if name and not _tracks(name.lower())})


def _tracks(name: str) -> bool:
    return name in _TRACKING or name.startswith(_TRACKING_FAMILIES)


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
            masked.append(_masked(segments[place]))
            place += 1
    return masked


def _masked(segment: str) -> str:
    """A segment of a path; of its own parameters, such as `;jsessionid=...`, the names."""
    name, semicolon, parameters = segment.partition(";")
    return "".join([_mask(name), *(f";{each}" for each in _names(parameters.split(";")))]) if semicolon else _mask(name)


def _mask(segment: str) -> str:
    """One segment without what tells one page, or one person, from the next."""
    if _READABLE.fullmatch(segment):
        return segment
    if _EMAIL.search(segment.replace("%40", "@")):
        return "EMAIL"
    if _JWT.fullmatch(segment) or _is_token(segment):
        return "ID"
    segment = _UUID.sub("UUID", segment)
    segment = _HEX.sub(lambda found: "HASH" if _is_mixed(found[0]) else found[0], segment)
    segment = _DATE.sub("DATE", segment)
    segment = _WORD.sub(lambda found: "ID" if _is_id(found[0]) else found[0], segment)
    return _NUMBER.sub("N", segment)


def _is_mixed(word: str) -> bool:
    return not word.isdigit() and not word.isalpha()


def _is_token(segment: str) -> bool:
    """Whether it is opaque as a whole: long, an id in it, and no word besides."""
    if not _TOKEN.fullmatch(segment) or _UUID.search(segment) or _HEX.fullmatch(segment):
        return False
    words = _WORD.findall(segment.replace("_", "-"))
    return any(_is_id(word) for word in words) and not any(_PLAIN.fullmatch(word) for word in words)


def _is_id(word: str) -> bool:
    """Whether letters and digits, or small and capital letters, change too often for anything that is read."""
    long = len(word)
    if long > _LONGEST_WORD:
        return not word.isdigit()
    runs = len(_RUN.findall(word))
    return any(
        long >= shortest and runs >= fewest and long <= widest * runs and letters.fullmatch(word)
        for letters, shortest, fewest, widest in _IDS
    )


def _clean(text: str) -> str:
    """A text that every database takes; a percent-encoded byte may have become anything."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
