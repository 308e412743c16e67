"""The git program, asked without a shell, a prompt or anybody's configuration; what comes from outside is never an option."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit, urlunsplit

from reprieve import Permanent, Retryable, UsageError, redact, register_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PASSED_ON: Final = (
    "PATH",
    "SSH_AUTH_SOCK",
    "TMPDIR",
    "SYSTEMROOT",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
)
"""All that git gets to know of this process's environment."""
_ENVIRONMENT: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C.UTF-8",
}
_OPTIONS: Final = (
    "--literal-pathspecs", "-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "core.quotePath=false", "-c", "protocol.ext.allow=never", "-c", "log.showSignature=false",
)  # fmt: skip
EMPTY_TREES: Final = frozenset({
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
})  # fmt: skip
"""What a first commit is compared with, in both kinds of repositories."""
_SCHEMES: Final = frozenset({"file", "git", "http", "https", "ssh"})
_SCP: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*@[A-Za-z0-9][\w.-]*:(?!:)[^-\s].*")
_HEAD: Final = re.compile(r"ref: (refs/heads/\S+)\tHEAD\n")
_LONGEST_NAME: Final = 500
_SECRET: Final = 6
"""Passwords that are shorter would be found in every other text."""
_MOST_SAID: Final = 65_536
_CHUNK: Final = 65_536
_GRACE: Final = 5.0
_NOTHING_FOUND: Final = frozenset({"config", "grep"})
"""Commands that end with 1 where they found nothing."""
_LINK: Final = "120000"
"""The mode of a symbolic link."""
_GONE: Final = re.compile(
    r"unknown revision|bad (object|revision)|not a valid object|needed a single revision|not a git repository|ambiguous argument"
    r"|does not exist|couldn't find remote ref|repository .*not found|does not appear to be a git repository|no such file",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"authentication failed|could not read (username|password)|permission denied|access denied|dubious ownership|terminal prompts disabled",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a repository is: a path, or a URL that is shown without its credentials."""

    location: str
    remote: bool

    @property
    def shown(self) -> str:
        """For people."""
        return without_credentials(self.location) if self.remote else self.location

    @property
    def name(self) -> str:
        """Its last part, as people call it."""
        path = self.shown.rstrip("/").removesuffix("/.git").removesuffix(".git")
        return re.split(r"[/:\\]", path)[-1] or "repository"

    @property
    def label(self) -> str:
        """Its name, and what tells it from others of that name."""
        return f"{self.name}-{digest(self.shown.rstrip('/').removesuffix('.git'))}"


def digest(text: str) -> str:
    """A short one, to tell things of one name apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def repository_at(text: str) -> Repository:
    """The repository that a path or a URL names; what git would take for an option or a command is refused."""
    if not text or text.startswith("-") or len(text) > _LONGEST_NAME or not text.isprintable():
        raise UsageError("a repository is a path or a URL: it neither begins with - nor holds signs that nobody sees")
    if "://" in text:
        parts = urlsplit(text)
        if parts.scheme not in _SCHEMES or (parts.hostname or "").startswith("-") or "::" in text.partition("://")[0]:
            raise UsageError(f"git is asked over {', '.join(sorted(_SCHEMES))} only")
        return Repository(text, remote=True)
    if "::" in text:
        raise UsageError("a repository's address with :: would run a program: give a path or a URL")
    if not Path(text).exists() and _SCP.fullmatch(text):
        return Repository(text, remote=True)
    return Repository(str(Path(text).expanduser().resolve()), remote=False)


def without_credentials(url: str) -> str:
    """A URL as it may be shown and compared: no user, password, query or fragment."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def check_revision(text: str) -> str:
    """A revision as it was given, unless git could take it for something else."""
    if not text or text.startswith("-") or len(text) > _LONGEST_NAME or not text.isprintable() or ":" in text:
        raise UsageError(
            f"{text[:80]!r} is no revision: a commit, a branch, a tag, or two of them with .. or ... between"
        )
    return text


class Git:
    """Asks the git program about repositories; those that are elsewhere are mirrored below a folder of ours."""

    def __init__(
        self,
        mirrors: Path,
        *,
        objects: Path | None = None,
        seconds: float = 120.0,
        program: str = "git",
        trusted: Iterable[str] = (),
    ) -> None:
        """Keep mirrors in `mirrors`; `objects` holds what was written of work trees, beside the repository's own objects."""
        self._mirrors, self._seconds, self._program = mirrors, seconds, program
        self.objects = objects
        self._trusted = [word for folder in trusted for word in ("-c", f"safe.directory={folder}")]
        self._turns: dict[str, asyncio.Lock] = {}

    @property
    def program(self) -> str | None:
        """Where the program is; None: it is not installed."""
        return shutil.which(self._program)

    async def version(self) -> str:
        """What it says of itself."""
        return (await self._run([], "--version")).decode(errors="replace").strip()

    async def folder_of(self, repository: Repository, *, fresh: bool = False, holding: tuple[str, ...] = ()) -> Path:
        """Where its objects are on this machine; a mirror is brought up to date if `fresh`, or if it lacks what it is to hold."""
        if not repository.remote:
            folder = Path(repository.location)
            if not os.path.isdir(folder):  # noqa: ASYNC240, PTH112 - one look
                raise Permanent(f"there is no repository at {repository.shown}", error_class="NOT_FOUND")
            return folder
        name = hashlib.sha256(repository.shown.encode()).hexdigest()[:24]
        folder, filled = self._mirrors / name, self._mirrors / f"{name}.filled"
        async with self._turns.setdefault(name, asyncio.Lock()):
            if not (folder / "HEAD").exists():
                folder.mkdir(parents=True, exist_ok=True)
                await self._run([], "init", "--quiet", "--bare", str(folder))
            if fresh or not filled.exists() or not await self._holds(folder, holding):
                await self._fetch(folder, repository)
                filled.touch()
        return folder

    async def _fetch(self, folder: Path, repository: Repository) -> None:
        url, extra = _without_password_in_sight(repository.location)
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        await self._run(
            ["-C", str(folder)], "fetch", "--quiet", "--prune", "--no-auto-maintenance", "--no-write-fetch-head", "--no-recurse-submodules",
            "--end-of-options", url, *refs, extra=extra,
        )  # fmt: skip
        said = await self._run([], "ls-remote", "--symref", "--end-of-options", url, "HEAD", extra=extra)
        if found := _HEAD.match(said.decode("utf-8", "replace")):
            await self._run(["-C", str(folder)], "symbolic-ref", "HEAD", found[1])

    async def _holds(self, folder: Path, names: tuple[str, ...]) -> bool:
        said = await self.ask(
            folder, "cat-file", "--batch-check", given="".join(f"{name}\n" for name in names).encode()
        )
        return b" missing" not in said

    async def ask(
        self,
        folder: Path,
        *arguments: str,
        most: int = 1 << 20,
        given: bytes = b"",
        options: tuple[str, ...] = (),
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """What a command says about a repository; `Permanent` where it says more than `most` bytes."""
        return await self._run(
            ["-C", str(folder), *self._trusted, *options], *arguments, most=most, given=given, extra=extra
        )

    async def whole(self, folder: Path, repository: Repository) -> Repository:
        """The repository that a folder is in, the same for all of its folders and work trees."""
        if repository.remote:
            return repository
        said = (await self.ask(folder, "rev-parse", "--git-common-dir")).decode("utf-8", "surrogateescape").rstrip("\n")
        return Repository(os.path.realpath(folder / said), remote=False)  # noqa: ASYNC240 - one look

    async def commit(self, folder: Path, revision: str) -> str:
        """The commit that a revision names now."""
        check_revision(revision)
        try:
            said = await self.ask(
                folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
            )
        except Permanent as error:
            if error.error_class != "NOT_FOUND" or "not a git repository" in str(error):
                raise
            raise Permanent(f"there is no commit {revision!r} in {folder}", error_class="NOT_FOUND") from None
        return said.decode().strip()

    async def tree(self, folder: Path, name: str) -> str:
        """The tree of a commit, or the tree itself."""
        return (
            (await self.ask(folder, "rev-parse", "--verify", "--end-of-options", f"{name}^{{tree}}")).decode().strip()
        )

    async def file(self, folder: Path, revision: str, path: str, *, most: int = 1 << 20) -> str | None:
        """A file's text at a commit; None where there is none, or it is too large."""
        listed = await self.ask(folder, "ls-tree", "-z", "--end-of-options", revision, "--", path)
        mode, kind, name = (*listed.decode("utf-8", "replace").partition("\t")[0].split(), "", "", "")[:3]
        return None if kind != "blob" or mode == _LINK else await self.blob(folder, name, most=most)

    async def blob(self, folder: Path, name: str, *, most: int = 1 << 20) -> str | None:
        """The text of a blob; None where it is too large."""
        try:
            said = await self.ask(folder, "cat-file", "blob", name, most=most)
        except Permanent as error:
            if error.error_class != "PAYLOAD_TOO_LARGE":
                raise
            return None
        return said.decode("utf-8", "replace")

    async def _run(
        self,
        options: list[str],
        *arguments: str,
        most: int = 1 << 20,
        given: bytes = b"",
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= _ENVIRONMENT
        if self.objects is not None and self.objects.is_dir():
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self.objects)
        environment |= dict(extra or {})
        try:
            process = await asyncio.create_subprocess_exec(
                self._program, *_OPTIONS, *options, *arguments, env=environment, stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise Permanent(f"{self._program} is not installed, or not in PATH", error_class="CONFIG_INVALID") from None
        try:
            async with asyncio.timeout(self._seconds):
                said, complaint = await _heard(process, given, most)
                code = await process.wait()
        except TimeoutError:
            raise Retryable(
                f"git {arguments[0]} took longer than {self._seconds:g} s", error_class="NETWORK_TIMEOUT"
            ) from None
        finally:
            await _end(process)
        if len(said) > most:
            raise Permanent(f"git {arguments[0]} says more than {most} bytes", error_class="PAYLOAD_TOO_LARGE")
        if code and not (code == 1 and arguments[0] in _NOTHING_FOUND):
            raise _failure(arguments[0], code, complaint.decode("utf-8", "replace"))
        return said


async def _heard(process: asyncio.subprocess.Process, given: bytes, most: int) -> tuple[bytes, bytes]:
    """What it says and complains, no more of it than is wanted."""
    assert process.stdin is not None  # noqa: S101 - all three are piped
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    with contextlib.suppress(ConnectionError):
        process.stdin.write(given)
        process.stdin.close()
    async with asyncio.TaskGroup() as group:
        said = group.create_task(_read(process.stdout, most + 1))
        complaint = group.create_task(_read(process.stderr, _MOST_SAID))
        await said
        if len(said.result()) > most:
            _kill(process)
            await _drain(process.stdout)
    return said.result(), complaint.result()


async def _read(stream: asyncio.StreamReader, most: int) -> bytes:
    chunks, size = [], 0
    while size < most and (chunk := await stream.read(min(_CHUNK, most - size))):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        _kill(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await asyncio.gather(_drain(process.stdout), _drain(process.stderr))
            await process.wait()


async def _drain(stream: asyncio.StreamReader | None) -> None:
    """Read a pipe to its end. Until then asyncio neither closes it nor sees that the process has ended."""
    while stream is not None and await stream.read(_CHUNK):
        pass


def _kill(process: asyncio.subprocess.Process) -> None:
    """It and all that it started: a helper for a protocol holds the pipes open otherwise."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, 9)


def _without_password_in_sight(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its password, which git gets through its environment: command lines are everybody's to read."""
    parts = urlsplit(url) if "://" in url else None
    if parts is None or not parts.password:
        return url, {}
    if len(parts.password) >= _SECRET:
        register_secret(parts.password, name="a repository's password")
    host = parts.netloc.rpartition("@")[2]
    plain = f"{parts.scheme}://{host}/"
    user = quote(parts.username or "", safe="%")
    known = f"{parts.scheme}://{user}:{quote(parts.password, safe='%')}@{host}/"
    extra = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{known}.insteadOf", "GIT_CONFIG_VALUE_0": plain}
    return f"{plain}{parts.path.lstrip('/')}", extra


def _failure(command: str, code: int, complaint: str) -> Permanent | Retryable:
    """What its complaint means; the rest is worth another try within the budget."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = redact(
        next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "nothing")
    )
    message = f"git {command} ended with {code}: {said[:300]}"
    if "dubious ownership" in complaint:
        message += "; name it under `trusted` in the settings if its configuration may be used"
    if _DENIED.search(complaint):
        return Permanent(message, error_class="PERMISSION_DENIED")
    if _GONE.search(complaint) or (code == 1 and command == "rev-parse"):
        return Permanent(message, error_class="NOT_FOUND")
    return Retryable(message, error_class="UPSTREAM_UNAVAILABLE")
