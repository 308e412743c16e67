"""The dialogue with a mail server, step by step, so that it is known how far it got; on connections that last for a burst."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import aiosmtplib

from reprieve.core.delivery import Phase
from reprieve.errors import Permanent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_IDLE_SECONDS: Final = 5.0
_STALE_SECONDS: Final = 5.0
"""How long a connection that was kept may take to answer before another is opened."""
_PARTING_SECONDS: Final = 2.0
_GO_AHEAD: Final = 354
_TAKEN: Final = range(200, 300)
_FOR_GOOD: Final = range(500, 600)
_LEADING_DOT: Final = re.compile(rb"(?m)^\.")
_DISCARDING: Final = struct.pack("ii", 1, 0)
_FINISHING: Final = struct.pack("ii", 0, 0)


class Client(aiosmtplib.SMTP):
    """A connection that is closed at once: what is still to be written is dropped, not sent behind our back."""

    def close(self) -> None:
        """Hang up, also on a server that does not take leave."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message, from whom and to whom."""

    sender: str
    recipient: str
    journal: str | None
    """Who gets a blind copy, so that the message can be looked up."""
    content: bytes

    @property
    def international(self) -> bool:
        """Whether an address needs more than ASCII."""
        return not f"{self.sender}{self.recipient}{self.journal or ''}".isascii()


@dataclass(frozen=True, slots=True)
class _Idle:
    client: Client
    end: asyncio.TimerHandle


class _Burst:
    """The connections of one event loop: so many at once, and those that wait for the next message."""

    def __init__(self, at_most: int) -> None:
        self.turn = asyncio.Semaphore(at_most)
        self.idle: list[_Idle] = []

    def keep(self, client: Client) -> None:
        """For the next message, if that comes soon."""
        end = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._expire, client)
        self.idle.append(_Idle(client, end))

    def take(self) -> Client | None:
        """One that was kept and, for all that is known, still stands."""
        while self.idle:
            kept = self.idle.pop()
            kept.end.cancel()
            if kept.client.is_connected:
                return kept.client
        return None

    def _expire(self, client: Client) -> None:
        self.idle = [kept for kept in self.idle if kept.client is not client]
        client.close()


class Connections:
    """Hands messages over, each on a connection of its own for that time."""

    def __init__(self, dial: Callable[[], Client], at_most: int) -> None:
        self._dial = dial
        self._at_most = at_most
        # A connection belongs to its loop; a sender that is declared once may see several.
        self._bursts: WeakKeyDictionary[asyncio.AbstractEventLoop, _Burst] = WeakKeyDictionary()

    async def hand_over(self, envelope: Envelope, reached: Callable[[Phase], None]) -> None:
        """Hand a message over, saying how far it gets; after a failure the connection is not used again."""
        loop = asyncio.get_running_loop()
        burst = self._bursts.get(loop)
        if burst is None:
            burst = self._bursts[loop] = _Burst(self._at_most)
        async with burst.turn:
            client = await self._opened(burst, envelope)
            with _dropped_on_failure(client):
                await _name_recipients(client, envelope)
                await _transmit(client, envelope.content, reached)
            burst.keep(client)

    async def close(self) -> None:
        """Take leave of the server on every connection that waits."""
        burst = self._bursts.get(asyncio.get_running_loop())
        while burst is not None and (client := burst.take()) is not None:
            with suppress(aiosmtplib.SMTPException):
                await client.quit(timeout=_PARTING_SECONDS)
            client.close()

    async def _opened(self, burst: _Burst, envelope: Envelope) -> Client:
        """A connection whose server has agreed to the sender.

        One that was kept may have been closed at the other end meanwhile: that shows here, before anything of the message
        has left, and another is opened.
        """
        kept = burst.take()
        if kept is not None:
            with suppress(aiosmtplib.SMTPException), _dropped_on_failure(kept):
                await _name_sender(kept, envelope, within=_STALE_SECONDS)
                return kept
        client = self._dial()
        with _dropped_on_failure(client):
            await client.connect()
            if client.is_ehlo_or_helo_needed:
                await client.ehlo()
            await _name_sender(client, envelope, within=None)
        return client


@contextmanager
def _dropped_on_failure(client: Client) -> Iterator[None]:
    try:
        yield
    except BaseException:
        client.close()
        raise


async def _name_sender(client: Client, envelope: Envelope, *, within: float | None) -> None:
    options = [f"SIZE={len(envelope.content)}"] if client.supports_extension("size") else []
    if envelope.international:
        if not client.supports_extension("smtputf8"):
            raise Permanent(
                "the mail server does not take addresses beyond ASCII (SMTPUTF8)", error_class="RECIPIENT_INVALID"
            )
        options.append("SMTPUTF8")
    await client.mail(envelope.sender, options=options, encoding="utf-8", timeout=within)


async def _name_recipients(client: Client, envelope: Envelope) -> None:
    await client.rcpt(envelope.recipient, encoding="utf-8")
    if envelope.journal is None:
        return
    try:
        await client.rcpt(envelope.journal, encoding="utf-8")
    except aiosmtplib.SMTPRecipientRefused as refusal:
        # Sent without its copy, a look-up would deny it; and the recipient is not to blame.
        if refusal.code in _FOR_GOOD:
            raise Permanent(
                f"the mail server refused the journal's address ({refusal.code})", error_class="CONFIG_INVALID"
            ) from refusal
        raise


async def _transmit(client: Client, content: bytes, reached: Callable[[Phase], None]) -> None:
    answer = await client.execute_command(b"DATA")
    if answer.code != _GO_AHEAD:
        raise aiosmtplib.SMTPDataError(answer.code, answer.message)
    wire = client.protocol
    if wire is None or not client.is_connected:
        raise aiosmtplib.SMTPServerDisconnected("the server hung up before the message")
    # Given up, or its process killed, a message must not go on arriving from the system's buffers after a look-up missed it.
    _linger(client, _DISCARDING)
    reached(Phase.DURING)
    wire.write(_LEADING_DOT.sub(b"..", content) + b".\r\n")
    answer = await wire.read_response()
    if answer.code not in _TAKEN:
        raise aiosmtplib.SMTPDataError(answer.code, answer.message)
    _linger(client, _FINISHING)


def _linger(client: Client, how: bytes) -> None:
    with suppress(aiosmtplib.SMTPServerDisconnected, OSError):  # what has gone needs no setting
        client.get_transport_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, how)
