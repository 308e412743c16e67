"""The plans of what is written about deliveries, made when nothing is known but empty tables: no row is found by reading all."""

import json
from itertools import count

import psycopg
import pytest

from reprieve.adapters.sql.deliveries import postgres
from reprieve.adapters.sql.postgres import statements

SAID = {
    "prepare": postgres._PREPARE,
    "what was prepared by others": postgres._PREPARED,
    "begin": postgres._BEGIN,
    "begin once more": postgres._BEGUN,
    "end": postgres._END,
    "end once more": postgres._ENDED,
    "correct": postgres._CORRECT,
    "correct once more": postgres._CORRECTED,
    "wake": postgres._WAKE,
}
BY_STATE = {"ix_queue_waiting"}
"""Indexes that hold only what is looked for."""


def numbered(statement):
    """The statement with its values as PostgreSQL counts them."""
    numbers = count(1)
    first, *rest = statement.split("%b")
    return first + "".join(f"${next(numbers)}{part}" for part in rest)


def nodes(plan):
    yield plan
    for each in plan.get("Plans", []):
        yield from nodes(each)


@pytest.mark.parametrize("name", SAID)
def test_rows_are_found_by_their_keys_even_if_the_plan_was_made_for_empty_tables(postgres_url, name):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute(statements.SESSION)
        told = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered(SAID[name])}".encode()).fetchone()[0]
    (explained,) = told if isinstance(told, list) else json.loads(told)
    scans = [
        node for node in nodes(explained["Plan"]) if node["Node Type"].endswith("Scan") and "Relation Name" in node
    ]
    assert scans
    for node in scans:
        assert "Index Cond" in node or node.get("Index Name") in BY_STATE, node
