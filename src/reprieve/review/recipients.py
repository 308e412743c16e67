"""Whom a change concerns, as URIs that a sender takes: owners, authors, and whoever the settings name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reprieve.senders import Sender

_MOST_CONCERNED: Final = 100
_ADDRESS: Final = re.compile(r"[^\s@:/?#%&,;<>()\[\]\\\"]+@[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipients:
    """Who is told."""

    told: tuple[str, ...]
    """In the one form that their sender has for them."""
    unknown: int = 0
    """Owners and authors who are not told: without an address that anybody can be reached by, or beyond the number of them."""


def uri_of(who: str, people: Mapping[str, str]) -> str | None:
    """A name of CODEOWNERS, an address or a URI as a URI; None for a name that the settings do not know."""
    known = people.get(who) or people.get(who.removeprefix("@"))
    if known is not None:
        return uri_of(known, {})
    if who.startswith("@"):
        return None
    scheme, colon, _ = who.partition(":")
    if colon and scheme.isalpha():
        return who
    return f"mailto:{who}" if "@" in who else None


def _uri_of_concerned(who: str, people: Mapping[str, str]) -> str | None:
    """By mail unless the settings say otherwise: whoever commits writes these, and chooses no other channel."""
    known = who in people or who.removeprefix("@") in people
    return uri_of(who, people) if known or _ADDRESS.fullmatch(who) else None


def recipients_of(
    named: Iterable[str], concerned: Iterable[str], *, people: Mapping[str, str], routes: Mapping[str, Sender]
) -> Recipients:
    """Those whom the settings or the caller name have to be reachable; owners and authors are told if they are."""
    told: dict[str, None] = {}
    unknown = 0
    for who in named:
        uri = uri_of(who, people)
        if uri is None:
            raise UsageError(f"nobody knows how to reach {who!r}: give an address, or name it under `people`")
        told[sender_of(uri, routes).address(uri)] = None
    for place, who in enumerate(dict.fromkeys(concerned)):
        uri = _uri_of_concerned(who, people) if place < _MOST_CONCERNED else None
        try:
            address = None if uri is None else sender_of(uri, routes).address(uri)
        except UsageError:  # anybody may write anything into a commit
            address = None
        if address is None:
            unknown += 1
        else:
            told[address] = None
    return Recipients(told=tuple(told), unknown=unknown)


def sender_of(uri: str, routes: Mapping[str, Sender]) -> Sender:
    """Who takes it there."""
    scheme = uri.partition(":")[0].lower()
    if scheme not in routes:
        raise UsageError(f"nobody is set up to reach {scheme}: recipients; there are: {', '.join(sorted(routes))}")
    return routes[scheme]
