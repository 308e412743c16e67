"""Recognizes comments, and blanks comments and strings, so that names in them are not taken for code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_Key = TypeVar("_Key")

# An unclosed string ends with its line, an unclosed comment with the text: matching takes linear time.
_STRING: Final = r'"(?:[^"\\\n]|\\[^\n])*"?'
_SINGLE: Final = r"'(?:[^'\\\n]|\\[^\n])*'?"
_COMMENTS: Final = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?"
_TEMPLATE: Final = r"`(?:[^`\\]|\\[\s\S])*`?"
_REGEX: Final = (
    r"(?<=[(,=:\[!&|?{};])[ \t]*/(?![/*])"
    r"(?:[^/\\\n\[]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n]){0,100}\]){1,200}/"
)
_JAVASCRIPT: Final = re.compile(rf"{_COMMENTS}|{_STRING}|{_SINGLE}|{_TEMPLATE}|{_REGEX}")
_GO: Final = re.compile(rf"{_COMMENTS}|{_STRING}|{_SINGLE}|`[^`]*`?")
_NOT_NEWLINE: Final = re.compile(r"[^\n]")


_BRACES: Final = frozenset({
    ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".go", ".java", ".kt", ".kts", ".rs", ".cs", ".c", ".h", ".cc", ".cpp",
    ".hpp", ".swift", ".scala", ".dart", ".groovy", ".php", ".css", ".scss", ".less", ".vue", ".svelte", ".proto",
})  # fmt: skip
_SIGNS: Final = {
    **dict.fromkeys(_BRACES, ("//", "/*", "*", "<!--")),
    **dict.fromkeys((".sql", ".lua", ".hs"), ("--", "/*", "*")),
    **dict.fromkeys((".ini", ".cfg", ".conf", ".service"), ("#", ";")),
    **dict.fromkeys((".html", ".htm", ".xml", ".svg", ".md"), ("<!--",)),
}
_OTHER_SIGNS: Final = ("#", "//")


def is_comment(line: str, suffix: str) -> bool:
    """Whether a line of a file with this suffix begins with a comment."""
    return line.lstrip().startswith(_SIGNS.get(suffix, _OTHER_SIGNS))


def blank_javascript(text: str) -> str:
    """Replace comments, strings and regular expressions of JavaScript by spaces; offsets stay the same."""
    return _JAVASCRIPT.sub(_blank, text)


def blank_go(text: str) -> str:
    """Replace comments and strings of Go by spaces; offsets stay the same."""
    return _GO.sub(_blank, text)


def line_at(text: str, offset: int) -> int:
    """The number of the line that an offset is in."""
    return text.count("\n", 0, offset) + 1


def lines_at(text: str, offsets: Mapping[_Key, int]) -> dict[_Key, int]:
    """The numbers of the lines that many offsets are in; the text is read once."""
    lines: dict[_Key, int] = {}
    line, last = 1, 0
    for key, offset in sorted(offsets.items(), key=lambda each: each[1]):
        line += text.count("\n", last, offset)
        lines[key], last = line, offset
    return lines


def _blank(found: re.Match[str]) -> str:
    return _NOT_NEWLINE.sub(" ", found[0])
