"""Whether the kernel's OOM killer was at work among us, by the counters of this process's control group."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

_ROOT: Final = PurePosixPath("/sys/fs/cgroup")
_COUNTER: Final = "oom_kill"


def oom_kills(text: str) -> int | None:
    """How many processes were killed, from `memory.events` (version 2) or `memory.oom_control` (version 1)."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == _COUNTER and value.isascii() and value.isdigit():
            return int(value)
    return None


def counter_files(cgroup: str) -> list[PurePosixPath]:
    """Where the counter may stand, the most exact first, by the contents of `/proc/self/cgroup`.

    A container may see its group under its full path or as the root of what is mounted.
    """
    found = []
    for line in cgroup.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        within = path.lstrip("/")
        if number == "0" and not controllers:
            mounts, names = [_ROOT, _ROOT / "unified"], ["memory.events.local", "memory.events"]
        elif "memory" in controllers.split(","):
            mounts, names = [_ROOT / "memory"], ["memory.oom_control"]
        else:
            continue
        found += [folder / name for mount in mounts for folder in (mount / within, mount) for name in names]
    return list(dict.fromkeys(found))


class OomWatch:
    """Reads one counter, again and again; where there is none, nothing is ever out of memory."""

    def __init__(self, files: list[Path] | None = None) -> None:
        """Choose the first file that has the counter; by default those of this process."""
        candidates = _own_files() if files is None else files
        self._file = next((file for file in candidates if _read(file) is not None), None)

    def count(self) -> int | None:
        """The counter now."""
        return None if self._file is None else _read(self._file)

    def rose(self, before: int | None) -> bool:
        """Whether it has risen since it was `before`."""
        now = self.count()
        return before is not None and now is not None and now > before


def _own_files() -> list[Path]:
    try:
        cgroup = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    return [Path(file) for file in counter_files(cgroup)]


def _read(file: Path) -> int | None:
    try:
        return oom_kills(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
