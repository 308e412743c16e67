"""Two names for a kind of failure: one to read, one to group by."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_MASKED = re.compile(rf"({_UUID})|\d+(?:\.\d+)*")
_LONG_NUMBER = re.compile(
    rf"({_UUID})|\d{{7,}}"
)  # an id that strayed into a code; SQLSTATEs and error numbers are shorter
SIGNATURE_LENGTH = 100
_FRAMES = 3
_STANDARD_LIBRARY = json.__file__.rpartition("/json/")[0] + "/"
_OURSELVES = __file__.rpartition("/core/")[0] + "/"


def signature(message: str) -> str:
    """The message with UUIDs as "UUID" and numbers as "N", at most 100 characters."""
    return _MASKED.sub(_mask, message)[:SIGNATURE_LENGTH]


def _mask(match: re.Match[str]) -> str:
    return "UUID" if match.group(1) else "N"


Frames = Iterable[tuple[str, str]]
"""(file, function) of each frame of a stack, the outermost first."""


def fingerprint(
    *, stage: str, error_class: str, code: str | None, status: int | None, exception_type: str, frames: Frames
) -> str:
    """A versioned hash of what stays the same from one such failure to the next; no line numbers, no message."""
    facts = (
        stage,
        error_class,
        _LONG_NUMBER.sub(_mask, code or ""),
        "" if status is None else str(status),
        exception_type,
    )
    digest = hashlib.blake2b("\x1f".join((*facts, *_functions(frames))).encode("utf-8", "replace"), digest_size=10)
    return f"v1:{digest.hexdigest()}"


def frames_of(traceback: TracebackType | None) -> Iterator[tuple[str, str]]:
    """The frames of a live traceback."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield code.co_filename, code.co_name
        traceback = traceback.tb_next


def _functions(frames: Frames) -> list[str]:
    """The innermost functions of the application; of libraries where the application has none."""
    ours: list[str] = []
    theirs: list[str] = []
    for filename, function in frames:
        kind = None if function.endswith("comp>") or function == "<genexpr>" else _is_application(filename)
        if kind:
            ours.append(function)
        elif kind is False:
            theirs.append(function)
    return (ours or theirs)[-_FRAMES:]


@lru_cache(maxsize=2048)
def _is_application(filename: str) -> bool | None:
    """Whether a file is the application's own; None for ours, which stand in no stack of interest."""
    name = filename.replace("\\", "/")
    if name.startswith(_OURSELVES):
        return None
    library = name.startswith((_STANDARD_LIBRARY, "<frozen")) or "/site-packages/" in name or "/dist-packages/" in name
    return not library
