"""A diff as it is reviewed: parsed, without binary, generated and overlong files, which are counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from reprieve import Permanent
from reprieve.review.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unidiff.patch import PatchedFile

_GENERATED: Final = tuple(Pattern(each) for each in (
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "poetry.lock", "uv.lock", "Pipfile.lock",
    "pdm.lock", "Cargo.lock", "Gemfile.lock", "composer.lock", "go.sum", "flake.lock", "mix.lock", "Package.resolved",
    "*.min.js", "*.min.css", "*.js.map", "*.css.map", "*_pb2.py", "*_pb2_grpc.py", "*.pb.go", "*.generated.*", "*.g.dart",
    "vendor/", "node_modules/", "dist/", "third_party/", "bower_components/", ".yarn/",
))  # fmt: skip
"""What machines write, by name."""
_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)")
_SHORT: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_FALSE: Final = frozenset({"false", "0", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of a diff is read."""

    diff_bytes: int = 2_000_000
    file_bytes: int = 200_000
    files: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """What changed in one file."""

    path: str
    text: str
    spans: tuple[tuple[int, int], ...]
    """First and last line of each hunk in the new file: what a finding may point at."""
    added: int
    removed: int
    old_path: str = ""
    """In the old version; empty for a new file."""
    is_deleted: bool = False

    def line(self, number: int) -> str:
        """A line of the new file as the diff shows it; empty where it does not."""
        new = 0
        for text in self.text.split("\n"):
            if found := _HUNK.match(text):
                new = int(found[1])
            elif text[:1] in {"+", " "}:
                if new == number:
                    return text[1:]
                new += 1
        return ""

    def covers(self, line: int) -> bool:
        """Whether the diff shows this line."""
        return any(first <= line <= last for first, last in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """How many files nobody looks at, by why."""

    binary: int = 0
    generated: int = 0
    too_large: int = 0
    beyond: int = 0
    """More files than are looked at."""

    def __add__(self, other: LeftOut) -> LeftOut:
        """Both together."""
        return LeftOut(
            binary=self.binary + other.binary, generated=self.generated + other.generated,
            too_large=self.too_large + other.too_large, beyond=self.beyond + other.beyond,
        )  # fmt: skip

    @property
    def total(self) -> int:
        """All of them."""
        return self.binary + self.generated + self.too_large + self.beyond


NOTHING: Final = LeftOut()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What is looked at, what is not, and all paths there were."""

    files: tuple[FileDiff, ...]
    left_out: LeftOut
    paths: tuple[str, ...]


def parse(text: str, *, attributes: str = "", limits: Limits = Limits()) -> Parsed:  # noqa: B008 - frozen
    """Read a unified diff; `attributes` is the repository's .gitattributes."""
    if len(text.encode()) > limits.diff_bytes:
        raise Permanent(f"the diff has more than {limits.diff_bytes} bytes", error_class="PAYLOAD_TOO_LARGE")
    try:
        patch = PatchSet(text)
    except UnidiffParseError as error:
        raise Permanent(f"this is no unified diff: {type(error).__name__}", error_class="SCHEMA_INVALID") from None
    lines = lines_of(attributes)
    files: list[FileDiff] = []
    counts = {"binary": 0, "generated": 0, "too_large": 0, "beyond": 0}
    paths = []
    for each in patch:
        path = path_of(each)
        paths.append(path)
        why = _why_not(each, path, lines, limits, len(files))
        if why is None:
            files.append(_file(each, path))
        else:
            counts[why] += 1
    return Parsed(files=tuple(files), left_out=LeftOut(**counts), paths=tuple(paths))


def path_of(file: PatchedFile) -> str:
    """Its path, also where git wrote it in quotes."""
    return _path_in(file.target_file if file.target_file and file.target_file != "/dev/null" else file.source_file)


def _path_in(name: str) -> str:
    if name.startswith('"') and name.endswith('"'):
        name = _ESCAPE.sub(_unescaped, name[1:-1].encode()).decode("utf-8", "replace")
    return name[2:] if name.startswith(("a/", "b/")) else name


def _unescaped(found: re.Match[bytes]) -> bytes:
    sign = found[1]
    return bytes([int(sign, 8) & 255]) if len(sign) > 1 else _SHORT.get(sign, sign)


def _why_not(
    file: PatchedFile, path: str, lines: Sequence[tuple[Pattern, bool]], limits: Limits, taken: int
) -> str | None:
    if file.is_binary_file:
        return "binary"
    if is_generated(path, lines):
        return "generated"
    if len(str(file)) > limits.file_bytes:
        return "too_large"
    return "beyond" if taken >= limits.files else None


def is_generated(path: str, lines: Sequence[tuple[Pattern, bool]] = ()) -> bool:
    """Whether machines wrote it: by the last line of .gitattributes that says so or not, else by its name."""
    said = next((generated for pattern, generated in reversed(lines) if pattern.fits(path)), None)
    return any(pattern.fits(path) for pattern in _GENERATED) if said is None else said


def lines_of(text: str) -> tuple[tuple[Pattern, bool], ...]:
    """What .gitattributes says about linguist-generated and linguist-vendored."""
    found = []
    for line in text.splitlines()[:5000]:
        pattern, *words = line.split() or [""]
        for word in words if pattern and not pattern.startswith("#") else ():
            name, _, value = word.lstrip("-!").partition("=")
            if name in {"linguist-generated", "linguist-vendored"}:
                found.append((Pattern(pattern), not word.startswith(("-", "!")) and value.lower() not in _FALSE))
    return tuple(found)


def _file(file: PatchedFile, path: str) -> FileDiff:
    spans = tuple(
        (hunk.target_start, hunk.target_start + hunk.target_length - 1) for hunk in file if hunk.target_length > 0
    )
    text = "".join(str(hunk) for hunk in file)
    return FileDiff(
        path=path,
        text=text,
        spans=spans,
        added=file.added,
        removed=file.removed,
        old_path="" if file.is_added_file else _path_in(file.source_file),
        is_deleted=file.is_removed_file,
    )
