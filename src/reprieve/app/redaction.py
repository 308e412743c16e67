"""Redaction with the live credentials of this process: registered once, found in every text from then on."""

from __future__ import annotations

import os
import threading
import traceback
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from reprieve.core import redact as core
from reprieve.core.record import writable
from reprieve.core.redact.judge import harmless
from reprieve.core.redact.keys import Kind, kind_of
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.core.redact import RedactionReport, Secrets

STACK_LENGTH: Final = 20_000
_SECRET_KINDS: Final = (Kind.PASSWORD, Kind.TOKEN, Kind.PHRASE)


class Credentials:
    """The live credentials of a process; changed by replacing, so that readers need no lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.secrets: Secrets = core.NONE

    def register(self, value: str, name: str) -> None:
        """Find this value, in all its spellings, from now on."""
        if len(value) < core.SHORTEST:
            raise UsageError(
                f"the secret {name!r} has {len(value)} characters: shorter than {core.SHORTEST} it would be found in "
                "ordinary words; under a name such as `password` it is taken out all the same"
            )
        with self._lock:
            self.secrets = type(self.secrets)(self.secrets.values | {(name, value)})

    def forget(self, *names: str) -> None:
        """No longer look for the values of these names; without arguments: for none at all."""
        with self._lock:
            kept = frozenset(pair for pair in self.secrets.values if names and pair[0] not in names)
            self.secrets = type(self.secrets)(kept)


DEFAULT: Final = Credentials()


def register_secret(value: str | bytes, *, name: str = "credential") -> None:
    """Tell a live credential, so that its exact value is taken out wherever and however it is spelled."""
    DEFAULT.register(value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value, name)


def register_environment(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Register what environment variables hold whose names say that it is secret, and passwords in URLs; returns the names."""
    registered: list[str] = []
    for name, value in (os.environ if environment is None else environment).items():
        for secret in _secrets_in(name, value):
            if len(secret) >= core.SHORTEST and not harmless(secret.encode("utf-8", "surrogateescape")):
                DEFAULT.register(secret, name)
                registered.append(name)
    return tuple(dict.fromkeys(registered))


def _secrets_in(name: str, value: str) -> list[str]:
    if kind_of(name.encode("utf-8", "surrogateescape")) in _SECRET_KINDS and not value.startswith(("/", "./")):
        return [value]
    if "://" not in value or "@" not in value:
        return []
    try:
        password = urlsplit(value).password
    except ValueError:  # not a URL after all
        return []
    return [] if password is None else [password, unquote(password)]


def forget_secrets(*names: str) -> None:
    """Forget what was registered under these names; without arguments: everything."""
    DEFAULT.forget(*names)


def scan(text: str) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The clean text, and which rules acted how often; the very same string where none did."""
    return core.scan(text, DEFAULT.secrets)


def redact(text: str, *, report: RedactionReport | None = None, addresses: bool = False) -> str:
    """The text without secrets, people's data and prompts; IP addresses go too if asked for."""
    if not isinstance(text, str):
        raise UsageError(f"redact takes text, not {type(text).__name__}; redact_mapping takes values")
    return core.redact(text, secrets=DEFAULT.secrets, report=report, addresses=addresses)


def redact_mapping(
    mapping: Mapping[object, object], *, report: RedactionReport | None = None, addresses: bool = False
) -> dict[str, object]:
    """The mapping as plain values without secrets, people's data and prompts."""
    return core.redact_mapping(mapping, secrets=DEFAULT.secrets, report=report, addresses=addresses)


def redact_exception(
    exc: BaseException, *, report: RedactionReport | None = None, limit: int = STACK_LENGTH, addresses: bool = False
) -> str:
    """The stack of an exception with causes, groups and notes, without locals: sanitized first, then cut in the middle."""
    try:
        text = "".join(traceback.TracebackException.from_exception(exc, capture_locals=False).format())
    except Exception as broken:  # noqa: BLE001 - whatever a strange exception does, its type can be told
        text = f"{type(exc).__module__}.{type(exc).__qualname__}: cannot be shown, {type(broken).__name__}\n"
    return _cut(writable(redact(text, report=report, addresses=addresses)), limit)


def _cut(text: str, limit: int) -> str:
    """Both ends of a text, at line ends where they are near: how it began and what it came to."""
    if len(text) <= limit:
        return text
    head = limit // 2
    line = text.rfind("\n", head // 2, head) + 1
    head = line or head
    tail = len(text) - (limit - limit // 2)
    line = text.find("\n", tail, tail + limit // 4) + 1
    tail = line or tail
    return f"{text[:head]}... [{tail - head} characters cut] ...\n{text[tail:]}"
