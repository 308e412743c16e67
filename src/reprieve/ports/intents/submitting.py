"""Creating jobs."""

from __future__ import annotations

from typing import Final

from reprieve.core.value import value

HIGHEST_VERSION: Final = 2**31 - 1


@value
class Submit:
    """Create a job, or find the one that has its key or its (pipeline, subject, version)."""

    idempotency_key: str
    pipeline: str
    stage: str
    """The first one."""
    payload: bytes
    payload_type: str
    """Fingerprint of the payload's type."""
    created_at: float
    priority: int = 0
    """Higher ones first."""
    run_at: float | None = None
    """Not before; None: at once."""
    subject: str | None = None
    version: int | None = None
    next_version: bool = False
    """One above all that the subject has had, settled where it is written; `version` is None then."""
    supersedes: tuple[str, ...] = ()
    """Open jobs of the same subject with a lower version that stand at one of these stages are cancelled."""


@value
class Submitted:
    """The job that there is now."""

    job_id: int
    duplicate: bool = False
    """It was there before; nothing was created."""
    mismatch: bool = False
    """It was there before, with another payload."""
    superseded: tuple[int, ...] = ()
    version: int | None = None
    """Where the next one was asked for: which it has become, or had been."""


@value
class KeyTaken:
    """Refused: the key belongs to a job of another pipeline."""

    pipeline: str


@value
class VersionTooLow:
    """Refused: the subject has a version that is as high or higher."""

    highest: int
