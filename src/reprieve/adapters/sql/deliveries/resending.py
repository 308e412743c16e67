"""A replay serves who is missing: what failed for good is to be sent again, and the log says by whose word."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reprieve.adapters.sql.words import Ask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.adapters.sql.words import Talk, Words


def resend(words: Words, job_ids: Iterable[int], *, actor: str, now: float) -> Talk[None]:
    """Put the failed deliveries of these jobs back to be sent."""
    failed = yield Ask(_failed(words), {"jobs": words.listed(job_ids)})
    if failed:
        these = {"ids": words.listed(row[0] for row in failed), "now": now}
        yield Ask(_reset(words), these)
        yield Ask(_log(words), these | {"actor": actor})


# Nobody is waited for: who holds such a row is settling it by hand. The status is no plain column here, so that no index on
# it is chosen over the one on jobs: there may be many that failed.
@cache
def _failed(words: Words) -> str:
    return f"""
    SELECT id FROM deliveries WHERE job_id {words.among("jobs")} AND status || '' = 'failed'
    ORDER BY id {words.lock("FOR UPDATE SKIP LOCKED")}
    """  # noqa: S608 - assembled from constants


@cache
def _reset(words: Words) -> str:
    return f"""
    UPDATE deliveries SET status = 'pending', fence = fence + 1, notification_id = NULL, notified_at = NULL, evidence = NULL,
      not_before = NULL, reason = 'its job is replayed', changed_at = {words.value("now", "moment")}
    WHERE id {words.among("ids")}
    """  # noqa: S608 - assembled from constants


@cache
def _log(words: Words) -> str:
    now = words.value("now", "moment")
    return f"""
    INSERT INTO delivery_attempts (delivery_id, fence, kind, number, started_at, ended_at, answer, message, actor)
    SELECT id, fence, 'resend', attempts, {now}, {now}, 'put back to be sent', reason, {words.value("actor")}
    FROM deliveries WHERE id {words.among("ids")} ORDER BY id
    """  # noqa: S608 - assembled from constants
