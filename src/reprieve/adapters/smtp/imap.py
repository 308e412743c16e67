"""As much of IMAP (RFC 3501) as it takes to search a mailbox, without changing anything in it."""

from __future__ import annotations

import asyncio
import base64
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.adapters.smtp.security import Tls, trusting

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

_LITERAL: Final = re.compile(rb"\{(\d{1,5})\}\r?\n\Z")
_MOST_LINES: Final = 1000
_PLAIN_TEXT: Final = re.compile(r"[\x20-\x7e]*")


class ImapError(Exception):
    """The server said no, or something that cannot be understood."""


def quoted(text: str) -> bytes:
    """A string of printable ASCII as IMAP writes it."""
    if not _PLAIN_TEXT.fullmatch(text):
        raise ImapError("a name with characters beyond ASCII")
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'.encode()


class _Reading(asyncio.StreamReaderProtocol):
    """Without the writer that streams come with, which closes its connection when it is let go of."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        super().__init__(self.reader)


@dataclass(slots=True)
class Dialogue:
    """A connection to an IMAP server, one command at a time."""

    reader: asyncio.StreamReader
    transport: asyncio.WriteTransport
    number: int = 0

    async def greeting(self) -> None:
        """Wait for the server to speak first."""
        line = await self._line()
        if not line.upper().startswith(b"* OK"):
            raise ImapError(f"greeted with {_shown(line)}")

    async def command(self, *words: bytes, then: bytes | None = None) -> Sequence[bytes]:
        """What the server says before it confirms a command; `then` is what it is to be told when it asks to go on."""
        self.number += 1
        tag = b"r%d" % self.number
        self.transport.write(b" ".join((tag, *words)) + b"\r\n")
        said: list[bytes] = []
        while len(said) < _MOST_LINES:
            line = await self._line()
            if line.startswith(b"+") and then is not None:
                self.transport.write(then + b"\r\n")
                then = None
            elif line.startswith(tag + b" "):
                if line[len(tag) + 1 :][:3].upper().rstrip() != b"OK":
                    raise ImapError(f"{words[0].decode()} was answered with {_shown(line)}")
                return said
            else:
                said.append(line)
        raise ImapError(f"{words[0].decode()} was answered with more than {_MOST_LINES} lines")

    async def start_tls(self, host: str, context: ssl.SSLContext) -> None:
        """Encrypt from here on; what had been said in the clear is forgotten with its reader."""
        await self.command(b"STARTTLS")
        protocol = _Reading()
        transport = await asyncio.get_running_loop().start_tls(self.transport, protocol, context, server_hostname=host)
        if transport is None:
            raise ImapError("the connection was closed during STARTTLS")
        protocol.connection_made(transport)
        self.reader, self.transport = protocol.reader, transport

    async def login(self, username: str, password: str) -> None:
        """Say who we are."""
        offered = b" ".join(await self.command(b"CAPABILITY")).upper()
        if b"AUTH=PLAIN" in offered:
            told = base64.b64encode(f"\0{username}\0{password}".encode())
            await self.command(b"AUTHENTICATE PLAIN", then=told)
        else:
            await self.command(b"LOGIN", quoted(username), quoted(password))

    async def _line(self) -> bytes:
        """One line, with the literals in it."""
        line = await self.reader.readuntil(b"\n")
        while (literal := _LITERAL.search(line)) is not None:
            line += await self.reader.readexactly(int(literal[1]))
            line += await self.reader.readuntil(b"\n")
        return line


@asynccontextmanager
async def connected(host: str, port: int, tls: Tls, context: ssl.SSLContext | None) -> AsyncIterator[Dialogue]:
    """A dialogue with a server that has greeted, encrypted as asked for; closed at the end, whatever happened."""
    encrypted = trusting(context) if tls is Tls.IMPLICIT else None
    transport, protocol = await asyncio.get_running_loop().create_connection(
        _Reading, host, port, ssl=encrypted, server_hostname=None if encrypted is None else host
    )
    dialogue = Dialogue(protocol.reader, transport)
    try:
        await dialogue.greeting()
        if tls is Tls.STARTTLS:
            await dialogue.start_tls(host, trusting(context))
        yield dialogue
    finally:
        # Nothing is owed to the server, and nothing is worth waiting for.
        dialogue.transport.abort()


def _shown(line: bytes) -> str:
    return repr(line.strip()[:200].decode("utf-8", "replace"))
