"""The sender of mail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiosmtplib

from reprieve.adapters.smtp.connections import Client, Connections, Envelope
from reprieve.adapters.smtp.security import Tls, checked_login, checked_place, trusting
from reprieve.core.addresses import address_of, mailbox, mailto
from reprieve.core.delivery import Capability, Phase
from reprieve.core.mail import compose, message_id
from reprieve.ports.sending import Answer

if TYPE_CHECKING:
    import ssl

    from reprieve.adapters.smtp.journal import Imap
    from reprieve.ports.sending import Outgoing, Question

_NEGATIVE: Final = range(400, 600)


class SMTP:
    """Hands messages to a mail server.

        SMTP("mail.example.org", 587, sender="Reviews <reviews@example.org>", username="reviews", password=...,
             journal=Imap("mail.example.org", username="journal", password=...), bcc_journal="journal@example.org")

    With a journal, a mailbox that gets a copy of every message, one that may have been sent is looked for there before it
    is sent again. Without one it is never sent again unless a person says so.
    """

    def __init__(  # noqa: PLR0913 - settings by keyword, most of them never given
        self,
        host: str,
        port: int = 587,
        *,
        sender: str,
        username: str | None = None,
        password: str | None = None,
        tls: str = "starttls",
        name: str = "smtp",
        journal: Imap | None = None,
        bcc_journal: str | None = None,
        timeout: float = 30.0,
        connections: int = 4,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Take how to reach the server, as whom, and where what was sent is found again.

        `bcc_journal` is an address that gets a blind copy; leave it out where the server itself copies all mail.
        """
        self.name = name
        checked_login(username, password)
        self._host, self._port, self._username, self._password = host, port, username, password
        self._tls = checked_place(host, port, tls, secret=password is not None)
        self._sender = mailbox(sender)
        self._journal = journal
        self._bcc_journal = None if bcc_journal is None else address_of(bcc_journal)
        self._context = ssl_context
        self._connections = Connections(self._dial, connections)
        self.capability = Capability(
            looks_up=journal is not None, lag=0.0 if journal is None else journal.lag,
            retention=None if journal is None else journal.retention, send_timeout=timeout,
        )  # fmt: skip
        self.secrets = tuple(each for each in (password, None if journal is None else journal.password) if each)
        """What no text may hold."""

    def address(self, recipient: str) -> str:
        """The recipient as `mailto:` and an address in its normal form."""
        return mailto(address_of(recipient))

    async def send(self, outgoing: Outgoing) -> str:
        """Hand it to the server, and return its Message-ID."""
        outgoing.reached(Phase.BEFORE)
        message, token = outgoing.message, outgoing.token
        recipient = address_of(message.recipient)
        content = compose(
            sender=self._sender, recipient=recipient, subject=message.subject, text=message.text, html=message.html,
            token=token, prepared_at=outgoing.prepared_at,
        )  # fmt: skip
        envelope = Envelope(
            sender=self._sender.address, recipient=recipient, journal=self._bcc_journal, content=content
        )
        try:
            async with asyncio.timeout(min(outgoing.timeout, self.capability.send_timeout)):
                await self._connections.hand_over(envelope, outgoing.reached)
        except aiosmtplib.SMTPResponseException as answer:
            if answer.code in _NEGATIVE:
                outgoing.reached(Phase.REJECTED)
            raise
        return message_id(token, self._sender)

    async def look_up(self, question: Question) -> Answer:
        """Search the journal for its Message-ID."""
        if self._journal is None:
            return Answer.unknown("there is no journal mailbox to look in")
        return await self._journal.find(question.token, within=question.timeout)

    async def close(self) -> None:
        """Let go of connections; may be called twice, and be used again after."""
        await self._connections.close()

    def _dial(self) -> Client:
        if self._tls is not Tls.NONE:
            self._context = trusting(self._context)
        return Client(
            hostname=self._host,
            port=self._port,
            username=self._username,
            password=self._password,
            local_hostname=self._sender.domain,  # not this machine's own name, which is nobody's business
            timeout=None,
            use_tls=self._tls is Tls.IMPLICIT,
            start_tls=self._tls is Tls.STARTTLS,
            tls_context=self._context,
        )
