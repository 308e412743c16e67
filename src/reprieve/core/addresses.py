"""Mail addresses and header values: what is one, in its one normal form, and what must not get into a message's head."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from reprieve.errors import UsageError

_LONGEST_ADDRESS: Final = 254
_LONGEST_LOCAL_PART: Final = 64
_SCHEME: Final = "mailto:"
_ATOM: Final = r"[a-z0-9!#$%&'*+/=?^_`{|}~\-\u00a0-\U0010ffff]+"
_LOCAL_PART: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_BREAKING: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_NOT_OF_AN_ADDRESS: Final = re.compile(
    r"[\s\x00-\x20\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
"""Spaces, control characters, and what nobody sees."""
_CHANGED_BY_IDNA: Final = re.compile("[\u00df\u03c2\u200c\u200d]")
"""Letters that the two standards of domain names read differently: the mail would go to somebody else's domain."""
_PLAIN_IN_MAILTO: Final = "!$'*+^_`{|}~-.@"
"""What may stand unquoted in a mailto: URI beside letters and digits; `%`, `/`, `?`, `#`, `&` and `=` may not."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address, and whose it is."""

    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        """What comes after the @."""
        return self.address.rpartition("@")[2]


def address_of(recipient: str) -> str:
    """The address of a recipient (`mailto:Ada@Example.org`, or as it is) in its one normal form; `UsageError` if it is none.

    Upper case is folded on both sides: hardly a server tells Ada from ada, and nobody wants to be told twice.
    """
    text = recipient.strip(" ")
    if text[: len(_SCHEME)].lower() == _SCHEME:
        text = text[len(_SCHEME) :]
        if "?" in text:
            raise UsageError("a recipient is a mailto: URI without fields: nothing may follow a `?`")
        text = unquote(text, errors="surrogateescape")
    _require_sane(text)
    local_part, _, domain = text.rpartition("@")
    address = f"{_local_part(local_part)}@{_domain(domain)}"
    if len(address.encode()) > _LONGEST_ADDRESS:
        raise UsageError(f"a mail address has at most {_LONGEST_ADDRESS} bytes")
    return address


def mailto(address: str) -> str:
    """An address as the URI that deliveries are kept under."""
    return _SCHEME + "".join(each if ord(each) > 0x7F else quote(each, safe=_PLAIN_IN_MAILTO) for each in address)  # noqa: PLR2004 - the last of ASCII


def mailbox(text: str) -> Mailbox:
    """A sender: `Reviews <reviews@example.org>`, or an address alone."""
    name, opened, rest = text.strip().rpartition("<")
    if not opened:
        return Mailbox(address_of(text))
    if not rest.endswith(">"):
        raise UsageError("a sender is written `Name <address>` or as an address alone")
    return Mailbox(address_of(rest[:-1]), one_line(name.strip().strip('"'), longest=100))


def one_line(text: str, *, longest: int) -> str:
    """A text that fits into a header: line breaks and control characters become spaces; what is too long is cut."""
    line = _BREAKING.sub(" ", text).encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _require_sane(text: str) -> None:
    if len(text) > _LONGEST_ADDRESS:
        raise UsageError(f"a mail address has at most {_LONGEST_ADDRESS} bytes")
    if found := _NOT_OF_AN_ADDRESS.search(text):
        raise UsageError(f"a mail address holds no space and nothing that cannot be seen (U+{ord(found[0]):04X})")
    if "@" not in text:
        raise UsageError("a mail address is written name@domain, or mailto:name@domain")


def _local_part(text: str) -> str:
    lowered = unicodedata.normalize("NFC", text.lower())
    if not _LOCAL_PART.fullmatch(lowered):
        raise UsageError(
            "the part of a mail address before the @ has letters, digits, single dots and !#$%&'*+/=?^_`{|}~- only; "
            "quoted ones are not taken"
        )
    if len(lowered.encode()) > _LONGEST_LOCAL_PART:
        raise UsageError(f"the part of a mail address before the @ has at most {_LONGEST_LOCAL_PART} bytes")
    return lowered


def _domain(text: str) -> str:
    if _CHANGED_BY_IDNA.search(text):
        raise UsageError("this domain is read in two ways: write it in its ASCII form, which begins with xn--")
    try:
        domain = text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        domain = ""
    labels = domain.split(".")
    if not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():
        raise UsageError("the part of a mail address after the @ is the name of a host, such as example.org")
    return domain
