"""The ids under which upstreams know the request that failed: what their support asks for first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reprieve.core.chain import Walk, links
from reprieve.core.facts import attribute, header, headers_of, item, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADERS: Final = (
    "x-request-id", "request-id", "x-amzn-requestid", "x-amz-request-id", "x-correlation-id", "x-ms-request-id",
    "x-goog-request-id", "x-github-request-id", "x-slack-req-id", "cf-ray", "traceparent",
)  # fmt: skip
_ATTRIBUTES: Final = ("request_id", "_request_id")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=/+-]{3,199}")
_MOST: Final = 8


def request_ids(exc: BaseException) -> tuple[str, ...]:
    """All that the exception and those behind it name, the outermost first; only what looks like an id."""
    found = dict.fromkeys(each for each in _all(exc) if _PLAIN.fullmatch(each))
    return tuple(found)[:_MOST]


def _all(exc: BaseException) -> Iterator[str]:
    for link in links(exc, Walk()):
        for name in _ATTRIBUTES:
            yield text_of(attribute(link.exc, name)) or ""
        headers = headers_of(link.exc)
        for name in _HEADERS:
            yield header(headers, name) or ""
        metadata = item(attribute(link.exc, "response"), "ResponseMetadata")
        yield text_of(item(metadata, "RequestId")) or ""
