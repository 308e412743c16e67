"""Failures made to order, for tests of hooks, policies and whatever else is handed one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reprieve.core.failure import TAXONOMY, ErrorClass, Failure
from reprieve.errors import UnknownNameError


def failure_of(error_class: str, **changes: Any) -> Failure:  # noqa: ANN401 - the fields of Failure, each of its own type
    """A failure as the taxonomy has its class, with the given fields changed."""
    kind = TAXONOMY.get(error_class)
    if kind is None:
        raise UnknownNameError("error class", error_class, tuple(TAXONOMY))
    plain = Failure(
        category=kind.category,
        error_class=ErrorClass(error_class),
        retryable=kind.retryable,
        requires_idempotent=kind.requires_idempotent,
        retry_after=None,
        status_code=None,
        severity=kind.severity,
        outcome_unknown=False,
        scope=kind.scope,
        message="",
        signature="",
        fingerprint="v1:0",
        exception_type="",
        code=None,
        evidence=(),
    )
    return replace(plain, **changes)
