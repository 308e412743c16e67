"""Alerts: what somebody has to hear of at once. For now each is an error on the logger `reprieve.alerts`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from reprieve.ports.intents import Bury, Written

if TYPE_CHECKING:
    from reprieve.ports.intents import Retry, SetAside

ALERTS: Final = logging.getLogger("reprieve.alerts")


def tell_escalation(intent: Retry | Bury | SetAside, answer: Written) -> None:
    """Say that a replayed job has failed again with the same class, which is not retryable (CRIT-5.6)."""
    if answer is Written.ESCALATED and isinstance(intent, Bury):
        ALERTS.error(
            "job %d of %s was replayed and failed again at %s with %s: its dead letter is escalated, for engineering to review",
            intent.job_id, intent.letter.pipeline, intent.letter.stage, intent.letter.error_class,
        )  # fmt: skip
