"""A replay serves who is missing: what failed for good is to be sent again, and the log says by whose word."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from reprieve.adapters.sql.words import Ask, Put
from reprieve.core.delivery import REPLAYED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.adapters.sql.words import Talk, Words


_NOT_GIVEN_UP: Final = """
NOT EXISTS (SELECT 1 FROM delivery_attempts AS a WHERE a.delivery_id = d.id AND a.fence = d.fence AND a.kind = 'give_up')
"""


def resend(words: Words, job_ids: Iterable[int], *, actor: str, now: float) -> Talk[None]:
    """Put the failed deliveries of these jobs back to be sent, if the jobs still have somebody to tell by them."""
    jobs = {"jobs": words.listed(job_ids)}
    others = yield Ask(_of_others(words), jobs)
    if others:
        yield Put(_take_over(words), list({row[0]: row for row in others}.values()))
    found = yield Ask(_unserved(words), jobs)
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
      AND {_NOT_GIVEN_UP}
    ORDER BY id {words.lock("FOR UPDATE SKIP LOCKED")}
    """  # noqa: S608 - assembled from constants


# A recipient of a version has one row, whoever was first to write it: who is replayed for its sake has it from now on, or
# the end of that other job would decide about it. One by its key, in this order of the tables.
@cache
def _of_others(words: Words) -> str:
    return f"""
    SELECT d.id, j.id FROM jobs AS j CROSS JOIN deliveries AS d
    WHERE j.id {words.among("jobs")} AND d.changelist_id = j.subject AND d.review_version = j.version
      AND d.status || '' = 'failed' AND NOT d.job_id {words.among("jobs")} AND {_NOT_GIVEN_UP}
    ORDER BY d.id, j.id DESC {words.lock("FOR UPDATE OF d SKIP LOCKED")}
    """  # noqa: S608 - assembled from constants


@cache
def _take_over(words: Words) -> str:
    given = words.each(id="bigint", job="bigint")
    return f"UPDATE deliveries SET job_id = given.job FROM {given} WHERE deliveries.id = given.id"  # noqa: S608 - constants


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
