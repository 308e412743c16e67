"""Finds the file that a dotted Python path refers to, from the paths of a repository alone."""

from __future__ import annotations

import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SOURCE_FOLDERS: Final = {"src", "lib", "python", "source"}
"""Folders that projects put on Python's path."""
MAX_PARTS: Final = 20
"""Names of a dotted path that are read."""
Parts = tuple[str, ...]


class ModuleIndex:
    """The Python modules of one version of a repository."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._modules: dict[Parts, str] = {}
        self._packages: set[Parts] = set()
        self._folders: set[Parts] = set()
        self._by_name: dict[str, list[Parts]] = {}
        for path in sorted(paths):
            if path.endswith(".py"):
                self._add(path)

    def __contains__(self, path: str) -> bool:
        return self._modules.get(module_parts(path)) == path

    def provides(self, path: str, name: str) -> bool:
        """Whether a package has a submodule or a folder of this name."""
        parts = (*module_parts(path), name)
        return parts in self._modules or parts in self._folders

    def find(self, user: str, dotted: str) -> tuple[str, Parts] | None:
        """Return the module that a dotted path refers to in the file `user`, and the names behind the module.

        A relative path begins with dots. None: the path belongs to another project, or it is ambiguous.
        """
        names = dotted.lstrip(".")
        level = len(dotted) - len(names)
        parts = tuple(names.split(".", MAX_PARTS)[:MAX_PARTS]) if names else ()
        return self._find_relative(user, level, parts) if level else self._find_absolute(user, parts)

    def _add(self, path: str) -> None:
        parts = module_parts(path)
        is_package = path.endswith("__init__.py")
        if parts in self._modules and not is_package:
            return
        if parts not in self._modules and parts:
            self._by_name.setdefault(parts[-1], []).append(parts)
        self._modules[parts] = path
        if is_package:
            self._packages.add(parts)
        folder = PurePosixPath(path).parts[:-1]
        self._folders.update(folder[:length] for length in range(1, len(folder) + 1))

    def _find_relative(self, user: str, level: int, names: Parts) -> tuple[str, Parts] | None:
        folder = PurePosixPath(user).parts[:-1]
        if level - 1 > len(folder):
            return None
        base = folder[: len(folder) - (level - 1)]
        for length in range(len(names), -1, -1):
            if path := self._modules.get((*base, *names[:length])):
                return path, names[length:]
        return None

    def _find_absolute(self, user: str, names: Parts) -> tuple[str, Parts] | None:
        if names[0] in sys.stdlib_module_names:
            return None
        folder = PurePosixPath(user).parts[:-1]
        for length in range(len(names), 0, -1):
            known = self._by_name.get(names[length - 1], ())
            roots = [parts[:-length] for parts in known if parts[-length:] == names[:length]]
            fitting = [root for root in roots if self._is_root(root, folder)]
            if fitting:
                root = _nearest(fitting, folder)
                return None if root is None else (self._modules[(*root, *names[:length])], names[length:])
        return None

    def _is_root(self, root: Parts, folder: Parts) -> bool:
        """Whether a folder can be on Python's path for a file in another folder."""
        if root in self._packages:
            return False
        return not root or root[-1] in _SOURCE_FOLDERS or folder[: len(root)] == root


def module_parts(path: str) -> Parts:
    """Split the path of a module: `a/b.py` and `a/b/__init__.py` give `("a", "b")`."""
    parts = PurePosixPath(path.removesuffix(".py")).parts
    return parts[:-1] if parts and parts[-1] == "__init__" else parts


def _nearest(roots: list[Parts], folder: Parts) -> Parts | None:
    """The only root, or the only one above the file; None where several could be meant."""
    if len(roots) == 1:
        return roots[0]
    above = [root for root in roots if root and folder[: len(root)] == root]
    return above[0] if len(above) == 1 else None
