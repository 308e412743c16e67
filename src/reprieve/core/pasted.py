"""A traceback that somebody pasted, as an exception that can be judged like a live one."""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any, cast

_MARGIN = re.compile(r"^[ ]*(?:\+-[+\-]*[ \d-]*|\|[ ]?)", re.MULTILINE)
_BETWEEN_LEAVES = re.compile(r"^[ |]*\+-[+-]*[ ]*\d*[ -]*$", re.MULTILINE)
_HEAD = re.compile(r"^(?:Exception Group )?Traceback \(most recent call last\):[ \t]*$", re.MULTILINE)
_PREFIXED_HEAD = re.compile(r"^(.{1,200}?)Traceback \(most recent call last\):[ \t]*$", re.MULTILINE)
_LOG_LINE = re.compile(r"\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\{\"")
_FRAME = re.compile(r'^[ ]{2,}File "(?P<file>[^"\n]*)", line \d+(?:, in (?P<function>.+))?$', re.MULTILINE)
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:\.<locals>\.\w+)*)(?::[ ]?(?P<message>.*))?$")
_LINK = re.compile(
    r"^(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):[ \t]*$",
    re.MULTILINE,
)
_ERRNO = re.compile(r"\[Errno (-?\d+)\]")
_ERROR_CODE = re.compile(r"^Error code: (\d{3})(?: - (?P<body>[{\[].*))?", re.DOTALL)
_REPLY = re.compile(r"^\((\d{3}), (b?['\"].*)", re.DOTALL)
_LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class Pasted:
    """The raised exception with its causes behind it, and the frames of its own stack."""

    exc: BaseException
    frames: tuple[tuple[str, str], ...]


def parse_traceback(text: str) -> Pasted | None:
    """Read the last traceback of a text, its chain included; None where there is none in it."""
    text = text[-_LONGEST:].replace("\r\n", "\n")
    group = _group(text)
    if group is not None:
        return group
    text = _unprefixed(text)
    if _HEAD.search(text) is None:
        return None
    outer: Exception | None = None
    frames: tuple[tuple[str, str], ...] = ()
    heads = [match.start() for match in _HEAD.finditer(text)]
    for start, end in zip(heads, [*heads[1:], len(text)], strict=True):
        part, inner = text[start:end], outer
        found = _raised(_LINK.split(part)[0])
        if found is not None:
            outer, frames = found
            outer.__cause__ = inner
        if _LINK.search(part) is None and end < len(text):  # the next one is another failure, and a later one counts
            outer = None
    return None if outer is None else Pasted(outer, frames)


def _group(text: str) -> Pasted | None:
    """A group of exceptions, drawn with its margins; its leaves are what counts."""
    start = text.rfind("Exception Group Traceback (most recent call last):")
    if start < 0:
        return None
    first, *rest = _BETWEEN_LEAVES.split(text[start:])
    frames = tuple(
        (match["file"], match["function"] or "<module>") for match in _FRAME.finditer(_MARGIN.sub("", first))
    )
    leaves = [leaf for leaf in (_leaf(_MARGIN.sub("", piece)) for piece in rest) if leaf is not None]
    return Pasted(ExceptionGroup("pasted", leaves), frames) if leaves else None


def _leaf(piece: str) -> Exception | None:
    """One leaf, with its own traceback or bare."""
    found = _raised(piece)
    if found is not None:
        return found[0]
    match = _RAISED.match(piece.strip())
    return None if match is None or not match["message"] else _stand_in(match["type"], match["message"])


def _unprefixed(text: str) -> str:
    """The text without what a logger or a group's margin puts before every line of a traceback."""
    if _HEAD.search(text) is not None:
        return text
    marginless = _MARGIN.sub("", text)
    if _HEAD.search(marginless) is not None:
        return marginless
    prefixed = _PREFIXED_HEAD.search(text)
    if prefixed is None:
        return text
    width = len(prefixed.group(1))
    return "\n".join(line[width:] for line in text[prefixed.start() :].split("\n"))


def _raised(part: str) -> tuple[Exception, tuple[tuple[str, str], ...]] | None:
    """One exception of the chain: the first unindented `Type: message` after the frames, and what goes on below it."""
    head = _HEAD.search(part)
    if head is None:
        return None
    body = part[head.end() :]
    frames = tuple((match["file"], match["function"] or "<module>") for match in _FRAME.finditer(body))
    lines = body.split("\n")
    for number, line in enumerate(lines):
        match = _RAISED.match(line)
        if match is not None:
            below = takewhile(lambda each: each.strip() and not _LOG_LINE.match(each), lines[number + 1 :])
            return _stand_in(match["type"], "\n".join([match["message"] or "", *below]).rstrip()), frames
    return None


class _StandIn(Exception):  # noqa: N818 - never raised
    """The words of an exception that was raised elsewhere; kept on the instance, since classes are remembered."""

    words = ""

    def __str__(self) -> str:
        return self.words


def _stand_in(name: str, message: str) -> Exception:
    """An exception with the name, the words and the facts that the text shows; made without its library."""
    module, _, plain = name.rpartition(".")
    exc = _kind(module, plain)()
    exc.words = message
    for key, value in _facts(message).items():
        setattr(exc, key, value)
    return exc


@lru_cache(maxsize=512)
def _kind(module: str, plain: str) -> type[_StandIn]:
    """A class of that name; one of Python's own also derives from what the original does."""
    original = getattr(builtins, plain, None) if not module else None
    if not (isinstance(original, type) and issubclass(original, Exception)) or issubclass(original, ExceptionGroup):
        return type(plain, (_StandIn,), {"__module__": module or "__main__"})
    plainly = {"__module__": "builtins", "__init__": _take_nothing, "__new__": _make_bare}
    return type(plain, (_StandIn, original), plainly)


def _take_nothing(_self: object) -> None:
    """Some of Python's own insist on arguments."""


def _make_bare(kind: type[Any]) -> _StandIn:
    """Made by the first base that knows how, without arguments."""
    made = OSError.__new__(kind) if issubclass(kind, OSError) else Exception.__new__(kind)
    return cast("_StandIn", made)


def _facts(message: str) -> dict[str, object]:
    """What the words of well-known libraries give away of their attributes."""
    facts: dict[str, object] = {}
    if (errno := _ERRNO.search(message)) is not None:
        facts["errno"] = int(errno.group(1))
    if (answer := _ERROR_CODE.match(message)) is not None:
        facts["status_code"] = int(answer.group(1))
        body = _literal(answer["body"])
        if isinstance(body, dict):
            facts["body"] = body
    if (reply := _REPLY.match(message)) is not None:
        facts["smtp_code"] = int(reply.group(1))
        facts["smtp_error"] = reply.group(2)
    return facts


def _literal(text: str | None) -> object:
    try:
        return ast.literal_eval(text) if text else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
