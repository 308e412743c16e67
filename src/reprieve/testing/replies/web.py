"""What any HTTP upstream can answer: waits in every form, redirects, and bodies that are not what they say."""

from __future__ import annotations

import datetime as dt
from email.utils import format_datetime

from reprieve.testing.acts import HangUp, Moment, Raw, Reply


def unavailable(retry_after: str | None = None) -> Reply:
    """503, with this Retry-After where there is one."""
    return Reply(503, "down for a moment", {} if retry_after is None else {"Retry-After": retry_after})


def too_many_requests(retry_after: str | None = None) -> Reply:
    """429, with this Retry-After where there is one."""
    return Reply(429, "slow down", {} if retry_after is None else {"Retry-After": retry_after})


def retry_after_forms(now: float) -> dict[str, dict[str, str]]:
    """Headers for every form of Retry-After that upstreams send, good and bad; a good one means 30 s after `now`."""
    later = dt.datetime.fromtimestamp(now, dt.UTC) + dt.timedelta(seconds=30)
    earlier = later - dt.timedelta(days=1)
    return {
        "seconds": {"Retry-After": "30"},
        "fraction": {"Retry-After": "30.0"},
        "milliseconds": {"retry-after-ms": "30000"},
        "date": {"Retry-After": format_datetime(later, usegmt=True)},
        "date without zone": {"Retry-After": later.strftime("%a, %d %b %Y %H:%M:%S")},
        "date of RFC 850": {"Retry-After": later.strftime("%A, %d-%b-%y %H:%M:%S GMT")},
        "date of asctime": {"Retry-After": later.strftime("%a %b %e %H:%M:%S %Y")},
        "past date": {"Retry-After": format_datetime(earlier, usegmt=True)},
        "absurd year": {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"},
        "zero": {"Retry-After": "0"},
        "negative": {"Retry-After": "-5"},
        "not a number": {"Retry-After": "nan"},
        "infinite": {"Retry-After": "inf"},
        "word": {"Retry-After": "soon"},
        "empty": {"Retry-After": ""},
    }


def redirect(to: str, status: int = 302) -> Reply:
    """A redirect; one that leads to itself, given to `always`, is a loop."""
    return Reply(status, headers={"Location": to})


def truncated() -> HangUp:
    """A body that ends before its Content-Length."""
    return HangUp(at=Moment.BODY)


def broken_chunks() -> Raw:
    """A chunked body whose second chunk has no size."""
    return Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnot-a-size\r\n")


def cut_chunks() -> Raw:
    """A chunked body that ends without its last chunk."""
    return Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")


def garbage() -> Raw:
    """Bytes that are not HTTP."""
    return Raw(b"\x00\xff\x13\x37 not the protocol you expected\r\n\r\n")


def malformed_json() -> Reply:
    """A body that says it is JSON and breaks off."""
    return Reply(200, '{"items": [1, 2,', {"Content-Type": "application/json"})


def wrong_content_type() -> Reply:
    """A login page where JSON was asked for."""
    return Reply(200, "<html><body>please sign in</body></html>", {"Content-Type": "text/html"})


def not_gzip() -> Reply:
    """A body that says it is compressed and is not."""
    return Reply(200, "plain after all", {"Content-Encoding": "gzip", "Content-Type": "application/json"})
