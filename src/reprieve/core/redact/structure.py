"""Secrets and people by the names that they stand under: `key=value`, JSON, headers, flags, XML, YAML, reprs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.judge import harmless, random_looking, telling
from reprieve.core.redact.keys import Kind, kind_of
from reprieve.core.redact.patterns import Span, compiled
from reprieve.core.redact.values import (
    MARKER,
    Quote,
    Value,
    bare,
    block,
    bracket_end,
    escaped_block,
    line_start,
    personal,
    phrase,
    quote_at,
    string_end,
    to_line_end,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from re import Match

_KEY_OWNERS: Final = (
    rb"api|access|secret|private|signing|signature|encryption|encrypt|master|account|shared|auth|licen[sc]e|service|"
    rb"storage|deploy|session|app|application|consumer|subscription|integration|write|ingest|client|server|ssh|pgp|gpg|"
    rb"tls|ssl|hmac|aes|rsa|crypto|root|admin|activation|webhook|functions?|registration|recovery|backup|anon|publishable"
)
_CODE_OWNERS: Final = rb"unlock|verification|security|recovery|backup|one[_ -]?time|otp|mfa|2fa|sms|auth|login|pin"
_NAME_OWNERS: Final = (
    rb"full|first|last|middle|given|family|maiden|sur|fore|customer|patient|legal|real|holder|employee|passenger|"
    rb"guest|beneficiary|contact|recipient|sender|display|client|owner|person|street|vor|nach|billing|shipping|travell?er|"
    rb"member|student|applicant|subscriber|donor|card|cc"
)
WORDS: Final = (
    rb"(?:pass|pwd|\bpw\b|_pw\b|\bpsw|kennwort|contrasena|senha|wachtwoord|(?-i:[a-z]P(?:[wW]|at)\b)|secret|token|cred|auth|cookie|csrf|xsrf|otp\b|_pin\b|\bpin\b|\bcvv|\bcvc|"
    rb"jwt|bearer|mnemonic|seed[_ -](?:phrase|words)|recovery[_ -]phrase|ticket|conn(?:ection)?_?str|assertion|requirepass|"
    rb"_pat\b|\bpat\b|code_verifier|device_code|saml_?response|x-honeycomb-team|x-jfrog-art-api|sess(?:ion|id)|\bsid\b|\.sid\b|signature|\bsig\b|x-amz-|x-goog-|hmac|subscription|identitytoken|"
    rb"(?:"
    + _KEY_OWNERS
    + rb")[_ -]?key|(?:api|access|secret|private|signing|auth)\.key|\w[_-]key\b|(?-i:[a-z]Key\b)|(?:"
    + _CODE_OWNERS
    + rb")[_ -]?code|"
    rb"(?:" + _NAME_OWNERS + rb")[_ -]?name|cardholder|account_?holder|card_?holder|beneficiary|contact_?person|"
    rb"birth|\bborn|\bline[12]\b|residence|tax_?(?:payer_?id|identification)|\bni_number|next_of_kin|emergency_contact|passport_?num|"
    rb"\bdob\b|_dob\b|geburtsdatum|street|address|postal|postcode|zip_?code|passport|national_?(?:id|insurance)|\bnino?\b|"
    rb"social_?security|\bssn\b|_ssn\b|tax_?(?:id|number)|personal_?(?:id|number)|personnummer|aadhaa?r|\bcpf\b|\bcurp\b|\bbsn\b|\bdni\b|"
    rb"identity_(?:number|card)|id_?card|driv(?:er|ing)s?_?licen[sc]e|licen[sc]e_?plate|medical_record|\bmrn\b|insurance_?number|"
    rb"phone|\btel\b|mobile|\bcell|\bfax|whatsapp|msisdn|(?:contact|caller|to|from)_number|\biban\b|_iban\b|"
    rb"(?:bank_?)?account_?number|bank_?account|routing_number|sort_?code|card_?number|credit_?card|cc_number|"
    rb"e[_-]?mail|\bcustomer\b|\bpatient\b|\bapplicant\b|\battendee\b|\bperson\b)"
)
_QUOTES: Final = rb"(?:[\\\"'`]|&quot;|&#3[49];|%22|%27|u002[27])"
_CLOSE: Final = rb"(?:\[\d\])?" + _QUOTES + rb"*(?:\]|%5[Dd])*"
# `**Password:** x`, `PASSWORD ?= x`, `userPassword:: x` and `Password { get; set; } = "x"` are assignments too.
_ASSIGN: Final = (
    _CLOSE
    + rb"(?:\*{1,3}|_{2})?[ \t]*(?:\{[ \t]*get;[^{}\n]*\}[ \t]*)?"
    + rb"(?:string[ \t]+)?(?:<-|={2,3}>?|!=|=>|:=|->|[?|]{1,2}=|::[ \t]|[:=](?:\*{2,3}[ \t])?|%3[AaDd])[ \t]*"
)
_PAIR: Final = _QUOTES + rb"*[ \t]*,[ \t]*"
_NAMED: Final = (
    rb"(?:"
    + _QUOTES
    + rb"|,|</(?:key|name)>)*(?:\s|\\+[nr])+(?:-[ \t]+)?"
    + _QUOTES
    + rb"*value"
    + _QUOTES
    + rb"*[ \t]*[:=][ \t]*"
)
_NAMED_TIGHT: Final = _QUOTES + rb"+,\s*" + _QUOTES + rb"+value" + _QUOTES + rb"+[ \t]*[:=][ \t]*"
_PART: Final = _QUOTES + rb"+(?:\r?\n|(?:\\+r)?\\+n){2}"
_ELSEWHERE: Final = b"|".join((_NAMED, _NAMED_TIGHT, _PART))
KEY: Final = rb"(?i)(%b[\w-]*)(?:(%b)|(%b)|(%b)|((?:\s+[\w:.-]+=\\*[\"'][^\"'<>\n]*[\"'])*>[ \t]*))" % (
    WORDS,
    _ELSEWHERE,
    _ASSIGN,
    _PAIR,
)
_FLAG: Final = rb"(?i)(?:^|[\s'\"\[(]|\\n)--?([\w-]*" + WORDS + rb"[\w-]*)['\"]?[ \t]+"

FLAG_TRIGGER: Final = _FLAG

_IDENTIFIER: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_ANNOTATION: Final = re.compile(
    rb"(?:\s|\\++[nrt])*+string\(\d+\)\s*|(?:Just|Some|Right)[ \t]+(?=\\*+[\"'])|&?[A-Za-z_][\w.]{0,30}(?:\[[\w., |\[\]]{0,40}\])?(?: \| None)?[ \t]+=(?!=)[ \t]*"
)
_WRAPPER: Final = re.compile(rb"[A-Za-z_][\w.]{0,40}\((?=[bru]{0,2}\\*[\"'])")
_SECRET_WRAPPER: Final = re.compile(
    rb"(?i)[\w.]*(?:secret|password|token|auth|key|str|bytes|cred|some|just|ok|new|from|optional)\w*\("
)
_SCHEME: Final = re.compile(
    rb"(?i)(?:basic|bearer|digest|token|apikey|negotiate|ntlm|hawk|aws4-hmac-sha256|genie-?key|bot|oauth|key|splunk|sso-key|dpop|jwt|session|private-token|macaroon|googlelogin|sharedkey\w*|hmac\w*)[ \t:=]+(?=\S)"
)
_DEFAULT: Final = re.compile(rb"[^}\s\"'\\]*")
_LOOK_UP: Final = re.compile(
    rb"(?i)(?:p?flags?|viper|click|typer|argparse)\.|[\w.]*(?:get|load|fetch|read|require|look_?up|resolve|find|env)(?:[_.(]|(?-i:[A-Z]))"
)
_BYTES: Final = re.compile(rb"(?:bytearray|bytes|Buffer\.from)\(")
_COMPARED: Final = re.compile(rb"[!=]=")
_DIGEST: Final = re.compile(rb"""(?i)digest (?:[\w-]+=(?:\\*+"[^"\\\n]*+\\*+"|[^\s,"\\]++)(?:,[ \t]*+)?+)++""")
_QUOTE: Final = re.compile(rb"""\\*["']""")
_NEXT_LINE: Final = re.compile(rb"[ \t]*(?:\r?\n|(?:\\++r)?\\++n)([ \t]*)")
_LIST_ITEM: Final = re.compile(rb"(?:[\s,]|\\++[nrt])*+")
_FIELD: Final = re.compile(rb"[\w.-]{1,60}[ \t]*[:=]|- ")
_BLOCK: Final = re.compile(rb"[|>][+-]?\d?[ \t]*(?:\r?(\n)|(?=\\++[nr]))")
_LINE_BREAK: Final = re.compile(rb"\\++n")

RULES: Final = {
    Kind.PASSWORD: "password",
    Kind.PHRASE: "passphrase",
    Kind.TOKEN: "secret",
    Kind.STRICT: "secret",
    Kind.HEADER: "credential-header",
    Kind.PERSON: "personal-data",
    Kind.SPACED: "personal-data",
}


# The name of a resource, and a parameter that a docstring describes, are followed by no value.
_NO_KEY: Final = re.compile(rb"\barn:[\w-]+:[\w:/-]*\Z|[:@](?:param|type|keyword)[ \t]+(?:[\w\[\], |.]+[ \t]+)?\Z")


def _describes(before: bytes) -> bool:
    # The search is slow where every other word is a name.
    hinted = b"arn:" in before or b"param " in before or b":type " in before or b":keyword " in before
    return hinted and _NO_KEY.search(before) is not None


def spans(data: bytes) -> Iterator[Span]:
    """Every value that its name gives away."""
    pattern = compiled(KEY)
    pos = 0
    while (match := pattern.search(data, pos)) is not None:
        start, end, after = match.start(1), match.end(1), match.end()
        pos = after
        if match.start(5) >= 0 and not _opens_element(data, start, after):
            continue
        start, name = _whole_name(data, start, end)
        if data.startswith(b"[redacted:", start - 10) or (match.start(5) >= 0 and random_looking(name)):
            continue
        kind = kind_of(name)
        if (
            kind is None
            or data[after : after + 1] in (b":", b"=")
            or _only_compared(data, match.end(1), after)
            or _describes(data[max(0, start - 80) : start])
        ):
            continue
        if match.start(2) >= 0 and data[after - 1 : after] in (b"\n", b"n") and not _is_part(data, start):
            continue
        separator = b"," if match.start(4) >= 0 else data[end:after]
        if separator == b"," and not _is_pair(data, start, after, kind):
            continue
        if _ends_string(data, start, end, after):
            continue
        for span in _values(data, start, name, kind, separator, after):
            pos = max(pos, span.end)
            yield span


_METAVARIABLE: Final = re.compile(rb"[A-Z]{2,10}\Z")


def flags(data: bytes) -> Iterator[Span]:
    """The values of command-line options: `--password VALUE`."""
    for match in compiled(_FLAG).finditer(data):
        name = match.group(1) or b""
        kind = kind_of(name)
        if kind in (None, Kind.PERSON, Kind.SPACED) or kind is None:
            continue
        value = _plain_value(data, match.end(), Kind.TOKEN if kind is Kind.HEADER else kind)
        content = data[value.start : value.end]
        if (
            _METAVARIABLE.match(content)
            or data[match.end() - 2 : match.end()].isspace()
            or harmless(content)
            or (content.startswith(b"-") and not value.quoted)
            or content in (b"|", b"<", b">", b"&&")
        ):
            continue
        if kind is Kind.PASSWORD or telling(data, match.start(1), name, kind, value):
            yield Span(value.start, whole(data, value), RULES[kind])


def _whole_name(data: bytes, start: int, end: int) -> tuple[int, bytes]:
    before = data[max(0, start - 48) : start]
    left = len(before) - len(before.rstrip(_IDENTIFIER))
    # An escaped line end is no part of the name that follows it: `\npassword`.
    if (
        left
        and left < len(before)
        and before[-left - 1 : -left] == b"\\"
        and before[-left : len(before) - left + 1] in (b"n", b"r", b"t")
    ):
        left -= 1
    if left >= len(b"-D") and before[-left:].startswith(b"-D"):
        left -= 2  # a property of Java's: `-Dapi_key=...`
    return start - left, data[start - left : end]


_ANOTHER: Final = re.compile(rb"""\\*["']\s*,\s*\\*["']""")
_DIGIT: Final = re.compile(rb"[0-9]")
_SOME_VALUE: Final = re.compile(rb"[^\n\"']{0,80}[0-9= ]")


def _is_pair(data: bytes, start: int, after: int, kind: Kind) -> bool:
    """Whether a quoted name begins a tuple, a call or an option: in a list of names the next one is no value."""
    quote = quote_at(data, after)
    if quote is None:
        return False
    if data[start : start + 1] == b"-" or data[start - 1 : start] == b"{":
        return True
    before = data[max(0, start - 300) : start].rstrip(_IDENTIFIER + b".")
    opened = before.rstrip(b"\\\"'`").rstrip(b"bu")
    if opened[-1:] in (b"(", b"[") and before[-1:] in (b'"', b"'", b"`"):
        end = string_end(data, quote)
        # With a third string it is a list of names, or a function's arguments.
        return not _ANOTHER.match(data, end) or _DIGIT.search(data, quote.start, end) is not None
    return kind is Kind.HEADER and _SOME_VALUE.match(data, quote.start) is not None


def _is_part(data: bytes, start: int) -> bool:
    """Whether a quoted name is that of a part of a form: `name="password"`."""
    return data[max(0, start - 40) : start].rstrip(b"\\\"'").endswith(b"name=")


def _ends_string(data: bytes, start: int, end: int, after: int) -> bool:
    """Whether the quote after the separator closes a string that the name stands in: `"Password: "`."""
    mark = data[after : after + 1]
    if mark not in (b'"', b"'") or data[end : end + 1] in (b'"', b"'", b"\\", b"]"):
        return False
    line = max(line_start(data, start), start - 300)
    opened = data.count(mark, line, start) - data.count(b"\\" + mark, line, start)
    following = data[after + 1 : after + 2]
    return opened % 2 == 1 and (not following or following in b"), \n]};+%.")


def _only_compared(data: bytes, end: int, after: int) -> bool:
    """Whether a name is compared with a word of a grammar: `token == "name"`; with digits it is a secret still."""
    if _COMPARED.search(data, end, after) is None or b">" in data[end:after]:
        return False
    quote = quote_at(data, after)
    return quote is None or _DIGIT.search(data, quote.start, string_end(data, quote)) is None


def _opens_element(data: bytes, start: int, after: int) -> bool:
    """Whether it is an element, and no placeholder in a sentence: `AUTH <password> called without ...`."""
    before = data[max(0, start - 60) : start].rstrip(_IDENTIFIER + b":.")
    return before.endswith(b"<") and (data[after - 1 : after] == b">" or data.find(b"</", after, after + 200) >= 0)


def _values(data: bytes, start: int, name: bytes, kind: Kind, separator: bytes, pos: int) -> Iterator[Span]:
    if (b":" in separator or b">" in separator or data[pos : pos + 1].isupper()) and (
        annotation := _ANNOTATION.match(data, pos)
    ) is not None:
        pos = annotation.end()
    first = data[pos : pos + 1]
    if data[start - 2 : start] == b"${" and first in (b"?", b"+", b"-", b"="):
        yield from _default(data, kind, pos)
        return
    wrapper = _WRAPPER.match(data, pos)
    if separator == b"," and quote_at(data, pos) is None:
        return
    if first == b"{" and kind is Kind.HEADER:
        end = bracket_end(data, pos)
        if end - pos > len(b"{}"):
            yield Span(pos, end, RULES[kind])
    elif first in (b"[", b"("):
        if not MARKER.match(data, pos):
            yield from _members(data, start, name, kind, pos)
    elif wrapper is not None:
        yield from _wrapped(data, start, name, kind, wrapper)
    else:
        yield from _single(data, start, name, kind, separator, pos)


def _default(data: bytes, kind: Kind, pos: int) -> Iterator[Span]:
    """What a shell takes where a variable is empty: `${TOKEN:-value}`; after `?` there is only a complaint."""
    end = _DEFAULT.match(data, pos + 1).end()  # type: ignore[union-attr]  # it matches the empty string too
    if data[pos : pos + 1] in (b"-", b"=") and not harmless(data[pos + 1 : end]):
        yield Span(pos + 1, end, RULES[kind])


def _wrapped(data: bytes, start: int, name: bytes, kind: Kind, opened: Match[bytes]) -> Iterator[Span]:
    """What a secret's own type holds: `SecretStr('...')`; a call that looks one up holds its name."""
    pos, inside = opened.start(), opened.end() - 1
    if _BYTES.match(data, pos):
        yield from _members(data, start, name, Kind.TOKEN if kind is Kind.STRICT else kind, inside)
    elif _SECRET_WRAPPER.match(data, pos) and not _LOOK_UP.match(data, pos, opened.end()):
        yield from _members(data, start, name, kind, inside)


def _single(data: bytes, start: int, name: bytes, kind: Kind, separator: bytes, pos: int) -> Iterator[Span]:
    value = _value(data, start, kind, separator, pos)
    if value is None or (kind is Kind.SPACED and not value.quoted) or not telling(data, start, name, kind, value):
        return
    if kind is Kind.HEADER and not value.quoted:  # it was read only so far as it takes to judge it
        value = _header(data, start, value.start, limit=1 << 16)
    begin = value.start
    if kind is Kind.HEADER or name.lower() in (b"auth", b"token"):
        scheme = _SCHEME.match(data, begin, value.end)
        begin = begin if scheme is None else scheme.end()
    if not harmless(data[begin : value.end]):
        yield Span(begin, whole(data, value), RULES[kind])


def _members(data: bytes, start: int, name: bytes, kind: Kind, pos: int) -> Iterator[Span]:
    """The strings that stand directly in a list, a tuple or a call: `auth=('user', 'pass')`."""
    if kind in (Kind.SPACED, Kind.STRICT):
        return
    pos = _LIST_ITEM.match(data, pos + 1).end()  # type: ignore[union-attr]  # it matches the empty string too
    while (quote := quote_at(data, pos)) is not None:
        end = string_end(data, quote)
        value = Value(quote.start, end, quoted=True)
        if telling(data, start, name, Kind.PASSWORD if kind is Kind.TOKEN else kind, value):
            yield Span(value.start, whole(data, value), RULES[kind])
        pos = end + quote.escapes + len(quote.mark)
        pos = _LIST_ITEM.match(data, pos).end()  # type: ignore[union-attr]  # it matches the empty string too


def _value(data: bytes, start: int, kind: Kind, separator: bytes, pos: int) -> Value | None:
    """Read the value after the separator, on the next line too where it can only be there."""
    if (scalar := _BLOCK.match(data, pos)) is not None and b":" in separator:
        indent = _indent(data, start)
        return block(data, scalar.start(1), indent) if scalar[1] else escaped_block(data, scalar.end(), indent)
    if (line_end := _NEXT_LINE.match(data, pos)) is not None:
        if quote_at(data, line_end.end()) is None:
            if not _starts_line(data, start) and data[start - 1 : start] not in (b'"', b"'"):
                return None
            deeper = len(line_end[1]) > _indent(data, start)
            if not deeper or kind in (Kind.STRICT, Kind.SPACED) or _FIELD.match(data, line_end.end()):
                return None
        elif data[line_end.end() : line_end.end() + 3] in (b'"""', b"'''"):
            return None
        pos = line_end.end()
    if kind is Kind.HEADER and quote_at(data, pos) is None:
        return _header(data, start, pos, limit=400)
    return _plain_value(data, pos, kind, colon=b":" in separator, first=_starts_line(data, start))


def _line_before(data: bytes, start: int) -> bytes:
    """What stands before this place in its line, be the line's beginning escaped or the beginning of a string."""
    before = data[max(line_start(data, start), start - 200) : start]
    return before[before.rfind(b"\\n") + 2 if b"\\n" in before else 0 :]


def _starts_line(data: bytes, start: int) -> bool:
    return not _line_before(data, start).strip(b" \t-*\"'")


def _indent(data: bytes, start: int) -> int:
    before = _line_before(data, start)
    return len(before) - len(before.lstrip(b" \t-")) if not before.strip(b" \t-") else 0


def _header(data: bytes, start: int, pos: int, *, limit: int) -> Value:
    """A header's value: up to the quote that opened before its name, or to the end of the line."""
    if (digest := _DIGEST.match(data, pos, pos + limit)) is not None:  # with quotes of its own
        return Value(pos, digest.end(), quoted=False)
    before = data[max(0, start - 260) : start]
    mark = before[-1:]
    if mark in (b'"', b"'"):
        escapes = len(before[:-1]) - len(before[:-1].rstrip(b"\\"))
        return to_line_end(data, pos, min(limit, string_end(data, Quote(mark, escapes, pos)) - pos))
    quote = _QUOTE.search(data, pos, pos + limit)
    return to_line_end(data, pos, limit if quote is None else quote.start() - pos)


def _plain_value(data: bytes, pos: int, kind: Kind, *, colon: bool = False, first: bool = False) -> Value:  # noqa: PLR0911 - one a kind
    quote = quote_at(data, pos)
    if quote is not None:
        return Value(quote.start, string_end(data, quote), quoted=True)
    match kind:
        case Kind.PHRASE:
            return phrase(data, pos)
        case Kind.PERSON if colon and first:
            return to_line_end(data, pos, 1000)
        case Kind.PERSON | Kind.SPACED:
            return personal(data, pos)
        case Kind.PASSWORD if colon and first:
            value = to_line_end(data, pos, 1000)
            if b" " in data[value.start : value.end]:
                return bare(data, pos)
            return value if data[value.end - 1 : value.end] not in (b",", b";") else value._replace(end=value.end - 1)
        case _:
            return bare(data, pos)
