"""An SMTP upstream that fails on purpose, at any phase of the dialogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, assert_never

from reprieve.errors import UsageError
from reprieve.testing.acts import HangUp, Moment, Reset, Stall, check_kind
from reprieve.testing.script import Script
from reprieve.testing.tls import Certificate, server_context
from reprieve.testing.upstream import HOST, Upstream

if TYPE_CHECKING:
    import ssl

    from reprieve.testing.wire import Wire


class Phase(StrEnum):
    """What the server is about to answer."""

    CONNECT = "connect"
    """The connection itself: the greeting."""
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    """The command DATA, before the message."""
    MESSAGE = "message"
    """The message itself, once it is there: the answer that says whether it was taken."""


_LEAST_CODE: Final = 200
_GREATEST_CODE: Final = 599
_CLOSING: Final = 421


@dataclass(frozen=True, slots=True)
class Answer:
    """An SMTP answer.

    Answer(452, "4.2.2 mailbox full")
    """

    code: int
    text: str = "as scripted"

    def __post_init__(self) -> None:
        check_kind(self.code, int, "an SMTP code is a number from 200 to 599")
        if not _LEAST_CODE <= self.code <= _GREATEST_CODE:
            raise UsageError(f"an SMTP code is a number from 200 to 599, not {self.code!r}")


MailAct = Answer | Reset | HangUp | Stall

_USUAL: Final[dict[Phase, Answer]] = {
    Phase.CONNECT: Answer(220, "flaky.example ESMTP"),
    Phase.EHLO: Answer(250, "flaky.example"),
    Phase.STARTTLS: Answer(220, "go ahead"),
    Phase.AUTH: Answer(235, "2.7.0 welcome"),
    Phase.MAIL: Answer(250, "2.1.0 ok"),
    Phase.RCPT: Answer(250, "2.1.5 ok"),
    Phase.DATA: Answer(354, "end with a dot on a line of its own"),
    Phase.MESSAGE: Answer(250, "2.0.0 taken"),
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message that the server has taken."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes


@dataclass(slots=True)
class _Session:
    """What one client has said so far."""

    sender: str = ""
    recipients: tuple[str, ...] = ()
    secure: bool = False


class FlakySMTP(Upstream):
    """An SMTP server that does what the script says, and takes every message when it says nothing.

        with FlakySMTP() as mail:
            mail.next(Phase.RCPT, Answer(550, "5.1.1 no such user"), recipient="gone@example.org")
            mail.next(Phase.MESSAGE, HangUp())              # taken or not? the client cannot know
            mail.always(Phase.AUTH, Answer(535, "5.7.8 bad credentials"))
            smtplib.SMTP(mail.host, mail.port)

    With `certificate` it offers STARTTLS; `implicit=True` starts TLS at once, as on port 465.
    """

    host: Final = HOST

    def __init__(
        self, *, certificate: Certificate | str | None = None, implicit: bool = False, longest: float = 30.0
    ) -> None:
        """Offer TLS with such a certificate, or none without one."""
        super().__init__(longest=longest)
        if implicit and certificate is None:
            raise UsageError("implicit TLS needs a certificate")
        self._context: ssl.SSLContext | None = None if certificate is None else server_context(Certificate(certificate))
        self._implicit = implicit
        self._script: Script[MailAct | None] = Script(None)
        self._messages: list[Message] = []

    def next(self, phase: Phase, *acts: MailAct, recipient: str | None = None) -> None:
        """Do these next at this phase, once each, in this order; at RCPT for one recipient or for any."""
        if not acts:
            raise UsageError("next() wants at least one act, such as Answer(451)")
        self._script.append([_checked(act) for act in acts], _place(phase, recipient))

    def always(self, phase: Phase, act: MailAct, *, recipient: str | None = None) -> None:
        """Do this at this phase whenever nothing is queued."""
        self._script.settle(_checked(act), _place(phase, recipient))

    def forget(self) -> None:
        """Drop the script and the messages taken so far."""
        self._script.clear()
        with self._changed:
            self._messages.clear()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that arrived whole, also those that were then refused or left without an answer."""
        with self._changed:
            return tuple(self._messages)

    def _serve(self, wire: Wire) -> None:
        session = _Session()
        if self._implicit and self._context is not None:
            wire.start_tls(self._context)
            session.secure = True
        code = self._meet(wire, Phase.CONNECT)
        while code is not None:
            code = self._serve_command(wire, session)

    def _serve_command(self, wire: Wire, session: _Session) -> int | None:
        """Answer one command; gives the code that was said, or None when the dialogue is over."""
        verb, _, rest = wire.read_line().decode("latin-1").partition(" ")
        match verb.upper():
            case "EHLO" | "HELO":
                code = self._meet(wire, Phase.EHLO, extensions=self._extensions(session))
            case "STARTTLS" if self._context is not None and not session.secure:
                code = self._start_tls(wire, session, self._context)
            case "AUTH":
                if " " not in rest:
                    _say(wire, Answer(334, ""))
                    wire.read_line()
                code = self._meet(wire, Phase.AUTH)
            case "MAIL":
                session.sender, session.recipients = _address(rest), ()
                code = self._meet(wire, Phase.MAIL)
            case "RCPT":
                code = self._take_recipient(wire, session, _address(rest))
            case "DATA":
                code = self._take_message(wire, session)
            case "RSET" | "NOOP":
                code = _say(wire, Answer(250, "2.0.0 ok"))
            case "QUIT":
                _say(wire, Answer(221, "2.0.0 bye"))
                wire.hang_up()
                code = None
            case _:
                code = _say(wire, Answer(500, f"5.5.1 unknown command {verb!r}"))
        return code

    def _extensions(self, session: _Session) -> tuple[str, ...]:
        offered = ("STARTTLS",) if self._context is not None and not session.secure else ()
        return (*offered, "AUTH PLAIN", "8BITMIME")

    def _start_tls(self, wire: Wire, session: _Session, context: ssl.SSLContext) -> int | None:
        code = self._meet(wire, Phase.STARTTLS)
        if code == _USUAL[Phase.STARTTLS].code:
            wire.start_tls(context)
            session.secure = True
        return code

    def _take_recipient(self, wire: Wire, session: _Session, address: str) -> int | None:
        code = self._meet(wire, Phase.RCPT, (Phase.RCPT, address))
        if code == _USUAL[Phase.RCPT].code:
            session.recipients = (*session.recipients, address)
        return code

    def _take_message(self, wire: Wire, session: _Session) -> int | None:
        code = self._meet(wire, Phase.DATA)
        if code != _USUAL[Phase.DATA].code:
            return code
        lines = []
        while (line := wire.read_line()) != b".":
            lines.append(line.removeprefix(b"."))
        with self._changed:
            self._messages.append(Message(session.sender, session.recipients, b"\r\n".join(lines)))
        return self._meet(wire, Phase.MESSAGE)

    def _meet(
        self, wire: Wire, phase: Phase, *places: tuple[Phase, str], extensions: tuple[str, ...] = ()
    ) -> int | None:
        """Do what is scripted for this phase, or answer as usual."""
        usual = _USUAL[phase]
        act = self._script.take(*places, phase) or usual
        match act:
            case Answer():
                return self._answer(wire, act, extensions if act.code == usual.code else ())
            case Stall(seconds=float() | int() as seconds):
                wire.wait(seconds)
                return self._answer(wire, usual, extensions)
            case Stall():
                wire.wait(self.longest)
                wire.hang_up()
            case Reset():
                wire.reset()
            case HangUp():
                wire.hang_up()
            case _:
                assert_never(act)
        return None

    def _answer(self, wire: Wire, answer: Answer, extensions: tuple[str, ...]) -> int | None:
        _say(wire, answer, extensions)
        if answer.code == _CLOSING:
            wire.hang_up()
            return None
        return answer.code


def _checked(act: MailAct) -> MailAct:
    if not isinstance(act, MailAct):
        raise UsageError(f"an SMTP upstream can do an Answer, Reset, HangUp or Stall, not {act!r}")
    if not isinstance(act, Answer) and act.at is not Moment.REPLY:
        raise UsageError(f"with SMTP the phase says when, so leave out at={act.at.value!r}")
    return act


def _place(phase: Phase, recipient: str | None) -> Phase | tuple[Phase, str]:
    place = Phase(phase)
    if recipient is None:
        return place
    if place is not Phase.RCPT:
        raise UsageError(f"a recipient goes with Phase.RCPT, not with {place.value!r}")
    return (place, recipient.lower())


def _address(rest: str) -> str:
    return rest.partition("<")[2].partition(">")[0].lower()


def _say(wire: Wire, answer: Answer, extensions: tuple[str, ...] = ()) -> int:
    lines = (answer.text, *extensions)
    marks = ["-"] * (len(lines) - 1) + [" "]
    text = "".join(f"{answer.code}{mark}{line}\r\n" for mark, line in zip(marks, lines, strict=True))
    wire.send(text.encode("utf-8"))
    return answer.code
