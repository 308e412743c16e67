"""What HTTP says about a failure: statuses, Retry-After, and the limits that providers put into headers."""

from __future__ import annotations

import re
from typing import Final

from reprieve.core.facts import header
from reprieve.core.failure import ErrorClass, Scope, Severity
from reprieve.core.finding import Finding

_PERMANENT = Severity.PERMANENT
_REDIRECT = Finding(ErrorClass.CONFIG_INVALID, severity=_PERMANENT)

STATUSES: Final[dict[int, Finding]] = {
    401: Finding(ErrorClass.AUTH_DENIED),
    402: Finding(ErrorClass.QUOTA_EXHAUSTED),
    403: Finding(ErrorClass.PERMISSION_DENIED),
    404: Finding(ErrorClass.NOT_FOUND),
    407: Finding(ErrorClass.AUTH_DENIED),
    408: Finding(ErrorClass.NETWORK_TIMEOUT),
    409: Finding(ErrorClass.WRITE_CONFLICT),
    410: Finding(ErrorClass.NOT_FOUND),
    412: Finding(ErrorClass.WRITE_CONFLICT),
    413: Finding(ErrorClass.PAYLOAD_TOO_LARGE),
    420: Finding(ErrorClass.RATE_LIMITED),
    421: Finding(ErrorClass.CONNECTION_RESET, scope=Scope.NEW_CONNECTION),
    423: Finding(ErrorClass.LOCK_TIMEOUT),
    425: Finding(ErrorClass.UPSTREAM_UNAVAILABLE),
    429: Finding(ErrorClass.RATE_LIMITED),
    451: Finding(ErrorClass.POLICY_REJECTED),
    498: Finding(ErrorClass.AUTH_DENIED),
    501: Finding(ErrorClass.CONFIG_INVALID, severity=_PERMANENT),
    502: Finding(ErrorClass.UPSTREAM_UNAVAILABLE, outcome_unknown=True),
    503: Finding(ErrorClass.UPSTREAM_UNAVAILABLE, outcome_unknown=True),
    504: Finding(ErrorClass.UPSTREAM_UNAVAILABLE, outcome_unknown=True),
    505: Finding(ErrorClass.CONFIG_INVALID, severity=_PERMANENT),
    507: Finding(ErrorClass.RESOURCE_EXHAUSTED, outcome_unknown=True),
    509: Finding(ErrorClass.RATE_LIMITED),
    529: Finding(ErrorClass.OVERLOADED, outcome_unknown=True),
}
_SERVER_ERROR = Finding(ErrorClass.UPSTREAM_ERROR, outcome_unknown=True)
_CLIENT_ERROR = Finding(ErrorClass.REQUEST_REJECTED)
_LONGEST_WAIT = 366 * 86_400.0
_EPOCH_AND_NOT_A_DURATION = 1_000_000_000.0


def of_status(status: int, headers: object, now: float) -> Finding | None:
    """What a status means, with its headers; None for success and what is no status."""
    if status in STATUSES:
        found = STATUSES[status]
    elif 300 <= status < 400:  # noqa: PLR2004 - the classes of RFC 9110
        found = _REDIRECT
    elif 400 <= status < 500:  # noqa: PLR2004
        found = _CLIENT_ERROR
    elif 500 <= status < 600:  # noqa: PLR2004
        found = _SERVER_ERROR
    else:
        return None
    wait = retry_after(headers, now)
    if status == 403 and _is_limited(headers, wait):  # noqa: PLR2004 - GitHub says 429 so
        found = STATUSES[429]
    if found.error_class is ErrorClass.RATE_LIMITED and wait is None:
        wait = _reset_at(headers, now)
    if status == 413 and wait is not None:  # noqa: PLR2004 - RFC 9110: Retry-After says that it is temporary
        found = found.but(retryable=True)
    should_retry = header(headers, "stripe-should-retry") or header(headers, "x-should-retry")
    if should_retry in ("true", "false"):
        found = found.but(retryable=should_retry == "true")
    return found.but(rule=f"http.{status}", field="status", value=str(status), status=status, retry_after=wait)


def _is_limited(headers: object, wait: float | None) -> bool:
    remaining = header(headers, "x-ratelimit-remaining")
    return remaining == "0" or (wait is not None and remaining is not None)


def _reset_at(headers: object, now: float) -> float | None:
    """GitHub's X-RateLimit-Reset: an epoch. Others put a duration there, which nobody can tell from a count."""
    reset = _number(header(headers, "x-ratelimit-reset"))
    if reset is None or reset < _EPOCH_AND_NOT_A_DURATION or header(headers, "x-ratelimit-remaining") != "0":
        return None
    return bounded(max(0.0, reset - now))


def retry_after(headers: object, now: float) -> float | None:
    """Seconds to wait: milliseconds first, then seconds, then an HTTP-date; None where absent or absurd."""
    if headers is None:
        return None
    milliseconds = _number(header(headers, "retry-after-ms")) if header(headers, "retry-after-ms") else None
    if milliseconds is not None:
        return bounded(milliseconds / 1000)
    value = header(headers, "retry-after")
    return None if value is None else wait_from_text(value, now)


def wait_from_text(value: str, now: float) -> float | None:
    """A Retry-After value as seconds."""
    seconds = _number(value)
    if seconds is not None:
        return bounded(seconds)
    moment = http_date(value)
    return None if moment is None else bounded(max(0.0, moment - now))


def bounded(seconds: float) -> float | None:
    """A wait that can be meant: finite, not negative, within a year."""
    return seconds if 0.0 <= seconds <= _LONGEST_WAIT else None


_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?")


def _number(value: str | None) -> float | None:
    value = (value or "").strip()
    return float(value) if _NUMBER.fullmatch(value) else None


_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], start=1
    )
}
_DATE = re.compile(
    r"""(?:[a-z]+,?\s+)?
        (?: (?P<day>\d{1,2})[\s-](?P<month>[a-z]{3})[\s-](?P<year>\d{2}|\d{4})\s+(?P<clock>\d{1,2}:\d{2}:\d{2})
          | (?P<month2>[a-z]{3})\s+(?P<day2>\d{1,2})\s+(?P<clock2>\d{1,2}:\d{2}:\d{2})\s+(?P<year2>\d{4}) )
        \s*(?P<zone>gmt|utc|z|[+-]\d{4})?""",
    re.VERBOSE | re.IGNORECASE,
)


def http_date(value: str) -> float | None:
    """An HTTP-date (all three historic forms; no zone means UTC) as seconds since the epoch."""
    match = _DATE.fullmatch(value.strip())
    if match is None:
        return None
    part = match.groupdict()
    month = _MONTHS.get((part["month"] or part["month2"]).lower())
    day, year = int(part["day"] or part["day2"]), int(part["year"] or part["year2"])
    hour, minute, second = (int(number) for number in (part["clock"] or part["clock2"]).split(":"))
    if year < 100:  # noqa: PLR2004 - RFC 850: two digits, this century unless that is far ahead
        year += 2000 if year < 70 else 1900  # noqa: PLR2004
    if month is None or not (1970 <= year <= 9999 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):  # noqa: PLR2004
        return None
    if _days(year, month, day) >= _days(year + month // 12, month % 12 + 1, 1):  # no 30th of February
        return None
    zone = part["zone"] or "gmt"
    shift = 0 if zone[0] not in "+-" else int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)
    return float(_days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - shift)


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the Gregorian calendar, counted from a year that begins in March."""
    year -= month <= 2  # noqa: PLR2004
    era_day = 365 * year + year // 4 - year // 100 + year // 400
    return era_day + (153 * ((month + 9) % 12) + 2) // 5 + day - 719_469
