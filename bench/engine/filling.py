"""Fill a database with jobs that are over, by set-based SQL that both dialects understand."""

from __future__ import annotations

import sqlite3
from typing import Final

import psycopg

from traces import clean_traces

STACK_SIZE = 2_000
ATTEMPTS = 5

JOBS: Final = """
INSERT INTO jobs (id, idempotency_key, pipeline, first_stage, priority, created_at, payload_type, payload)
SELECT n, CASE WHEN n % 2 = 0 THEN 'cl-' || n || '@1' ELSE {random} END, 'bench', 'stage_0', 0, {moment}, 'v1:0123456789abcdef',
  {payload}
FROM numbers
"""
"""Half of the keys are in order, half are scattered."""

OUTCOMES: Final = """
INSERT INTO outcomes (job_id, status, stage, fence, attempt, started_at, finished_at, result_type, result)
SELECT n, 'succeeded', 'stage_0', 1, 1, {moment}, {moment}, 'v1:0123456789abcdef', {payload} FROM numbers
"""

BURIED: Final = """
INSERT INTO outcomes (job_id, status, status_code, stage, fence, attempt, started_at, finished_at, reason)
SELECT n, 'dead_letter', 599, 'stage_0', 5, 5, {moment}, {moment}, 'budget spent' FROM numbers
"""

TRIED: Final = """
INSERT INTO attempts (job_id, fence, stage, number, cause, counted, started_at, ended_at, worker_id, decision, reason, error_class,
  category, error_type, error_retryable, status_code, message, signature, fingerprint, failure, failure_count, retry_at)
SELECT n, {number}, 'stage_0', {number}, 'handler', true, {moment}, {moment}, 1, {decision}, 'UPSTREAM_5XX', 'UPSTREAM_5XX',
  'upstream', 'retryable', true, 503, 'the model answered 503 to request ' || n, 'the model answered N to request N', {random},
  {failure}, {number}, {retry_at}
FROM numbers
"""

GROUP: Final = """
INSERT INTO dead_letter_groups (id, fingerprint, pipeline, stage, error_class, category, signature, first_seen, last_seen)
SELECT n, {random}, 'bench', 'stage_0', 'UPSTREAM_5XX', 'upstream', 'the model answered N to request N', {moment}, {moment}
FROM numbers
"""
"""Each letter is of a group of its own: the most that there can be."""

LETTERS: Final = """
INSERT INTO dead_letters (id, job_id, fence, group_id, signature, status_code, attempts, budget, pages, escalated,
  first_failure_at, last_failure_at, opened_at)
SELECT n, n, 5, n, 'the model answered N to request N', 503, 5, 5, false, false, {moment}, {moment}, {moment} FROM numbers
"""

TEXTS: Final = """
INSERT INTO dead_letter_texts (letter_id, message, last_stack, sanitized_context, failure, reason, policy)
SELECT n, 'the model answered 503 to request ' || n, {stack}, {failure}, {failure}, 'budget spent', 'criticizer' FROM numbers
"""

COUNTS: Final = "INSERT INTO dead_letter_counts (group_id, state, letters) SELECT n, 'open', 1 FROM numbers"
HOURS: Final = (
    "INSERT INTO dead_letter_hours (hour, group_id, deaths) SELECT (1700000000 + n) / 3600, n, 1 FROM numbers"
)
DEAD: Final = (JOBS, BURIED, GROUP, LETTERS, TEXTS, COUNTS, HOURS)

POSTGRESQL: Final = {
    "moment": "to_timestamp(1700000000 + n)",
    "payload": """convert_to('{{"changelist": ' || n || ', "digest": "' || md5(n::text) || '"}}', 'UTF8')""",
    "random": "md5(n::text)",
    "stack": "(n || {quoted_stack})",
    "failure": '(\'{{"request": "\' || md5(n::text) || \'", "trace": "\' || {quoted_short} || \'"}}\')',
}
SQLITE: Final = {
    "moment": "(1700000000.0 + n)",
    "payload": """CAST('{{"changelist": ' || n || ', "digest": "' || lower(hex(randomblob(16))) || '"}}' AS BLOB)""",
    "random": "lower(hex(randomblob(16)))",
    "stack": "(n || {quoted_stack})",
    "failure": '(\'{{"request": "\' || lower(hex(randomblob(16))) || \'", "trace": "\' || {quoted_short} || \'"}}\')',
}


def statements(finished: int, dead: int, words: dict[str, str]) -> list[str]:
    """What fills a database, step by step."""
    stack = clean_traces(STACK_SIZE)[:STACK_SIZE].replace("'", "''")
    said = {"quoted_stack": f"'{stack}'", "quoted_short": "'{}'".format(stack[:400].replace('"', " "))}
    words = {name: expression.format(**said) for name, expression in words.items()}
    steps: list[tuple[str, int, int, dict[str, str]]] = [(each, 1, finished, {}) for each in (JOBS, OUTCOMES)]
    steps += [(each, finished + 1, finished + dead, {}) for each in DEAD]
    for number in range(1, ATTEMPTS + 1):
        last = number == ATTEMPTS
        of_attempt = {
            "number": str(number),
            "decision": "'dead_letter'" if last else "'retry'",
            "retry_at": "NULL" if last else words["moment"],
        }
        steps.append((TRIED, finished + 1, finished + dead, of_attempt))
    return [
        f"WITH RECURSIVE numbers(n) AS (SELECT {low} UNION ALL SELECT n + 1 FROM numbers WHERE n < {high})"
        + template.format(**words, **more)
        for template, low, high, more in steps
    ]


def fill(url: str, finished: int, dead: int) -> None:
    """Put so many finished jobs and dead letters into a database that has our tables."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN")
        for statement in statements(finished, dead, SQLITE):
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        for statement in statements(finished, dead, POSTGRESQL):
            server.execute(statement.encode())
        for table in ("jobs", "dead_letters", "dead_letter_groups"):
            server.execute(f"SELECT setval('{table}_id_seq', {finished + dead})".encode())
