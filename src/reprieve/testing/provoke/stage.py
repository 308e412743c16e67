"""The upstreams that provocations share, each started when it is first needed, and the provocation itself."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from reprieve.errors import ReprieveError
from reprieve.testing.mail import FlakySMTP
from reprieve.testing.places import nobody_accepting, nobody_listening
from reprieve.testing.tls import Certificate, authority_pem
from reprieve.testing.upstream import HOST
from reprieve.testing.web import FlakyHTTP

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType, TracebackType

PATIENT: Final = 10.0
"""Seconds a client waits for what does come: long, so that a busy machine does not change what is provoked."""
IMPATIENT: Final = 0.2
"""Seconds a client waits for what never comes."""
KEY: Final = "test-key"


class NothingFailedError(ReprieveError):
    """A provocation went through without an exception: the upstream or the client does not do what was expected."""


def library(name: str) -> ModuleType:
    """An optional client library, imported when it is first used."""
    return importlib.import_module(name)


@dataclass(frozen=True, slots=True)
class Provocation:
    """One real failure, ready to be provoked: which library, in which situation, and the call that raises."""

    library: str
    situation: str
    run: Callable[[Stage], None]
    packages: tuple[str, ...] = ()
    """What must be installed, where that is not just the package of the library's own name."""

    @property
    def label(self) -> str:
        """Its name in the catalogue."""
        return f"{self.library}: {self.situation}"

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages it needs that are not installed."""
        return tuple(name for name in self.packages or (self.library,) if not _installed(name))


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the package that this one lies in
        return False


def _restore(name: str, before: str | None) -> None:
    if before is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = before


class Stage:
    """Where provocations are played: holds the upstreams, and ends them all.

        with Stage() as stage:
            error = stage.provoke(provocation)

    One provocation at a time, and not from within a running event loop: clients that are asynchronous start their own.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._web: dict[Certificate | None, FlakyHTTP] = {}
        self._mail: dict[Certificate | None, FlakySMTP] = {}
        self._ports: dict[str, int] = {}
        self._authority_file = ""

    def provoke(self, provocation: Provocation) -> Exception:
        """Let it fail, and give what was raised."""
        for web in self._web.values():
            web.forget()
        for mail in self._mail.values():
            mail.forget()
        try:
            provocation.run(self)
        except ReprieveError:
            raise  # ours, not the library's: a script is wrong, or trustme is missing
        except Exception as error:  # noqa: BLE001 - whatever the library raises is what was asked for
            return error
        raise NothingFailedError(f"{provocation.label} did not fail")

    def web(self, certificate: Certificate | None = None) -> FlakyHTTP:
        """The HTTP upstream, or the one with such a certificate."""
        if certificate not in self._web:
            self._web[certificate] = self._stack.enter_context(FlakyHTTP(certificate=certificate))
        return self._web[certificate]

    def mail(self, certificate: Certificate | None = None) -> FlakySMTP:
        """The SMTP upstream, or the one that offers STARTTLS with such a certificate."""
        if certificate not in self._mail:
            self._mail[certificate] = self._stack.enter_context(FlakySMTP(certificate=certificate))
        return self._mail[certificate]

    @property
    def refusing_port(self) -> int:
        """A port that refuses connections."""
        if "refusing" not in self._ports:
            self._ports["refusing"] = self._stack.enter_context(nobody_listening())
        return self._ports["refusing"]

    @property
    def deaf_port(self) -> int:
        """A port where connecting times out."""
        if "deaf" not in self._ports:
            self._ports["deaf"] = self._stack.enter_context(nobody_accepting())
        return self._ports["deaf"]

    @property
    def refusing_url(self) -> str:
        """An address that refuses connections."""
        return f"http://{HOST}:{self.refusing_port}/"

    @property
    def authority_file(self) -> str:
        """A file with the authority to trust, for clients that take nothing else."""
        if not self._authority_file:
            descriptor, self._authority_file = tempfile.mkstemp(suffix=".pem")
            self._stack.callback(Path(self._authority_file).unlink)
            with os.fdopen(descriptor, "wb") as file:
                file.write(authority_pem())
        return self._authority_file

    def _bypass_proxies(self) -> None:
        """Keep clients that read the environment from asking a proxy for our addresses."""
        for name in ("no_proxy", "NO_PROXY"):
            before = os.environ.get(name)
            os.environ[name] = HOST if not before else f"{before},{HOST}"
            self._stack.callback(_restore, name, before)

    def __enter__(self) -> Self:
        self._bypass_proxies()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
