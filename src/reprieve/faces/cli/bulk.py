"""Many jobs from a file of JSON Lines; memory does not grow with the file."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.submitting import Item, intent_of
from reprieve.errors import SubmitError, UsageError
from reprieve.faces.cli.common import patiently

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from reprieve.app.pipeline import Pipeline

_AT_ONCE: Final = 10_000
_FIELDS: Final = frozenset(each.name for each in fields(Item))
"""What a line of `--items` may hold."""


@dataclass(slots=True)
class Bulk:
    """What became of the lines."""

    submitted: int = 0
    duplicates: int = 0
    mismatches: int = 0


async def submit_lines(url: str, pipeline: Pipeline, source: Path, *, whole: bool) -> Bulk:
    """Submit a payload a line, or a whole item; a line that is wrong ends it, and says what was submitted before."""
    from reprieve.wiring import connect  # noqa: PLC0415 - who asks for help does not wait for it

    done = Bulk()
    try:
        with nullcontext(sys.stdin) if str(source) == "-" else source.open(encoding="utf-8") as file:
            async with AsyncExitStack() as stack:
                app = await patiently(lambda: stack.enter_async_context(connect(url)))
                items = _items(file, whole=whole)
                while some := list(islice(items, _AT_ONCE)):
                    try:
                        made = await app.submit_many(pipeline, [item for _, item in some])
                    except SubmitError:
                        raise
                    except UsageError as error:
                        raise _located(error, pipeline, some) from None
                    done.duplicates += sum(each.duplicate for each in made)
                    done.mismatches += sum(each.mismatch for each in made)
                    done.submitted += len(made) - sum(each.duplicate for each in made)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {source}: {why}") from None
    except SubmitError as error:
        raise SubmitError(
            f"{error}; other lines were submitted, which does no harm again where each has its key"
        ) from None
    except UsageError as error:
        before = done.submitted + done.duplicates
        raise UsageError(
            f"{error}; {f'{before:,} lines before it were' if before else 'nothing was'} submitted"
        ) from None
    return done


def _items(lines: Iterable[str], *, whole: bool) -> Iterator[tuple[int, Item]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"line {number} is not JSON: {_told(error)}") from None
            yield number, _item(number, value) if whole else Item(value)


def _item(number: int, value: Any) -> Item:  # noqa: ANN401 - what JSON can hold
    if not isinstance(value, dict) or "payload" not in value or not value.keys() <= _FIELDS:
        raise UsageError(
            f"line {number} is no item: an object with a payload, and of {', '.join(sorted(_FIELDS))} at will"
        )
    return Item(**value)


def _located(error: UsageError, pipeline: Pipeline, items: list[tuple[int, Item]]) -> UsageError:
    """The same problem with the number of its line."""
    for number, item in items:
        try:
            intent_of(pipeline, item, now=time.time())
        except UsageError as found:
            return UsageError(f"line {number}: {found}")
    return error


def _told(error: Exception) -> str:
    return (
        f"{error.msg}, at column {error.colno}" if isinstance(error, json.JSONDecodeError) else "it is nested too deep"
    )
