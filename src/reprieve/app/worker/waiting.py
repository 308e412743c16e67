"""What a job waits on, as it is kept: a stage may say anything."""

from __future__ import annotations

import re
from typing import Final

from reprieve.app.redaction import redact
from reprieve.core.record import writable

_LONGEST: Final = 200
_REVIEW: Final = "review"
_DELIVERY: Final = re.compile(r"delivery:[0-9]{1,18}")
"""The number of a job, however much it looks like that of a card."""


def waited_on(on: object) -> str:
    """One sanitized line, the same for the same name: who wakes by a name says it through this too."""
    given = str(on)
    if _DELIVERY.fullmatch(given):
        return given
    kept = writable(redact(" ".join(given.split())))[:_LONGEST]
    if given.startswith(_REVIEW) and not kept.startswith(_REVIEW):
        return _REVIEW  # it waits for a person, whatever of its name may be kept
    return kept or "something"
