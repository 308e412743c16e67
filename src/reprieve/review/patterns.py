"""Patterns of paths as CODEOWNERS and .gitattributes have them; matched in linear time, as anybody may have written them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # it ships no types

_LONGEST: Final = 1000
_NOTHING: Final = r"[^\s\S]"


def matches(pattern: str, path: str) -> bool:
    """Whether a path is the pattern's, by itself or with a folder that it is in."""
    return bool(_compiled(pattern).fullmatch(path.encode("utf-8", "replace").decode()))


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - re2 tells no types
    pattern = pattern.encode("utf-8", "replace").decode()
    return re2.compile(_regular(pattern) if 0 < len(pattern) <= _LONGEST else _NOTHING)


def _regular(pattern: str) -> str:
    """A slash at the beginning or inside ties it to the top; one at the end means all that is in a folder."""
    folder = pattern.endswith("/")
    body = pattern.strip("/")
    tied = pattern.startswith("/") or "/" in body
    if not body:
        return _NOTHING
    pieces = ["" if tied else "(?:.*/)?"]
    parts = body.split("/")
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            pieces.append(".*" if last else "(?:.*/)?")
        else:
            pieces.append(_part(part) + ("" if last else "/"))
    if folder:
        pieces.append("/.*")
    elif parts[-1] != "**" and not (tied and parts[-1] == "*"):  # docs/* is what is in docs, not what is below
        pieces.append("(?:/.*)?")
    return "".join(pieces)


def _part(part: str) -> str:
    made, signs = [], iter(part)
    for sign in signs:
        if sign == "*":
            made.append("[^/]*")
        elif sign == "?":
            made.append("[^/]")
        else:
            made.append(re2.escape(next(signs, "\\") if sign == "\\" else sign))
    return "".join(made)
