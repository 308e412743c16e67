"""Links to the website of a repository: its commits, and its lines at a commit.

A forge is written as the base URL of a repository, `https://github.com/team/shop`. The name of a known host
shows which program runs there. For other hosts a prefix names it: `gitea+https://git.example.org/team/shop`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit


class Program(StrEnum):
    """The programs whose addresses are known."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    BITBUCKET = "bitbucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Routes:
    """What follows the base URL of a repository."""

    commit: str
    file: str
    line: str
    source_query: str = ""
    """Shows the source of a file that is shown rendered otherwise, so that its lines can be linked."""


_ROUTES: Final = {
    Program.GITHUB: _Routes(commit="/commit/{}", file="/blob/{}/", line="#L{}", source_query="?plain=1"),
    Program.GITLAB: _Routes(commit="/-/commit/{}", file="/-/blob/{}/", line="#L{}", source_query="?plain=1"),
    Program.GITEA: _Routes(
        commit="/commit/{}",
        file="/src/commit/{}/",
        line="#L{}",
        source_query="?display=source",
    ),
    Program.BITBUCKET: _Routes(commit="/commits/{}", file="/src/{}/", line="#lines-{}"),
}
_SHARED_COMMIT: Final = "/commit/{}"
"""GitHub, GitLab and Gitea all answer to this one."""
_HOSTS: Final = {
    "github.com": Program.GITHUB,
    "gitlab.com": Program.GITLAB,
    "codeberg.org": Program.GITEA,
    "bitbucket.org": Program.BITBUCKET,
}
_SSH_HOSTS: Final = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
"""Hosts that take SSH at port 443, and the host of their website."""
_SCP: Final = re.compile(r"(?:[\w.+-]{1,100}@)?([A-Za-z0-9][A-Za-z0-9.-]{0,252}):([^/:].{0,1000})")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_.~-]{1,255}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCHEMES: Final = frozenset({"https", "http", "ssh", "git"})
_MAX_SEGMENTS: Final = 20
_RENDERED: Final = (".md", ".markdown", ".rst", ".adoc", ".ipynb", ".svg")


def forge_of(remote: str) -> str:
    """Return the base URL of a repository at its forge, given a remote's URL; empty for unknown hosts."""
    found = _SCP.fullmatch(remote) if "://" not in remote else None
    if found is not None:
        host, path = found[1], found[2]
    else:
        parts = _split(remote)
        if parts is None or parts.scheme not in _SCHEMES:
            return ""
        host, path = parts.hostname or "", parts.path
    host = host.lower().removeprefix("www.")
    host = _SSH_HOSTS.get(host, host)
    path = _repository_path(path)
    if host not in _HOSTS or not path or not _has_depth(_HOSTS[host], path):
        return ""
    return f"https://{host}/{path}"


def check_forge(text: str) -> str:
    """Return the forge that settings name, as the other functions take it; raise ValueError if it is none."""
    if not text:
        return ""
    parts = _split(text)
    program, _, scheme = (parts.scheme if parts else "").rpartition("+")
    path = _repository_path(parts.path) if parts else ""
    if parts is None or scheme not in {"https", "http"} or not parts.hostname or not path:
        raise ValueError("it is the URL of a repository's page, such as https://git.example.org/team/shop")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("it is a URL without a user, a query or a fragment")
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?", parts.netloc):
        raise ValueError("its host is a name, perhaps with a port")
    if program and program not in set(Program):
        raise ValueError(f"the program before the + is one of {', '.join(Program)}")
    return f"{program}{'+' if program else ''}{scheme}://{parts.netloc.lower()}/{path}"


def commit_url(forge: str, commit: str) -> str:
    """Return the address of a commit; empty where the forge is unknown or the text is no commit."""
    if not forge or not _COMMIT.fullmatch(commit):
        return ""
    routes, base = _routes_of(forge)
    return base + (routes.commit if routes else _SHARED_COMMIT).format(commit)


def line_url(forge: str, commit: str, path: str, line: int = 0) -> str:
    """Return the address of a line of a file at a commit, of the file for line 0; empty where it is unknown.

    The programs share no address of files: a host that the settings name without its program has only links
    to commits.
    """
    if not forge or not _COMMIT.fullmatch(commit) or not path or {"", ".", ".."} & set(path.split("/")):
        return ""
    routes, base = _routes_of(forge)
    if routes is None:
        return ""
    address = base + routes.file.format(commit) + quote(path, safe="/", errors="replace")
    if line <= 0:
        return address
    query = routes.source_query if path.lower().endswith(_RENDERED) else ""
    return address + query + routes.line.format(line)


def _routes_of(forge: str) -> tuple[_Routes | None, str]:
    """The addresses that a forge knows, and its base URL without the prefix."""
    program, plus, rest = forge.partition("+")
    if plus and program in set(Program):
        return _ROUTES[Program(program)], rest
    known = _HOSTS.get((urlsplit(forge).hostname or "").removeprefix("www."))
    return (_ROUTES[known] if known else None), forge


def _split(text: str) -> SplitResult | None:
    if not text.isprintable():
        return None
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for a port that is no number
    except ValueError:
        return None
    return parts


def _repository_path(path: str) -> str:
    """`team/shop`, without `.git` and slashes around it; empty if it cannot be the path of a repository."""
    path = path.strip("/").removesuffix(".git").rstrip("/")
    parts = path.split("/")
    if len(parts) > _MAX_SEGMENTS or {".", ".."} & set(parts) or not all(map(_SEGMENT.fullmatch, parts)):
        return ""
    return path


def _has_depth(program: Program, path: str) -> bool:
    """Whether a path has an owner and a name; GitLab has groups inside groups."""
    slashes = path.count("/")
    return slashes >= 1 if program is Program.GITLAB else slashes == 1
