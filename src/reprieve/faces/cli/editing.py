"""A payload that somebody corrects: a whole one from a file, or single fields of the one that is there."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from reprieve.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def read_payload(source: Path) -> object:
    """The JSON of a file, or of standard input."""
    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {source}: {why}") from None
    return _json("the payload", text)


def edited(payload: object, edits: Sequence[str]) -> object:
    """The payload with these fields as they are given: `path=JSON`, the path's parts parted by dots."""
    for edit in edits:
        path, equals, text = edit.partition("=")
        if not (path and equals):
            raise UsageError(f"{edit!r} sets nothing: write path=JSON, as in change.number=42 or name='\"core\"'")
        payload = _with(payload, path.split("."), _json(f"the value of {path}", text), path)
    return payload


def require_kept(edits: Sequence[str], kept: object, whose: str) -> None:
    """Refuse fields that are not there in what validation left: a type drops what it does not know."""
    for edit in edits:
        path, whole = edit.partition("=")[0], kept
        for part in path.split("."):
            match whole:
                case dict() if part in whole:
                    whole = whole[part]
                case list() if part.isdigit() and int(part) < len(whole):
                    whole = whole[int(part)]
                case _:
                    known = tuple(whole) if isinstance(whole, dict) else ()
                    there = f"; there are: {', '.join(known)}" if known else ""
                    problem = f"{whose} has no {path!r}, so nothing would be corrected"
                    raise UsageError(f"{problem}{did_you_mean(part, known)}{there}")


def _with(whole: Any, parts: Sequence[str], value: object, path: str) -> Any:  # noqa: ANN401 - what JSON can hold
    part, *rest = parts
    match whole:
        case dict() if not rest:
            return {**whole, part: value}
        case dict() if part in whole:
            return {**whole, part: _with(whole[part], rest, value, path)}
        case list() if part.isascii() and part.isdigit() and int(part) < len(whole):
            place = int(part)
            return [*whole[:place], _with(whole[place], rest, value, path) if rest else value, *whole[place + 1 :]]
        case _:
            raise UsageError(f"the payload has nothing at {part!r} of {path!r}")


def _json(what: str, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        hint = "; a text stands in quotes, '\"like this\"'" if what != "the payload" else ""
        raise UsageError(
            f"{what} is not JSON: {error.msg}, in line {error.lineno}, column {error.colno}{hint}"
        ) from None
    except RecursionError:
        raise UsageError(f"{what} is nested too deep") from None
