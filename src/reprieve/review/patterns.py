"""Patterns of paths as CODEOWNERS and .gitattributes have them; matched in linear time, as anybody may have written them."""

from __future__ import annotations

from typing import Any, Final

import re2  # type: ignore[import-untyped]  # it ships no types

_LONGEST: Final = 1000
_NOTHING: Final = r"[^\s\S]"


class Pattern:
    """One of them, compiled for as many paths as there are."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        text = text.encode("utf-8", "replace").decode()
        self._compiled: Any = re2.compile(_regular(text) if 0 < len(text) <= _LONGEST else _NOTHING)

    def fits(self, path: str) -> bool:
        """Whether a path is the pattern's, by itself or with a folder that it is in."""
        return self._compiled.fullmatch(path.encode("utf-8", "replace").decode()) is not None


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
