"""Programs from Debian that tests start. `requirements/debian.txt` lists their packages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

REQUIRED = False
"""Whether a missing program fails a test; set by `--require=all` when pytest starts."""

PACKAGE_OF = {
    "busybox": "busybox-static",
    "chromium": "chromium",
    "git": "git",
    "podman": "podman",
    "runc": "runc",
}
"""The Debian package of each program that a test starts."""

_LIST = Path(__file__).parents[2] / "requirements/debian.txt"


def require(program: str) -> str:
    """Return the path of a program. Without it, skip the test, or fail it if `--require=all` is given."""
    path = shutil.which(program)
    if path is not None:
        return path
    reason = f"{program} is not installed: apt-get install {PACKAGE_OF[program]}"
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def packages_named_in(reasons: Iterable[str]) -> list[str]:
    """Return the packages that the reasons of skipped tests name."""
    return sorted({found[1] for reason in reasons if (found := re.search(r"apt-get install (\S+)", reason))})


def listed_packages() -> list[str]:
    """Return the packages of `requirements/debian.txt`."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
