"""Whether somebody below has tried already: then another layer of retries multiplies the load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.core.facts import attribute, integer, item
from reprieve.core.failure import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.core.chain import Link

RULE = "already-retried"


def _by_botocore(exc: BaseException) -> int | None:
    retries = integer(item(item(attribute(exc, "response"), "ResponseMetadata"), "RetryAttempts"))
    return None if retries is None else retries + 1


def _by_tenacity(exc: BaseException) -> int | None:
    return integer(attribute(attribute(exc, "last_attempt"), "attempt_number"))


def _by_instructor(exc: BaseException) -> int | None:
    return integer(attribute(exc, "n_attempts"))


_COUNTED_BY: Final[dict[str, tuple[str, Callable[[BaseException], int | None]]]] = {
    "botocore.ClientError": ("response.ResponseMetadata.RetryAttempts", _by_botocore),
    "tenacity.RetryError": ("last_attempt.attempt_number", _by_tenacity),
    "instructor.InstructorRetryException": ("n_attempts", _by_instructor),
}


def already_retried(link: Link) -> Evidence | None:
    """How many attempts a library below made before it gave up, where it says so."""
    for name in link.names:
        if name in _COUNTED_BY:
            field, count = _COUNTED_BY[name]
            attempts = count(link.exc)
            if attempts is not None and attempts > 1:
                return Evidence(rule=RULE, link=link.path, field=field, value=str(attempts))
    return None
