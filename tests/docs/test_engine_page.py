"""The page on the engine, run as its reader would: every function of its programs, in their order."""

import ast
from pathlib import Path

from reprieve.adapters.sql.tables import AS_GIVEN
from reprieve.core.breaker import Breaker
from reprieve.core.policy import DEFAULT_BUDGETS

CALL_ALL = """
import asyncio, inspect, engine
for name in {names!r}:
    called = getattr(engine, name)()
    if inspect.iscoroutine(called):
        asyncio.run(called)
    print(name)
"""


def test_every_program_of_the_page_runs(page, reader, tmp_path):
    program = "\n\n".join(page("docs/engine.md").programs)
    (tmp_path / "engine.py").write_text(program, encoding="utf-8")
    functions = [each for each in ast.parse(program).body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = [each.name for each in functions if not each.args.args]
    assert len(names) == 9
    done = reader.python("-c", CALL_ALL.format(names=names))
    assert done.stdout.split() == names, done.stderr


def test_the_page_names_every_column_that_is_stored_as_given(page):
    section = page("docs/engine.md").section("## What is stored as given")
    cells = [line.split("|")[1:3] for line in section.text.splitlines() if line.startswith("| `")]
    named = {table.strip(" `"): columns for tables, columns in cells for table in tables.split(",")}
    told = {table: tuple(column.strip(" `") for column in columns.split(",")) for table, columns in named.items()}
    assert told == AS_GIVEN


def test_the_page_has_the_budgets_and_the_breaker_as_they_are(page):
    text = page("docs/engine.md").text
    for cause, budget in DEFAULT_BUDGETS.items():
        assert f"| {cause.replace('_', ' ')} | {budget} |" in text
    breaker = Breaker()
    assert (breaker.after, breaker.jobs, breaker.longest_hold, breaker.patience) == (5, 3, 30.0, 6 * 3600.0)
    assert "After five retryable failures in a row of one class, of at least three jobs" in text
    assert "up to half a minute" in text
    assert "six hours" in text


def test_no_link_between_pages_leads_nowhere(page):
    root = Path(__file__).parents[2]
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        for target, anchor in page(path.relative_to(root)).links:
            found = path if not target else (path.parent / target)
            assert found.exists(), f"{path.name}: {target}"
            if anchor:
                assert anchor in page(found.resolve().relative_to(root)).anchors, f"{path.name}: {target}#{anchor}"
