"""Every way in which a mail server fails, through smtplib and aiosmtplib."""

from __future__ import annotations

import asyncio
import smtplib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.testing.acts import HangUp, Reset, Stall
from reprieve.testing.mail import Answer, MailAct, Phase
from reprieve.testing.provoke.stage import IMPATIENT, KEY, PATIENT, Provocation, Stage, library
from reprieve.testing.tls import Certificate, trusting_context
from reprieve.testing.upstream import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SENDER: Final = "reviews@example.org"
_RECIPIENTS: Final = ("first@example.org", "second@example.org")
_MESSAGE: Final = b"Subject: hello\r\n\r\nhello\r\n"


@dataclass(frozen=True, slots=True)
class Situation:
    """What the server does at which phase, and how the client calls it."""

    phase: Phase | None = None
    act: MailAct | None = None
    login: bool = False
    start_tls: bool = False
    certificate: Certificate | None = None
    timeout: float = PATIENT
    port: Callable[[Stage], int] | None = None

    def prepare(self, stage: Stage) -> int:
        """Script the server; gives the port to call."""
        if self.port is not None:
            return self.port(stage)
        server = stage.mail(self.certificate)
        if self.phase is not None and self.act is not None:
            server.always(self.phase, self.act)
        return server.port


_PHASES: Final[Mapping[str, tuple[Phase, bool]]] = {
    "connect": (Phase.CONNECT, False),
    "EHLO": (Phase.EHLO, False),
    "AUTH": (Phase.AUTH, True),
    "MAIL": (Phase.MAIL, False),
    "RCPT": (Phase.RCPT, False),
    "DATA": (Phase.DATA, False),
    "the message": (Phase.MESSAGE, False),
}


def _situations() -> Iterator[tuple[str, Situation]]:
    yield "connection refused", Situation(port=lambda stage: stage.refusing_port)
    yield "connect timeout", Situation(port=lambda stage: stage.deaf_port, timeout=IMPATIENT)
    for name, (phase, login) in _PHASES.items():
        for code, text in ((451, "4.3.0 try again later"), (554, "5.7.1 refused for good")):
            yield f"{code} at {name}", Situation(phase, Answer(code, text), login=login)
        yield f"hung up at {name}", Situation(phase, HangUp(), login=login)
        yield f"reset at {name}", Situation(phase, Reset(), login=login)
        yield f"silence at {name}", Situation(phase, Stall(), login=login, timeout=IMPATIENT)
    yield "535 at AUTH", Situation(Phase.AUTH, Answer(535, "5.7.8 bad credentials"), login=True)
    yield "454 at AUTH", Situation(Phase.AUTH, Answer(454, "4.7.0 temporary failure"), login=True)
    yield "550 at RCPT", Situation(Phase.RCPT, Answer(550, "5.1.1 no such user"))
    yield "552 at the message", Situation(Phase.MESSAGE, Answer(552, "5.3.4 message too big"))
    yield "421 at MAIL", Situation(Phase.MAIL, Answer(421, "4.7.0 too many connections"))
    yield "STARTTLS not offered", Situation(start_tls=True)
    for name, certificate in (
        ("self-signed certificate", Certificate.SELF_SIGNED),
        ("expired certificate", Certificate.EXPIRED),
        ("wrong host name", Certificate.WRONG_HOST),
    ):
        yield name, Situation(start_tls=True, certificate=certificate)
    refused = Answer(454, "4.7.0 TLS not available")
    yield "454 at STARTTLS", Situation(Phase.STARTTLS, refused, start_tls=True, certificate=Certificate.GOOD)


SITUATIONS: Final[Mapping[str, Situation]] = dict(_situations())
"""By name."""


def _smtplib(situation: Situation, stage: Stage) -> None:
    with smtplib.SMTP(HOST, situation.prepare(stage), timeout=situation.timeout) as client:
        if situation.start_tls:
            client.starttls(context=trusting_context())
        if situation.login:
            client.login("someone", KEY)
        client.sendmail(_SENDER, _RECIPIENTS, _MESSAGE)


def _aiosmtplib(situation: Situation, stage: Stage) -> None:
    smtp = library("aiosmtplib").SMTP
    port = situation.prepare(stage)

    async def send() -> None:
        options: dict[str, object] = {"timeout": situation.timeout, "start_tls": situation.start_tls}
        if situation.start_tls:
            options["tls_context"] = trusting_context()
        async with smtp(hostname=HOST, port=port, **options) as client:
            if situation.login:
                await client.login("someone", KEY)
            await client.sendmail(_SENDER, list(_RECIPIENTS), _MESSAGE)

    asyncio.run(send())


def provocations() -> Iterator[Provocation]:
    """Each situation through both libraries."""
    for library_name, send in (("smtplib", _smtplib), ("aiosmtplib", _aiosmtplib)):
        for name, situation in SITUATIONS.items():
            packages = (library_name, "trustme") if situation.start_tls else (library_name,)
            yield Provocation(library_name, name, partial(send, situation), packages)
