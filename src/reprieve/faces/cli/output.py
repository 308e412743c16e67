"""Standard output, which may be closed by who reads it, or full."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from reprieve.errors import UsageError


def put(text: str) -> None:
    """Print it with a line's end. Where nobody reads on, that is no error; where it cannot be written, it is one."""
    try:
        print(text, flush=True)  # noqa: T201 - the command line's way to speak
    except BrokenPipeError:
        hush()
    except OSError as error:
        hush()
        raise UsageError(f"cannot write the output: {error.strerror}") from None


def hush() -> None:
    """Write nothing more: what is left must not be flushed at the end either."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
