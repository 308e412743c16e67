"""Reads Python for the checks, in the parser child."""

from __future__ import annotations

import ast
from typing import Any

from reprieve.review.critic.failure_patterns import find_problems


def read_python(text: str) -> dict[str, Any]:
    """The problems of a text, or the place where it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return {"error": [getattr(error, "lineno", None) or 1, str(error)]}
    return {"problems": find_problems(tree)}
