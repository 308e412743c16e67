"""On which line each key of a TOML text stands, which tomllib does not say; the text is known to be valid."""

from __future__ import annotations

import re
import tomllib
from typing import Final

Path = tuple[str, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_KEY: Final = re.compile(r'[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}|\'\'\'(?:[^\']|\'{1,2}(?!\'))*\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_BARE: Final = re.compile(r"[^,\]}#\n]+")


def lines_of_keys(text: str) -> dict[Path, int]:
    """Each key's path to the line where it first appears, tables included."""
    scan = _Scan(text.replace("\r\n", "\n"))
    prefix: Path = ()
    while scan.skip(_BLANK):
        if scan.peek() == "[":
            scan.step("[")
            prefix = scan.key(())
            scan.step("]")
        else:
            scan.pair(prefix)
    return scan.lines


class _Scan:
    """A place in the text, and the lines found so far."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.lines: dict[Path, int] = {}

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Pass over a match, and say whether any text is left."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return self.at < len(self.text)

    def step(self, characters: str) -> None:
        """Pass over any of these characters and the blanks between them."""
        while self.peek() and self.peek() in characters:
            self.at += 1
            self.skip(_SPACE)

    def key(self, prefix: Path) -> Path:
        """Read a key, dotted or not, and note its line for every part that is new."""
        path = prefix
        while found := _KEY.match(self.text, self.at):
            path = (*path, _plain(found.group()))
            self.lines.setdefault(path, self.text.count("\n", 0, self.at) + 1)
            self.at = found.end()
            self.skip(_SPACE)
            if self.peek() != ".":
                break
            self.step(".")
        return path

    def pair(self, prefix: Path) -> None:
        """Read `key = value`."""
        path = self.key(prefix)
        self.step("=")
        self.value(path)

    def value(self, path: Path) -> None:
        """Pass over a value; keys inside an inline table are noted too."""
        match self.peek():
            case "{":
                self.at += 1
                while self.skip(_BLANK) and self.peek() != "}":
                    self.pair(path)
                    self.skip(_BLANK)
                    self.step(",")
                self.at += 1
            case "[":
                self.at += 1
                while self.skip(_BLANK) and self.peek() != "]":
                    self.value(path)
                    self.skip(_BLANK)
                    self.step(",")
                self.at += 1
            case '"' | "'":
                self.skip(_STRING)
            case _:
                self.skip(_BARE)


def _plain(key: str) -> str:
    return str(tomllib.loads(f"key = {key}")["key"]) if key[0] in "\"'" else key
