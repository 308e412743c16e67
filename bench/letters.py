"""A database full of dead letters: fingerprints by Zipf's law, thirty days, every state; by set-based SQL for both dialects."""

from __future__ import annotations

import math
import random
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg

from traces import clean_traces

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW: Final = 1_760_000_000.0
DAYS: Final = 30
DAY: Final = 86_400.0
FINGERPRINTS: Final = 5_000
STACKS: Final = 500
"""Different ones; each is of two thousand characters."""
STACK_SIZE: Final = 2_000
STATES: Final = {
    "open": 35,
    "triaged": 8,
    "remediated": 5,
    "approved": 5,
    "replaying": 2,
    "replayed": 5,
    "resolved": 25,
    "escalated": 5,
    "discarded": 10,
}
"""How many of a hundred."""
CLASSES: Final = (
    ("UPSTREAM_5XX", "upstream"),
    ("NETWORK_TIMEOUT", "network"),
    ("AUTH_DENIED", "auth"),
    ("OVERLOADED", "upstream"),
    ("SCHEMA_INVALID", "validation"),
    ("RATE_LIMITED", "rate_limit"),
    ("NOT_FOUND", "not_found"),
    ("CONFLICT", "conflict"),
    ("CONNECTION_LOST", "network"),
)
STALE: Final = ("OVERLOADED", "upstream")
"""Frequent, but not in the second half of the time."""
RARE: Final = ("POLICY_DENIED", "policy")
"""Only of the rarest fingerprints."""
RARE_ONES: Final = 10
PIPELINES: Final = ("review", "ingest", "mail", "orders")
STAGES: Final = ("fetch", "llm", "notify")

Drawn = tuple[int, int, str, float]
"""Number, group, state, when it died."""
Kind = tuple[int, str, str, str, str, str]
"""A group: its id, fingerprint, pipeline, stage, class and category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What the two dialects say differently."""

    at: str
    """Seconds to a moment."""
    hour: str
    """Of a death."""
    bytes: str
    """A text to bytes."""


POSTGRESQL: Final = Words(
    at="to_timestamp({0})",
    hour="floor(extract(epoch FROM last_failure_at) / 3600)",
    bytes="convert_to({0}, 'UTF8')",
)
SQLITE: Final = Words(at="({0})", hour="CAST(last_failure_at / 3600 AS INTEGER)", bytes="CAST({0} AS BLOB)")

TABLES: Final = (
    "CREATE TEMPORARY TABLE drawn (n INTEGER PRIMARY KEY, kind INTEGER, state TEXT, died DOUBLE PRECISION)",
    """
    CREATE TEMPORARY TABLE kinds (id INTEGER PRIMARY KEY, fingerprint TEXT, pipeline TEXT, stage TEXT, error_class TEXT,
      category TEXT)
    """,
    "CREATE TEMPORARY TABLE stacks (id INTEGER PRIMARY KEY, stack TEXT)",
)

_STEPS: Final = (
    """
    INSERT INTO jobs (id, idempotency_key, pipeline, first_stage, created_at, payload_type, payload)
    SELECT n, 'cl-' || n || '@1', pipeline, 'fetch', {died}, 'v1:0123456789abcdef', {payload}
    FROM drawn JOIN kinds ON kinds.id = kind
    """,
    """
    INSERT INTO outcomes (job_id, status, status_code, stage, fence, attempt, started_at, finished_at, reason)
    SELECT n, CASE WHEN state IN ('replayed', 'resolved') THEN 'succeeded' ELSE 'dead_letter' END,
      CASE WHEN state IN ('replayed', 'resolved') THEN NULL ELSE 599 END, stage, 3, 3, {died}, {died}, 'budget_spent'
    FROM drawn JOIN kinds ON kinds.id = kind WHERE state <> 'replaying'
    """,
    """
    INSERT INTO queue (job_id, pipeline, stage, priority, state, fence)
    SELECT n, pipeline, stage, 0, 0, 4 FROM drawn JOIN kinds ON kinds.id = kind WHERE state = 'replaying'
    """,
    """
    INSERT INTO attempts (job_id, fence, stage, number, cause, counted, started_at, ended_at, decision, reason, error_class,
      category, error_type, error_retryable, message, signature, fingerprint, failure, failure_count, retry_at)
    SELECT n, number, stage, number, 'handler', true, {died}, {died}, decision, decision, error_class,
      category, CASE WHEN category IN ('auth', 'validation', 'not_found', 'policy') THEN 'terminal' ELSE 'retryable' END,
      category NOT IN ('auth', 'validation', 'not_found', 'policy'), 'the upstream answered to request ' || n,
      'the upstream answered to request N', fingerprint, '{{}}', number, CASE WHEN decision = 'retry' THEN {died} END
    FROM drawn JOIN kinds ON kinds.id = kind
    CROSS JOIN (SELECT 1 AS number, 'retry' AS decision UNION SELECT 2, 'retry' UNION SELECT 3, 'dead_letter') tries
    ORDER BY n, number
    """,
    """
    INSERT INTO checkpoints (job_id, stage, fence, attempt, started_at, finished_at, result_type, result)
    SELECT n, 'prepare', 1, 1 + (n % 3) / 2, {died}, {died}, 'v1:0123456789abcdef', {payload} FROM drawn
    """,
    """
    INSERT INTO dead_letter_groups (id, fingerprint, pipeline, stage, error_class, category, signature, first_seen, last_seen)
    SELECT kinds.id, fingerprint, pipeline, stage, error_class, category, 'the upstream answered to request N',
      {first_died}, {last_died}
    FROM kinds JOIN (SELECT kind, min(died) AS first, max(died) AS last FROM drawn GROUP BY kind) seen ON seen.kind = kinds.id
    """,
    """
    INSERT INTO dead_letters (id, job_id, fence, state, group_id, signature, status_code, attempts, budget, pages, escalated,
      cause, replays, first_failure_at, last_failure_at, opened_at, closed_at)
    SELECT n, n, 3, state, kind, 'the upstream answered to request N', 503, 3, 3, false, state = 'escalated',
      CASE WHEN state = 'open' THEN NULL ELSE 'transient' END,
      CASE WHEN state IN ('replaying', 'replayed', 'resolved') THEN 1 ELSE 0 END, {died}, {died}, {died},
      CASE WHEN state IN ('resolved', 'discarded') THEN {closed} END
    FROM drawn
    """,
    """
    INSERT INTO dead_letter_texts (letter_id, message, last_stack, sanitized_context, failure, reason, policy)
    SELECT n, 'the upstream answered to request ' || n, stack, '{{"request": "' || n || '", "stage": "llm"}}', '{{}}',
      'budget_spent', 'criticizer'
    FROM drawn JOIN stacks ON stacks.id = n % {stacks}
    """,
    """
    INSERT INTO dead_letter_history (letter_id, at, actor, event, before, after, note, detail)
    SELECT n, {died}, 'ada', 'triage', 'open', 'triaged', 'the upstream was away, see incident 4711', '{{}}'
    FROM drawn WHERE state <> 'open'
    """,
    """
    INSERT INTO dead_letter_history (letter_id, at, actor, event, before, after, note, detail)
    SELECT n, {died}, 'ada', 'remediate', 'triaged', 'remediated', 'it has been up again since noon', '{{}}'
    FROM drawn WHERE state NOT IN ('open', 'triaged', 'escalated', 'discarded')
    """,
    "INSERT INTO dead_letter_counts SELECT group_id, state, count(*) FROM dead_letters GROUP BY group_id, state ORDER BY 1, 2",
    "INSERT INTO dead_letter_hours SELECT {hour}, group_id, count(*) FROM dead_letters GROUP BY {hour}, group_id ORDER BY 1, 2",
)


def kinds() -> list[Kind]:
    """One for each fingerprint."""
    found: list[Kind] = []
    for number in range(1, FINGERPRINTS + 1):
        error_class, category = RARE if number > FINGERPRINTS - RARE_ONES else CLASSES[number % len(CLASSES)]
        where = (PIPELINES[number % len(PIPELINES)], STAGES[number % len(STAGES)])
        found.append((number, f"v1:{number * 2654435761 % 2**32:08x}", *where, error_class, category))
    return found


def draws(letters: int) -> Iterator[Drawn]:
    """Dead letters in the order in which they died."""
    source = random.Random(7)
    stale = {kind[0] for kind in kinds() if kind[4:] == STALE}
    states, weights = list(STATES), list(STATES.values())
    chosen = source.choices(states, weights, k=letters)
    began, step = NOW - DAYS * DAY, DAYS * DAY / letters
    spread, highest = math.log(FINGERPRINTS + 1), FINGERPRINTS
    for number in range(1, letters + 1):
        kind = min(highest, int(math.exp(source.random() * spread)))
        if kind in stale and number * 2 > letters:
            kind -= 1
        yield number, kind, chosen[number - 1], began + (number - source.random()) * step


def statements(words: Words) -> Iterator[str]:
    """What makes rows of what was drawn."""
    said = {
        "died": words.at.format("died"),
        "first_died": words.at.format("first"),
        "last_died": words.at.format("last"),
        "closed": words.at.format("died + 40000 + n % 50000"),
        "payload": words.bytes.format("""'{"changelist": ' || n || '}'"""),
        "hour": words.hour,
        "stacks": str(STACKS),
    }
    return (step.format(**said) for step in _STEPS)


def stacks() -> list[tuple[int, str]]:
    """Tracebacks, by number."""
    text = clean_traces(STACKS * STACK_SIZE)
    return [(number, text[number * STACK_SIZE : (number + 1) * STACK_SIZE]) for number in range(STACKS)]


def fill(url: str, letters: int) -> None:
    """Put so many dead letters into a database that has our tables, with all that belongs to them."""
    given = {"drawn": draws(letters), "kinds": iter(kinds()), "stacks": iter(stacks())}
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("PRAGMA cache_size = -500000")
        connection.execute("BEGIN")
        for table in TABLES:
            connection.execute(table)
        connection.executemany("INSERT INTO drawn VALUES (?, ?, ?, ?)", given["drawn"])
        connection.executemany("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)", given["kinds"])
        connection.executemany("INSERT INTO stacks VALUES (?, ?)", given["stacks"])
        for statement in statements(SQLITE):
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        for table in TABLES:
            server.execute(table.encode())
        for name, rows in given.items():
            with server.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
        server.execute("ANALYZE drawn")
        for statement in statements(POSTGRESQL):
            server.execute(statement.encode())
        for table in ("jobs", "dead_letters", "dead_letter_groups"):
            server.execute(f"SELECT setval('{table}_id_seq', (SELECT max(id) FROM {table}))".encode())
        server.execute("VACUUM ANALYZE")
