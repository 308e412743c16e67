"""Dead letters as JSON Lines; memory does not grow with their number."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reprieve.errors import UsageError
from reprieve.faces.cli.dead_views import detail_as_json, row_as_json
from reprieve.faces.cli.output import hush

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

    from reprieve.app.operations.dead_letters import DeadLetterOperations
    from reprieve.ports.dead_letters import LetterFilter


async def write(letters: DeadLetterOperations, wanted: LetterFilter, output: Path | None, *, whole: bool) -> int:
    """Write a line for each; how many."""
    written = 0
    with _opened(output) as file:
        async for row in letters.export(wanted):
            told = detail_as_json(await letters.show(row.letter_id)) if whole else row_as_json(row)
            file.write(json.dumps(told, ensure_ascii=False) + "\n")
            written += 1
    return written


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    """A file that is there only once it is whole; or standard output, which may be closed by who reads it."""
    if output is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:
            hush()  # nobody reads on
        except OSError as error:
            hush()
            raise UsageError(f"cannot write the output: {error.strerror}") from None
        return
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(output)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
