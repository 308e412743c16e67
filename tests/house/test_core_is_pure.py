"""Core decides from values alone: no clock, chance, environment, logging or I/O."""

import ast
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "src" / "reprieve" / "core"
ALLOWED_MODULES = {
    "__future__", "ast", "base64", "binascii", "bisect", "builtins", "collections", "dataclasses", "email.header",
    "email.utils", "enum", "errno",
    "functools", "hashlib", "itertools", "json", "math", "re", "re2", "tomllib", "types", "typing",
    "unicodedata", "urllib.parse",
}  # fmt: skip
FORBIDDEN_CALLS = {"now", "utcnow", "today", "open", "print", "input"}


def is_allowed(name: str) -> bool:
    return name in ALLOWED_MODULES or name == "collections.abc" or name.startswith(("reprieve.core", "reprieve.errors"))


def offences(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [f"line {node.lineno} imports {name}" for name in names if not is_allowed(name)]
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            on_a_value = isinstance(node.func, ast.Attribute) and called not in {"now", "utcnow", "today"}
            if called in FORBIDDEN_CALLS and not on_a_value:
                found.append(f"line {node.lineno} calls {called}()")
    return found


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: str(path.relative_to(CORE)))
def test_a_module_of_core_touches_nothing_outside(path):
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    ["import time", "from os import environ", "import sqlalchemy", "from reprieve.app import clock", "import urllib.request", "import logging.handlers", "def f():\n    import random", "datetime.now()",
     "datetime.datetime.utcnow()", "open('x')"],
)  # fmt: skip
def test_the_check_itself_can_fail(source):
    assert offences(source) != []
