"""A replay serves who is missing: what failed for good is to be sent again, and the log says by whose word."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reprieve.adapters.sql.words import Ask
from reprieve.core.delivery import REPLAYED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.adapters.sql.words import Talk, Words


def resend(words: Words, job_ids: Iterable[int], *, actor: str, now: float) -> Talk[None]:
    """Put the failed deliveries of these jobs back to be sent, if the jobs still have somebody to tell by them."""
    found = yield Ask(_unserved(words), {"jobs": words.listed(job_ids)})
    if found:
        yield Ask(_reset(words), {"ids": words.listed(row[0] for row in found), "now": now})
    failed = [row[0] for row in found if row[1] == "failed"]
    if failed:
        yield Ask(_log(words), {"ids": words.listed(failed), "now": now, "actor": actor})


# What a person gave up may have been received: only a person has that sent again. What is pending is marked, too: the replay
# may be about other recipients, and then it is not to be sent.
# Nobody is waited for: who holds such a row is settling it by hand. The status is no plain column here, so that no index on
# it is chosen over the one on jobs: there may be many that failed.
@cache
def _unserved(words: Words) -> str:
    return f"""
    SELECT id, status FROM deliveries AS d WHERE job_id {words.among("jobs")} AND status || '' IN ('failed', 'pending')
      AND NOT EXISTS (SELECT 1 FROM delivery_attempts AS a WHERE a.delivery_id = d.id AND a.fence = d.fence AND a.kind = 'give_up')
    ORDER BY id {words.lock("FOR UPDATE SKIP LOCKED")}
    """  # noqa: S608 - assembled from constants


@cache
def _reset(words: Words) -> str:
    return f"""
    UPDATE deliveries SET status = 'pending', fence = fence + 1, notification_id = NULL, notified_at = NULL, evidence = NULL,
      not_before = NULL, resent = false, reason = '{REPLAYED}', changed_at = {words.value("now", "moment")}
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
