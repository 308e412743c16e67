"""The last resort: what the words say. In the order of the ingestion policy, and blind to quoted input."""

from __future__ import annotations

import re
from typing import Final

from reprieve.core import http
from reprieve.core.facts import without_quotes
from reprieve.core.failure import ErrorClass, Severity
from reprieve.core.finding import Finding, Weight

_of = ErrorClass
_INPUT_FOLLOWS = re.compile(
    r"\b(?:input|received|value|got|payload|body|text|prompt|content|message was)\s*[:=].*", re.IGNORECASE | re.DOTALL
)
_STATUS = re.compile(
    r"\b(?:HTTP(?:/\d(?:\.\d)?)?|status(?:[ _]?code)?|error code|response code)\s*[:=]?\s*\(?([1-5]\d\d)\b(?![.\d])",
    re.IGNORECASE,
)
_LIMIT = 4000

_PHRASES: Final = (
    ("rate-limit", "rate limit(?:s|ed|ing)?|too many requests|rate_limit(?:_exceeded|_error)?", Finding(_of.RATE_LIMITED)),
    ("timeout", "timeouts?|timeouterror|etimedout|timed out|deadline exceeded", Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True)),
    ("reset", "econnreset|connection reset|connection aborted|connection closed|broken pipe|epipe|server disconnected",
     Finding(_of.CONNECTION_RESET, outcome_unknown=True)),
    ("refused", "econnrefused|connection refused", Finding(_of.CONNECTION_REFUSED)),
    ("name", "enotfound|eai_again|name resolution|name or service not known|getaddrinfo", Finding(_of.DNS_FAILURE)),
    ("network", "network", Finding(_of.CONNECTION_RESET, outcome_unknown=True)),
    ("unavailable", "service unavailable|temporarily unavailable|bad gateway", Finding(_of.UPSTREAM_UNAVAILABLE)),
    ("overloaded", "overloaded", Finding(_of.OVERLOADED)),
    ("server", "internal server error", Finding(_of.UPSTREAM_ERROR, outcome_unknown=True)),
    ("auth", "unauthorized|authentication", Finding(_of.AUTH_DENIED, severity=Severity.PERMANENT)),
    ("forbidden", "forbidden|permission denied|access denied", Finding(_of.PERMISSION_DENIED)),
    ("validation", "validation|invalid|malformed", Finding(_of.SCHEMA_INVALID)),
)  # fmt: skip
_ANYWHERE: Final = tuple((name, re.compile(words), finding) for name, words, finding in _PHRASES)
_ALONE: Final = tuple(
    (name, re.compile(rf"(?<![\w/.])(?:{words})(?!\w|[-./]\w)"), finding) for name, words, finding in _PHRASES
)


def own_words(message: str) -> str:
    """The speaker's own words: without what stands in quotes or follows `input:`."""
    return _INPUT_FOLLOWS.sub(" ", without_quotes(message[:_LIMIT]))


def of_words(message: str, now: float, *, to_the_letter: bool = False) -> Finding | None:
    """What a bare message says: a status that is named as one, then the phrases in their order.

    A phrase has to stand by itself, not inside a word, a path or a name; the letter of the ingestion policy is "contains".
    """
    words = own_words(message)
    named = _STATUS.search(words)
    if named is not None:
        found = http.of_status(int(named.group(1)), None, now)
        if found is not None:
            return found.but(rule=f"text.{found.rule}", field="message", value=named.group(1))
    lowered = words.lower()
    for name, pattern, finding in _ANYWHERE if to_the_letter else _ALONE:
        match = pattern.search(lowered)
        if match is not None:
            return finding.but(rule=f"text.{name}", field="message", value=match.group())
    return None


_NAMES: Final = (
    (re.compile(r"Timeout|TimedOut|DeadlineExceeded"), Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True)),
    (re.compile(r"RateLimit|TooManyRequests|Throttl"), Finding(_of.RATE_LIMITED)),
    (re.compile(r"Unavailable|BadGateway"), Finding(_of.UPSTREAM_UNAVAILABLE)),
    (re.compile(r"Overload"), Finding(_of.OVERLOADED)),
    (re.compile(r"Connection(?!Config)|Disconnected|Network|Transport"),
     Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT)),
    (re.compile(r"Unauthorized|Unauthenticated|Authentication|InvalidCredentials|AuthError|LoginFailed"),
     Finding(_of.AUTH_DENIED, severity=Severity.PERMANENT)),
    (re.compile(r"Forbidden|PermissionDenied|AccessDenied|NotAuthorized"), Finding(_of.PERMISSION_DENIED)),
    (re.compile(r"NotFound|DoesNotExist|NoSuch"), Finding(_of.NOT_FOUND)),
    (re.compile(r"Validation|Schema|Malformed|ParseError|DecodeError|InvalidInput|InvalidRequest|BadRequest"), Finding(_of.SCHEMA_INVALID)),
    (re.compile(r"Conflict|Duplicate|AlreadyExists|StaleData|OptimisticLock"), Finding(_of.WRITE_CONFLICT)),
    (re.compile(r"Misconfigur|ImproperlyConfigured|Config(?:uration)?Error|Setting"), Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)),
)  # fmt: skip


def of_type_name(name: str) -> Finding | None:
    """What the name of an unknown exception says; the `package.Class` of its own class only."""
    for pattern, finding in _NAMES:
        match = pattern.search(name.rpartition(".")[2])
        if match is not None:
            return finding.but(rule="type-name", field="type", value=match.group())
    return None
