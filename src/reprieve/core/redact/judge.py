"""Whether a value that stands under a telling name is one to take out, or code, a placeholder or a plain word."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final, assert_never

from reprieve.core.redact.keys import Kind, kind_of
from reprieve.core.redact.values import MARKER, Value, line_start

_WORDS: Final = frozenset(
    b"none null nil true false yes no undefined unset empty str string bytes int integer float bool boolean object any "
    b"optional self cls this required missing invalid incorrect wrong expired revoked unknown rejected denied not must "
    b"should cannot is are was were has have does did may might will and or but for from to the a an of in on at by with "
    b"if else lambda function type class secretstr secretbytes password passwd secret token authentication authorization "
    b"basic bearer digest redacted filtered masked hidden removed scrubbed omitted n/a na todo tbd changeme_placeholder "
    b"reset policy protected hash manager prompt field value values key keys char character literal error errors failed "
    b"failure mismatch provided supplied given used ok default off enabled disabled optional[str] str|none too unexpected "
    b"callable protocol mapping dict list tuple set sequence iterable awaitable default_factory required. header headers "
    b"cookie cookies session via per has_been verification validation parser stream type: count limit budget await async new yield return typeof const let var".split()
)
_MASK: Final = re.compile(
    rb"[*\xe2\x80\xa2\xc2\xb7xX.#_\- ]+\Z|[^\s*]{0,8}\*{3,}[^\s*]{0,8}\Z|\.{3}|<[^<>]{0,60}>\Z|\[[A-Za-z_ -]{1,30}\]\Z"
)
_TEMPLATE: Final = re.compile(
    rb"(?:%[sdr]|\{\d*\})(?:[:@/ ](?:%[sdr]|\{\d*\}))*\Z|\W{1,3}\Z|\$\d+\Z|:[a-z_]+\Z|\?\Z|(?i:your[_-])|\$\{|\$\(|\{\{|(?:\{[A-Za-z_][\w.!:()\[\]'\" -]{0,60}\}[:@/ .-]{0,3})++\Z|%\(|%[sdrvq]\Z|\$[A-Za-z_]\w{0,60}(?:\Z|->|\[|::)|%[A-Z_]{2,40}%\Z|<%|\*\*?[a-z_]+\Z|@\{|env:|vault:|\$\$|arn:aws"
)
_CALL: Final = re.compile(rb"(?:await |not |lambda)|\$?[A-Za-z_][\w.]{0,80}[(\[]")
_DOTTED: Final = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_NAME: Final = re.compile(rb"[A-Za-z_]\w*\Z")
_DIGIT: Final = re.compile(rb"[0-9]")
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\Z")
_HEX: Final = re.compile(rb"(?:sha\d+[:-])?[0-9a-fA-F]+\Z")
_COMPLAINT: Final = re.compile(
    rb"(?i)\b(?:required|must|invalid|field|characters|should|short|cannot|incorrect|blank|expired|valid|allowed|expected|"
    rb"failed|wrong|missing|match|please|error|exceeded|denied|not found|unauthorized|rejected)\b"
)
_PATTERN: Final = re.compile(rb"[][(){}\\^$|?*]")
_SECRET_NAME: Final = re.compile(rb"(?i).key\Z|pat\Z|sig|sess|sid|hmac|csrf|xsrf|sas|x[_-]amz|x[_-]goog")
_PERSON_SPACED: Final = re.compile(
    rb"[A-Z\xc0-\xff][\w\x80-\xff'.-]*(?: (?:van|von|de|der|la|del|di|bin|al) ?)*(?: [A-Z\xc0-\xff][\w\x80-\xff'.-]*){1,4}\Z"
    rb"|\d{1,5}[a-z]? [A-Z]|[A-Z\x80-\xff][\w\x80-\xff.' -]{2,40} \d{1,5}[a-z]?\b(?![.:])"
)
_FILE: Final = re.compile(rb"(?:/|\./|~/|[A-Za-z]:\\)(?:[a-z_.-]+[/\\])*[\w. -]+(?:\.\w{1,8})?\Z|https?://[^\s@]+\Z")
_PEOPLE_WORDS: Final = frozenset(b"null none unknown anonymous user admin root test n/a string str".split())

_CHOSEN: Final = frozenset((b"password", b"secret", b"default", b"hidden", b"changeme"))
"""Plain words that people do choose, if they stand in quotes."""
_NUMBER: Final = re.compile(rb"-?[\d.,]+(?:[eE][+-]?\d+)?\Z")
_SHORTEST_TOKEN: Final = 4
_SHORTEST_RANDOM: Final = 10
_ENOUGH_ENTROPY: Final = 2.7


def harmless(value: bytes) -> bool:
    """Whether a value is empty, a mask, a placeholder, a marker of ours or a plain word."""
    if not value or MARKER.fullmatch(value) or value.startswith(b"[redacted:"):
        return True
    lowered = value.lower()
    return lowered in _WORDS or _MASK.match(value) is not None or _TEMPLATE.match(value) is not None


def random_looking(value: bytes) -> bool:
    """Whether nobody would have chosen this as a word, a version or a file name."""
    if len(value) < _SHORTEST_RANDOM or b" " in value or _DIGIT.search(value) is None:
        return False
    letters = sum(byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" for byte in value)
    if letters < 3 or value.count(b".") > 2 or value.count(b"/") > 3:  # noqa: PLR2004 - a version or a path
        return False
    counts = Counter(value[:256])
    size = sum(counts.values())
    return -sum(n / size * math.log2(n / size) for n in counts.values()) >= _ENOUGH_ENTROPY


def telling(data: bytes, key_start: int, name: bytes, kind: Kind, value: Value) -> bool:
    """Whether the value is to be taken out."""
    content = data[value.start : value.end]
    if harmless(content) or harmless(content.strip(b" \t\\\"',")):
        return kind is Kind.PASSWORD and value.quoted and content.lower() in _CHOSEN
    if (not value.quoted and is_code(data, key_start, name, value)) or _ELSE.match(b"%b=%b" % (name, content)):
        return False
    match kind:
        case Kind.PASSWORD:
            talk = (
                name.lower() in _BRIEF and not value.quoted and content.isalpha() and _SENTENCE.match(data, value.end)
            )
            verdict = not talk and _password(name, content)
        case Kind.TOKEN:
            follows = _TITLED if content.istitle() else _SENTENCE
            sentence = not value.quoted and content.isalpha() and follows.match(data, value.end) is not None
            verdict = not sentence and _token(name, content, quoted=value.quoted)
        case Kind.STRICT:
            verdict = _strict(name, content)
        case Kind.SPACED:
            verdict = _PERSON_SPACED.match(content) is not None
        case Kind.PERSON:
            verdict = content.lower() not in _PEOPLE_WORDS and _person(name, content)
        case Kind.HEADER:
            verdict = _header(data, key_start, name, value) if not value.quoted else _quoted_header(name, content)
        case Kind.PHRASE:
            verdict = True
        case _:
            assert_never(kind)
    return verdict


# A mail server's offers, an issue's number and a test's result.
_ELSE: Final = re.compile(
    rb"(?i:[\w-]*auth)=(?:LOGIN|PLAIN|XOAUTH2?|OAUTHBEARER|CRAM-MD5|NTLM|GSSAPI|DIGEST-MD5|EXTERNAL)\Z|(?i:\w*ticket)=[A-Z]{2,10}-\d{1,7}\Z"
    rb"|PASS=(?:[Tt]est|spec|[\w/.-]*[/.](?:test|spec)|[\w./-]+\.(?:js|ts|tsx|py|go|rb)\b)"
)


def _strict(name: bytes, content: bytes) -> bool:
    if _FILE.match(content) or (_UUID.match(content) and not name.lower()[1:].endswith(b"key")):
        return False
    if _HEX.match(content) and not _SECRET_NAME.search(name):
        return False
    if name.lower().endswith(b"pat") and _PATTERN.search(content):
        return False
    return random_looking(content)


_BRIEF: Final = (b"pass", b"pwd", b"pw")
_SENTENCE: Final = re.compile(rb" [a-z]+(?: |\.|,|\Z)")
_TITLED: Final = re.compile(rb" [A-Za-z]+(?: |\.|,|\Z)")
_SCHEMES: Final = re.compile(rb"(?i)(?:basic|bearer|digest|token|apikey|negotiate|aws4\S*|key|bot|oauth)[ \t]+\S")


_WORDS_ONLY: Final = re.compile(rb"[A-Za-z]+(?: [A-Za-z]+[.,;:]?)*\Z")


def _quoted_header(name: bytes, content: bytes) -> bool:
    return not name.lower().endswith((b"cookie", b"cookies")) or b"=" in content or random_looking(content)


def _one_word(content: bytes) -> bool:
    """Whether nothing but one long word follows the scheme, and none of those that sentences go on with."""
    return content.isalpha() and len(content) >= _SHORTEST_RANDOM and not harmless(content)


def _header(data: bytes, key_start: int, name: bytes, value: Value) -> bool:
    """Whether the rest of a line is a header's value, and not a sentence or an expression."""
    content = data[value.start : value.end]
    scheme = _SCHEMES.match(content)
    if scheme is not None and (not _WORDS_ONLY.match(content) or _one_word(content[scheme.end() - 1 :])):
        return True
    if any(random_looking(part) for part in content[:200].split(None, 4)[:4]):
        return True
    first = content.split(None, 1)[0].rstrip(b",);:")
    if is_code(data, key_start, name, Value(value.start, value.start + len(first), quoted=False)) or harmless(first):
        return False
    if b"_" in first and _NAME.match(first) and _DIGIT.search(first) is None:
        return False
    if name.lower().endswith((b"cookie", b"cookies")):
        return b"=" in content
    return bool(b"=" in content or _DIGIT.search(content) or b" " not in content)


def _password(name: bytes, content: bytes) -> bool:
    if content.isdigit() and (len(content) < 3 or (name.lower() == b"pass" and len(content) < 5)):  # noqa: PLR2004
        return False
    if b" " in content and _COMPLAINT.search(content):
        return False
    return len(content) > 1


def _token(name: bytes, content: bytes, *, quoted: bool) -> bool:  # noqa: PLR0911 - exceptions, read from the top
    if len(content) < _SHORTEST_TOKEN:
        return False
    if _NUMBER.match(content):
        return content.isdigit() and len(content) > 5 and not name.lower().endswith(b"s")  # noqa: PLR2004 - a code
    if _same_word(name, content) or (_TERM.match(content) and kind_of(content) is not None):
        return False
    if _FILE.match(content) and b"?" not in content:
        return False
    if b" " in content and (_DIGIT.search(content) is None or _COMPLAINT.search(content)):
        return False
    if content.isalpha() and (content.isupper() if quoted else content.islower()) and name.lower().endswith(_UNLIKELY):
        return False
    if not quoted and _DIGIT.search(content) is None and not content.isalnum():
        return len(content) > 11  # noqa: PLR2004 - `->`, `~>` and other signs of a grammar
    return True


_TERM: Final = re.compile(rb"[A-Za-z]+(?:[_-][A-Za-z]+)+\Z|[A-Z]?[a-z]+(?:[A-Z][a-z]+)+\Z")
"""A name of two words or more: under a name, it is the name of another field."""
_UNLIKELY: Final = (b"credentials", b"credential", b"creds", b"auth", b"ticket", b"bearer", b"csrf")
"""Names whose values nobody makes up as a word."""


def _same_word(name: bytes, content: bytes) -> bool:
    """Whether a value only repeats its name: `API_KEY = "api_key"`."""
    return name.lower().replace(b"-", b"_").endswith(content.lower().replace(b"-", b"_"))


_CONSTANT: Final = re.compile(rb"[A-Z]+(?:_[A-Z]+)+\Z")
_SNAKE: Final = re.compile(rb"[a-z]+(?:[_/:][a-z0-9.-]+)+\Z")


def _person(name: bytes, content: bytes) -> bool:
    if (
        b"mail" in name.lower().replace(b"mailing", b"")
        and b"@" not in content
        and b"%40" not in content
        and b"u0040" not in content
    ):
        return False
    if _CONSTANT.match(content) or content.startswith((b"0x", b"<", b"(")) or _same_word(name, content):
        return False
    return (
        _SNAKE.match(content) is None
        and _COMPLAINT.search(content) is None
        and (b"/" not in content or bool(_DIGIT.search(content)))
    )


_KEYWORDS: Final = re.compile(rb"[ \t]+(?:(?:or|and|if|else|is|in|not|for|as)\b|[+*%/|=] )")
_IN_TRACEBACK: Final = re.compile(rb'\s*File "[^"\n]*", line \d+')
_ARGUMENTS: Final = re.compile(rb"[\w\]]\((?:[^()]|\([^()]*\))*\Z")
_CONTINUED: Final = re.compile(rb"[ \t]+(?:[a-z_]+=[^=]*,[ \t]*)*\Z")
_REPR: Final = re.compile(rb"\b[A-Z]\w*\([^()'\"]*\Z")
"""A class, as Java, Kotlin and Scala show its values; in code one passes variables on by their own names."""
_PASSED_ON: Final = re.compile(rb"\b(\w+)[ \t]*=[ \t]*\1\b|self|\w\.\w")
_STATEMENT: Final = re.compile(rb" {4,}(?:(?:const|let|var) )?\Z")
_MINIFIED: Final = re.compile(rb"[A-Za-z_$]{1,2}[})\],;]")
_ROOTS: Final = (
    b"self.",
    b"cls.",
    b"os.",
    b"settings.",
    b"config.",
    b"args.",
    b"request.",
    b"this.",
    b"ctx.",
    b"kwargs.",
    b"app.",
    b"conf.",
    b"options.",
    b"secrets.",
    b"process.env",
    b"creds.",
    b"credentials.",
    b"auth.",
    b"token.",
    b"user.",
    b"context.",
    b"client.",
    b"response.",
    b"data.",
)


def is_code(data: bytes, key_start: int, name: bytes, value: Value) -> bool:  # noqa: PLR0911 - signs of code, read from the top
    """Whether a bare value is an expression: a call, an attribute, a variable of the same name."""
    content = data[value.start : value.end]
    if _CALL.match(content) or content.startswith(_ROOTS) or _MINIFIED.match(content):
        return True
    if _DOTTED.match(content) and (_DIGIT.search(content) is None or content.endswith(b"." + name)):
        return True
    if data[value.end : value.end + 1] in (b"(", b"[") or content[:1] in b"&*!~-+([{@|=/":
        return _DIGIT.search(content) is None or content[:1] in b"([{"
    if _NAME.match(content) is None:
        return False
    low, own = content.lower().strip(b"_"), name.lower().strip(b"_-")
    if low == own:
        return True
    if data[key_start - 1 : key_start] == b"." and data[value.start - 1 : value.start] == b" ":
        return _DIGIT.search(content) is None
    plain = own.replace(b"_", b"")
    if data[key_start - 1 : key_start] in (b"'", b'"') and b"_" in low and kind_of(content) is not None:
        return True  # a mapping's values are quoted: this one is a variable
    if len(low) > 2 and (low in own or own in low or plain in low) and _DIGIT.search(content) is None:  # noqa: PLR2004 - `pw`
        return True
    if _DIGIT.search(content) is not None or name.isupper():
        return False
    return _expression(data, key_start, value.end)


_SHORT_NAME: Final = 11
_PLAIN_NAMES: Final = re.compile(
    rb"(?i)pass|pwd|secret|token|key|auth|cred|user|name|conf|value|param|text|str|bytes|data|hash"
)


def _shown(data: bytes, left: bytes, key_start: int, end: int) -> bool:
    """Whether a call is one that a log shows, with values and not with variables: `Config(user=bob, password=...)`."""
    pair = data[key_start:end]
    word = pair.rpartition(b">" if b"->" in pair else b"=")[2].strip()
    opened = _REPR.search(left)
    return (
        opened is not None
        and len(word) >= _SHORTEST_RANDOM - 1
        and word.isalpha()
        and _PLAIN_NAMES.search(word) is None
        and _PASSED_ON.search(left, opened.start()) is None
    )


def _expression(data: bytes, key_start: int, end: int) -> bool:
    """Whether the place is one where code stands: an argument, or the source line of a frame."""
    line = line_start(data, key_start)
    before = data[max(line, key_start - 200) : key_start]
    if before.count(b"'") % 2 or before.count(b'"') % 2:
        return False  # inside a literal
    left = before.rstrip(b" \t")
    right = data[end : end + 12]
    if _KEYWORDS.match(right):
        return True
    if right[:1] in (b",", b")") and (_ARGUMENTS.search(left) or _CONTINUED.match(before)):
        return not _shown(data, left, key_start, end)
    if (
        _STATEMENT.match(before)
        and data[key_start:end].count(b" = ") == 1
        and right[:1] in (b"", b"\r", b"\n", b";", b",")
    ):
        return end - data.find(b" = ", key_start) < _SHORT_NAME or b"_" in data[data.find(b" = ", key_start) : end]
    above = line_start(data, max(0, line - 1))
    return bool(_IN_TRACEBACK.match(data, above, max(above, line))) and before[:4].isspace()
