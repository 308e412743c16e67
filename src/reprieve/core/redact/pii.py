"""People's data by its shape: addresses of mail, phone numbers, cards, IBANs, social security numbers; network addresses by choice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.patterns import Span, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT: Final = rb"(?:@|%40|\\{1,8}u0040|&#64;)"
_LOCAL: Final = rb"[A-Za-z0-9._%+'\x80-\xff-]"
_EMAIL: Final = (
    _LOCAL
    + rb"+"
    + _AT
    + rb"[A-Za-z0-9\x80-\xff-]+(?:\.[A-Za-z0-9\x80-\xff-]+)*\.[A-Za-z\x80-\xff][A-Za-z0-9\x80-\xff-]*[A-Za-z\x80-\xff]"
)
_NOT_PEOPLE: Final = frozenset(
    (
        b"git",
        b"root",
        b"ubuntu",
        b"ec2-user",
        b"hg",
        b"svn",
        b"www-data",
        b"postgres",
        b"centos",
        b"vagrant",
        b"core",
        b"azureuser",
    )
)
_NOT_DOMAINS: Final = frozenset(
    b"png jpg jpeg gif svg webp ico js mjs cjs css ts tsx jsx py json html htm md txt map woff woff2 service socket timer "
    b"target mount slice scope device swap automount lock yml yaml toml whl gz zip tgz so dll exe git log csv xml".split()
)
_MESSAGE_ID: Final = re.compile(
    rb"(?i)(?:message-?id|in-reply-to|references|content-id)\W{0,6}(?:<[^<>\s]{1,200}>\s*)*<?\Z"
)
_IN_URL: Final = re.compile(rb"://[^\s/\"'<>]*\Z")
EMAIL_TRIGGER: Final = _LOCAL + _AT + rb"[A-Za-z0-9\x80-\xff]"


def emails(data: bytes) -> Iterator[Span]:
    """Mail addresses, with the name that stands before one in angle brackets."""
    for match in compiled(_EMAIL).finditer(data):
        start, end = match.start(), match.end()
        while data[start : start + 1] in (b".", b"'", b"-", b"%"):
            start += 1
        if start and data[start - 1 : start] == b"\\" and data[start : start + 1] in (b"n", b"r", b"t"):
            start += 1
        address = data[start:end]
        local = re.split(rb"@|%40|\\+u0040|&#64;", address)[0]
        if not local or local in _NOT_PEOPLE or address.rpartition(b".")[2].lower() in _NOT_DOMAINS:
            continue
        before = data[max(0, start - 240) : start]
        if _IN_URL.search(before[-120:]) or _MESSAGE_ID.search(before):
            continue
        yield Span(start, end, "email")


_NAMED_ADDRESS: Final = (
    rb"(?:^|[\s\"'>(:,;])\\*\"?((?:[A-Z\x80-\xff][\w\x80-\xff.'-]*)(?: [A-Z\x80-\xff][\w\x80-\xff.'-]*){1,3})\\*\"? \\*(?:<|&lt;)(?:"
    + _EMAIL
    + rb"|\[redacted:email\])"
)
NAMED_TRIGGER: Final = rb"[\w\x80-\xff.\"] \\*(?:<|&lt;)(?:" + _LOCAL + rb"+" + _AT + rb"|\[redacted:email)"


def named_addresses(data: bytes) -> Iterator[Span]:
    """The name in `Anna Smith <anna@example.org>`."""
    for match in compiled(_NAMED_ADDRESS).finditer(data):
        yield Span(match.start(1), match.end(1), "personal-data")


_DIGITS: Final = re.compile(rb"\d")
_FEWEST, _MOST = 7, 15


def _number_of_digits(value: bytes) -> int:
    return len(_DIGITS.findall(value))


_INTERNATIONAL: Final = rb"(?:^|[^\w+.%])(\+[1-9][\d \x{a0}().\-/]{5,22}\d)"
_NATIONAL: Final = rb"(?:^|[^\w.+/-])(\(\d{3}\) ?\d{3}[-. ]\d{4}|(?:1[-. ])?\d{3}-\d{3}-\d{4})(?:[^\w-]|$)"
_PHONE_WORDS: Final = rb"(?i:\b(?:tele)?phone|\btel\b|mobile|\bcell\b|\bfax\b|\bsms\b|whatsapp|msisdn|\bhandy\b|\bcall(?:ed|ing)? (?:me|us|him|her|back|to|at|from|on)\b|\b(?:dial|dial(?:l)?ed)\b|\bring me\b|\bvoicemail\b|\btext(?:ed)? (?:me|to)\b)"
_IN_CONTEXT: Final = _PHONE_WORDS + rb"[^\d\n+(]{0,24}(\+?\(?\d[\d \x{a0}().\-/]{5,20}\d)"
PHONE_TRIGGER: Final = (
    rb"\+[1-9][\d ().\-/]{5}|\d{3}\)? ?[-. ]?\d{3}[-. ]\d{4}|" + _PHONE_WORDS + rb"[^\d\n+(]*\+?\(?\d[\d ().\-/]{5}"
)


def phones(data: bytes) -> Iterator[Span]:
    """Phone numbers: international ones, national ones as they are printed, any in the company of a word that says so."""
    for pattern in (_INTERNATIONAL, _NATIONAL, _IN_CONTEXT):
        for match in compiled(pattern).finditer(data):
            start, end = match.start(1), match.end(1)
            value = data[start:end]
            if not _FEWEST <= _number_of_digits(value) <= _MOST or data[end : end + 1].isalnum():
                continue
            if re.fullmatch(rb"\+?\d+\.\d+", value) or re.match(rb"\d{4}-\d\d-\d\d", value):
                continue
            if pattern is _IN_CONTEXT and (b"redacted:" in data[max(0, match.start() - 10) : start]):
                continue  # the phone that was taken out is not this one
            if pattern is _INTERNATIONAL and (value.isdigit() or data[end : end + 2] in (b"e+", b"ms")):
                continue
            yield Span(start, end, "phone")


_MILLISECONDS: Final = 13
"""Digits of a time in milliseconds, and of no card that is still in use."""
_CARD: Final = rb"(?:^|[^\w.\-/+])(\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{1,7}|3[47]\d{2}[ -]?\d{6}[ -]?\d{5}|3[068]\d{2}[ -]?\d{6}[ -]?\d{4})(?:[^\w-]|$)"
CARD_TRIGGER: Final = rb"\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d|3[0478]\d{2}[ -]?\d{6}[ -]?\d{4}"
_LONGEST_CARD: Final = 19
"""As long as an id of 64 bits, of which one in ten passes the check: a word has to say that it is a card."""
_CARD_BEFORE: Final = re.compile(rb"(?i)card|\bpan\b|\bcc\b|credit|debit|maestro|visa|payment")
_ID_BEFORE: Final = re.compile(
    rb"(?i)[\w-]*(?:id|key|number_of|count|offset|size|seq|version)\\*[\"']?\s*[:=#]\s*\\*[\"']?\Z|#\Z"
)
_CARD_LENGTHS: Final = ((re.compile(rb"4"), (13, 16, 19)), (re.compile(rb"5[1-5]|2[2-7]"), (16,)), (re.compile(rb"3[47]"), (15,)),
                        (re.compile(rb"6(?:011|4|5|2)"), (16, 19)), (re.compile(rb"35"), (16,)), (re.compile(rb"3[068]"), (14,)), (re.compile(rb"50|5[6-9]|6"), (16, 19)))  # fmt: skip


def luhn(digits: bytes) -> bool:
    """Whether the check digit of a card number is right."""
    total = 0
    for place, byte in enumerate(reversed(digits)):
        value = (byte - 48) * (1 + place % 2)
        total += value - 9 if value > 9 else value  # noqa: PLR2004 - the two digits of a doubled one, added
    return total % 10 == 0


def cards(data: bytes) -> Iterator[Span]:
    """Card numbers whose length, issuer and check digit are right."""
    for match in compiled(_CARD).finditer(data):
        value = data[match.start(1) : match.end(1)]
        digits = value.replace(b" ", b"").replace(b"-", b"")
        if not any(issuer.match(digits) and len(digits) in lengths for issuer, lengths in _CARD_LENGTHS):
            continue
        before = data[max(0, match.start(1) - 40) : match.start(1)]
        if value == digits and (len(digits) == _MILLISECONDS or _ID_BEFORE.search(before)):
            continue
        if value == digits and len(digits) == _LONGEST_CARD and not _CARD_BEFORE.search(before):
            continue
        if luhn(digits) and len(set(digits)) > 1:
            yield Span(match.start(1), match.end(1), "card")


_IBAN: Final = rb"(?:^|[^A-Za-z0-9])([A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?)(?:[^A-Za-z0-9]|$)"
IBAN_TRIGGER: Final = rb"\b[A-Z]{2}\d{2}[ -]?[A-Z0-9]{4}[ -]?[A-Z0-9]{4}"
_IBAN_LENGTHS: Final = {
    code.encode(): length
    for length, codes in {
        15: "NO", 16: "BE", 18: "DK FO FI GL NL", 19: "MK SI", 20: "AT BA EE KZ LT LU XK", 21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS",
        23: "AE GI IL OM", 24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "FR GR IT MC SM", 28: "AL AZ BY CY DO GT HU LB PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU", 31: "MT SC", 33: "RU",
    }.items()
    for code in codes.split()
}  # fmt: skip
_SHORTEST_IBAN: Final = 15


def ibans(data: bytes) -> Iterator[Span]:
    """Bank account numbers whose checksum is right."""
    for match in compiled(_IBAN).finditer(data):
        start, end = match.start(1), match.end(1)
        while end - start >= _SHORTEST_IBAN:
            if _mod97(data[start:end]):
                yield Span(start, end, "iban")
                break
            end = max(data.rfind(b" ", start, end), start)


def _mod97(value: bytes) -> bool:
    plain = value.replace(b" ", b"").replace(b"-", b"")
    length = _IBAN_LENGTHS.get(plain[:2])
    if length is None or (len(plain) != length and not (plain[4:].isdigit() and len(plain) >= _SHORTEST_IBAN)):
        return False  # a request id has letters, and passes the checksum once in a hundred times
    turned = plain[4:] + plain[:4]
    return int("".join(str(int(chr(byte), 36)) for byte in turned)) % 97 == 1


_SSN: Final = rb"(?:^|[^\w.-])(\d{3}-\d{2}-\d{4})(?:[^\w-]|$)"
_SSN_CONTEXT: Final = rb"(?i)(?:\bssn\b|social security)[^\d\n]{0,20}(\d{3}[ -]?\d{2}[ -]?\d{4})\b"
SSN_TRIGGER: Final = rb"\b\d{3}-\d{2}-\d{4}\b|(?i:\bssn\b|social security)"


def social_security_numbers(data: bytes) -> Iterator[Span]:
    """Social security numbers, with dashes or where the words stand before."""
    for pattern in (_SSN, _SSN_CONTEXT):
        for match in compiled(pattern).finditer(data):
            value = data[match.start(1) : match.end(1)]
            area = value[:3]
            if pattern is _SSN and (
                area in (b"000", b"666") or area >= b"900" or value[4:6] == b"00" or value[7:] == b"0000"
            ):
                continue
            yield Span(match.start(1), match.end(1), "ssn")


_IPV4: Final = rb"(?:^|[^\w.])((?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d))(?:[^\w.]|\.\s|\.?$)"
_IPV6: Final = rb"(?i)(?:^|[^\w:.])((?:[0-9a-f]{1,4}:){1,7}(?:(?::?[0-9a-f]{1,4}){1,6}|:)|::[0-9a-f]{1,4})(?:[^\w:.]|$)"
IP_TRIGGER: Final = rb"\d\.\d{1,3}\.\d{1,3}\.\d|(?i:[0-9a-f]{1,4}:[0-9a-f]{0,4}:[0-9a-f:]|::1)"


def network_addresses(data: bytes) -> Iterator[Span]:
    """IP addresses; asked for, since operators need them more often than not."""
    for pattern in (_IPV4, _IPV6):
        for match in compiled(pattern).finditer(data):
            value = data[match.start(1) : match.end(1)]
            if b":" in value and b"::" not in value and value.count(b":") < 7:  # noqa: PLR2004 - the time of day
                continue
            yield Span(match.start(1), match.end(1), "ip-address")
