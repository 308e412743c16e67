"""Changes for tests of the critic: from two sets of files to what the checks read."""

import difflib
import fnmatch
import re

from reprieve.review.critic.change_set import ChangedFile, ChangeSet, UnknownTree


class MemoryTree:
    """A version of a repository, from its files by path."""

    def __init__(self, files):
        self._files = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
        self.paths = frozenset(self._files)

    def read(self, path):
        return self._files.get(path)

    def containing(self, words, patterns):
        word = re.compile("|".join(rf"\b{re.escape(each)}\b" for each in words).encode())
        fitting = [path for path in sorted(self.paths) if any(fnmatch.fnmatch(path, each) for each in patterns)]
        return tuple(path for path in fitting if word.search(self._files[path]))


def change_between(before, after, *, renamed=None, title="a change"):
    """The change from one set of files to another; `renamed` maps old paths to new ones."""
    renamed = renamed or {}
    files = []
    for path in sorted(set(before) | set(after)):
        if path in renamed and path not in after:
            continue
        old_path = next((old for old, new in renamed.items() if new == path), path)
        old, new = before.get(old_path), after.get(path)
        if old != new or old_path != path:
            files.append(_changed_file(path, old_path, old, new))
    return ChangeSet(files=tuple(files), tree=MemoryTree(after), base=MemoryTree(before), title=title)


def patch_between(before, after):
    """The same where only the patch is known."""
    known = change_between(before, after)
    files = tuple(
        ChangedFile(path=each.path, old_path=each.old_path, is_deleted=each.is_deleted, diff=each.diff)
        for each in known.files
    )
    return ChangeSet(files=files, tree=UnknownTree(), base=UnknownTree())


def _changed_file(path, old_path, old, new):
    is_binary = any(isinstance(each, bytes) and b"\0" in each for each in (old, new))
    before, after = (None if is_binary or each is None else each for each in (old, new))
    return ChangedFile(
        path=path,
        old_path=old_path if old is not None else "",
        is_deleted=new is None,
        old_mode="" if old is None else "100644",
        mode="" if new is None else "100644",
        size=0 if new is None else len(new.encode() if isinstance(new, str) else new),
        is_binary=is_binary,
        before=before,
        after=after,
        diff="" if is_binary else _diff(before or "", after or ""),
    )


def _diff(old, new):
    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=3)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))
