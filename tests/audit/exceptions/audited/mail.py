"""SMTP replies through smtplib and aiosmtplib, FTP's and IMAP's, and refused recipients."""

from __future__ import annotations

import ftplib
import imaplib
import smtplib
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, Final

import aiosmtplib

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    NETWORK,
    NOT_FOUND,
    POLICY,
    RATE_LIMIT,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    secret,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

PASSWORD: Final = secret("mail", "-Pass", "word-5Tr")
LATER: Final = AWAY | RATE_LIMIT
NOBODY: Final = NOT_FOUND | VALIDATION
RECIPIENTS: Final[tuple[tuple[str, bool, Any, str], ...]] = (
    ("greylisted", True, LATER, "450"),
    ("busy", True, LATER, "451"),
    ("full", True, LATER, "452"),
    ("unavailable", True, LATER, "421"),
    ("unknown", False, NOBODY, "550 5.1.1"),
    ("relay", False, POLICY | AUTH | NOBODY, "551"),
    ("policy", False, POLICY | VALIDATION | AUTH, "554 5.7.1"),
    ("syntax", False, NOBODY, "501"),
    ("moved", False, NOBODY, "553"),
    ("toobig", False, VALIDATION | POLICY, "552 5.3.4"),
    ("needauth", False, AUTH, "530 5.7.0"),
)


def letter(subject: str = "review", sender: str = "ci@lab.example", to: str = "ada@lab.example") -> EmailMessage:
    """A short message."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = subject, sender, to
    message.set_content("a review is ready")
    return message


def by_smtplib(lab: Lab, message: EmailMessage, **options: Any) -> object:
    """Send this by smtplib."""
    with smtplib.SMTP("127.0.0.1", lab.mail.port, timeout=5, **options) as server:
        return server.send_message(message)


async def by_aiosmtplib(lab: Lab, message: EmailMessage, **options: Any) -> object:
    """Send this by aiosmtplib."""
    return await aiosmtplib.send(
        message, hostname="127.0.0.1", port=lab.mail.port, start_tls=False, timeout=5, **options
    )


def cases() -> Iterator[Case]:
    """All of them."""
    for name, send in (("smtplib", by_smtplib), ("aiosmtplib", by_aiosmtplib)):
        for mood, retryable, categories, code in RECIPIENTS:
            for place, message in (
                ("recipient", letter(to=f"{mood}@lab.example")),
                ("sender", letter(sender=f"{mood}@lab.example")),
                ("data", letter(subject=mood)),
            ):
                if place == "recipient" or mood in {"busy", "unavailable", "policy", "toobig"}:
                    yield Case(
                        label=f"{name} {place} {mood} ({code})",
                        library=name,
                        provoke=lambda lab, send=send, message=message: send(lab, message),
                        retryable=retryable,
                        categories=categories,
                        reason="notes: 4xx retry, 5xx permanent",
                    )
    yield from _smtplib()
    yield from _aiosmtplib()
    yield from _others()


def _login(lab: Lab, host: str) -> object:
    with smtplib.SMTP("127.0.0.1", lab.mail.port, local_hostname=host, timeout=5) as server:
        return server.login("ci@lab.example", PASSWORD)


def _starttls(lab: Lab, host: str) -> object:
    with smtplib.SMTP("127.0.0.1", lab.mail.port, local_hostname=host, timeout=5) as server:
        return server.starttls()


def _out_of_order(lab: Lab) -> object:
    return smtplib.SMTP().sendmail("a@lab.example", ["b@lab.example"], "hello")


def _smtplib() -> Iterator[Case]:
    yield stop(
        "smtplib",
        "smtplib 535",
        lambda lab: _login(lab, "lab"),
        AUTH,
        "CRIT-1.6",
        secrets=(PASSWORD,),
        error_class="AUTH_DENIED",
    )
    yield retry(
        "smtplib",
        "smtplib 454 on login",
        lambda lab: _login(lab, "later"),
        LATER | AUTH,
        "notes: a temporary auth failure",
    )
    yield stop(
        "smtplib",
        "smtplib AUTH not supported",
        lambda lab: _login(lab, "plain"),
        AUTH | CONFIGURATION,
        "the server has no AUTH",
    )
    yield stop(
        "smtplib",
        "smtplib STARTTLS not supported",
        lambda lab: _starttls(lab, "lab"),
        CONFIGURATION,
        "the server has none",
    )
    yield stop(
        "smtplib",
        "smtplib used before connecting",
        _out_of_order,
        CONFIGURATION | NETWORK,
        "illegal state",
        arguable=True,
    )
    yield retry("smtplib", "smtplib HELO refused with 421", lambda lab: _login(lab, "closed"), LATER, "4xx retry")
    yield retry(
        "smtplib", "smtplib refused", lambda lab: smtplib.SMTP("127.0.0.1", lab.closed_port), NETWORK, "CRIT-1.1"
    )
    yield retry(
        "smtplib",
        "smtplib silent",
        lambda lab: smtplib.SMTP("127.0.0.1", lab.silent_port, timeout=0.05),
        NETWORK,
        "CRIT-1.1",
    )
    both = {"unknown@lab.example": (550, b"5.1.1 no such user"), "busy@lab.example": (451, b"4.3.0 try later")}
    yield stop(
        "smtplib",
        "smtplib some refused for good, some for now",
        lambda _: smtplib.SMTPRecipientsRefused(both),
        NOBODY | AWAY,
        "notes: mixed recipients are a partial result",
        arguable=True,
    )


def _aiosmtplib() -> Iterator[Case]:
    credentials: Any = {"username": "ci@lab.example", "password": PASSWORD}
    yield stop(
        "aiosmtplib", "aiosmtplib 535", lambda lab: by_aiosmtplib(lab, letter(), **credentials), AUTH, "CRIT-1.6",
        secrets=(PASSWORD,), error_class="AUTH_DENIED",
    )  # fmt: skip
    yield retry(
        "aiosmtplib", "aiosmtplib 454 on login",
        lambda lab: by_aiosmtplib(lab, letter(), local_hostname="later", **credentials), LATER | AUTH, "notes",
    )  # fmt: skip
    yield retry(
        "aiosmtplib", "aiosmtplib refused",
        lambda lab: aiosmtplib.send(letter(), hostname="127.0.0.1", port=lab.closed_port), NETWORK, "CRIT-1.1",
    )  # fmt: skip
    yield retry(
        "aiosmtplib", "aiosmtplib silent",
        lambda lab: aiosmtplib.send(letter(), hostname="127.0.0.1", port=lab.silent_port, timeout=0.05), NETWORK, "CRIT-1.1",
    )  # fmt: skip
    yield stop(
        "aiosmtplib", "aiosmtplib untrusted certificate",
        lambda lab: aiosmtplib.send(letter(), hostname="localhost", port=lab.untrusted_port, use_tls=True), CONFIGURATION,
        "notes: a certificate is permanent",
    )  # fmt: skip


def _others() -> Iterator[Case]:
    yield retry(
        "ftplib", "ftplib 421", lambda _: ftplib.error_temp("421 too many connections"), AWAY | RATE_LIMIT, "4xx retry"
    )
    yield stop("ftplib", "ftplib 530", lambda _: ftplib.error_perm("530 Login incorrect."), AUTH, "CRIT-1.6")
    yield stop(
        "ftplib",
        "ftplib 550",
        lambda _: ftplib.error_perm("550 No such file or directory."),
        NOT_FOUND | AUTH,
        "5xx permanent",
    )
    yield retry("ftplib", "ftplib refused", _ftp_refused, NETWORK, "CRIT-1.1")
    yield retry(
        "imaplib", "imaplib abort", lambda _: imaplib.IMAP4.abort("socket error: EOF"), NETWORK | UPSTREAM, "reconnect"
    )
    yield stop(
        "imaplib",
        "imaplib login failed",
        lambda _: imaplib.IMAP4.error(b"[AUTHENTICATIONFAILED] Invalid credentials"),
        AUTH,
        "CRIT-1.6",
        arguable=True,
    )


def _ftp_refused(lab: Lab) -> object:
    with ftplib.FTP() as client:
        return client.connect("127.0.0.1", lab.closed_port, timeout=2)
