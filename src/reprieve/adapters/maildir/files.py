"""Files of a Maildir: written aside, then moved to where they are seen, by one name that stands for one delivery."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final
from urllib.parse import quote

_LONGEST: Final = 180
_PARTS: Final = ("tmp", "new", "cur")


def file_name(token: str) -> str:
    """The name of a delivery's file: the same on every try, and whoever writes it."""
    return f"reprieve.{_short(quote(token, safe='', errors='surrogatepass'))}"


def folder_name(address: str) -> str:
    """The name of a recipient's Maildir; what a file system may take for something else is spelled out."""
    return _short(quote(address, safe="@+"))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:100]}-{sha256(name.encode()).hexdigest()[:40]}"


def copies(folder: Path, name: str) -> list[Path]:
    """Where a delivery's file is, read or unread."""
    # Looked for twice: a mail program that renames it meanwhile can hide it from one pass over a folder.
    return _seen(folder, name) or _seen(folder, name)


def _seen(folder: Path, name: str) -> list[Path]:
    unread = folder / "new" / name
    found = [unread] if unread.exists() else []  # before the folder it may be moved to: it is not missed on its way
    with suppress(FileNotFoundError), os.scandir(folder / "cur") as entries:
        known_by = (f"{name}:", f"{name},")  # flags, and what some programs note in the name
        found += [Path(each.path) for each in entries if each.name == name or each.name.startswith(known_by)]
    return [path for path in found if path.exists()] or found  # one that was renamed is not two


def written_at(path: Path) -> float | None:
    """When a file was written; None where it has just been moved."""
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return None


def write_unless_there(folder: Path, name: str, content: bytes) -> Path | None:
    """Write a file where nobody looks, and see it to the disk; None where the delivery is there already."""
    if copies(folder, name):
        return None
    _make(folder)
    aside = folder / "tmp" / f"{name}.{token_hex(8)}"
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return aside


def publish(folder: Path, written: Path, name: str) -> None:
    """Let it be seen, in one step, and see that to the disk; a second file of the same delivery takes the place of the first."""
    written.replace(folder / "new" / name)
    _settle(folder / "new")


def _make(folder: Path) -> None:
    if (folder / _PARTS[-1]).is_dir():
        return
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for part in _PARTS:
        (folder / part).mkdir(mode=0o700, exist_ok=True)
    for each in (folder, *(each.parent for each in made)):
        _settle(each)


def _settle(folder: Path) -> None:
    """See a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
