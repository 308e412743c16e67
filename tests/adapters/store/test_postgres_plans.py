"""The plans of the hot statements, made when nothing is known but an empty queue: no row is found by reading all of them."""

import json
import re

import psycopg
import pytest

from reprieve.adapters.sql.postgres import claiming, statements

HOT = {
    "claim": claiming._CLAIM,
    "claim of a suspect": claiming._CLAIM_SUSPECT,
    "promote": claiming._PROMOTE,
    "finish": statements.FINISH,
    "checkpoint": statements.CHECKPOINT,
}


def numbered(statement):
    """The statement with its values as PostgreSQL counts them."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)b", statement)))
    return re.sub(r"%\((\w+)\)b", lambda found: f"${names.index(found[1]) + 1}", statement)


def nodes(plan):
    yield plan
    for each in plan.get("Plans", []):
        yield from nodes(each)


@pytest.mark.parametrize("name", HOT)
def test_rows_are_found_by_their_keys_even_if_the_plan_was_made_for_an_empty_queue(postgres_url, name):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute(statements.SESSION)
        told = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered(HOT[name])}").fetchone()[0]
    (explained,) = told if isinstance(told, list) else json.loads(told)
    by_key = [
        node
        for node in nodes(explained["Plan"])
        if node.get("Index Name", "").startswith("pk_") and node["Relation Name"] in {"queue", "jobs"}
    ]
    assert by_key
    assert [node["Relation Name"] for node in by_key if "Index Cond" not in node] == []
