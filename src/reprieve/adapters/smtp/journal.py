"""The look-up: whether a mailbox that gets a copy of every message has one."""

from __future__ import annotations

import asyncio
import re
from dataclasses import KW_ONLY, dataclass, field
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, Final

from reprieve.adapters.smtp.imap import ImapError, connected, quoted
from reprieve.adapters.smtp.security import checked_login, checked_place
from reprieve.core.delivery import Found
from reprieve.core.mail import id_prefix
from reprieve.errors import UsageError
from reprieve.ports.sending import Answer

if TYPE_CHECKING:
    import ssl

    from reprieve.adapters.smtp.imap import Dialogue

_MOST_FETCHED: Final = 20
_RECEIVED: Final = re.compile(rb'\bINTERNALDATE "([^"]{20,30})"', re.IGNORECASE)
_ID: Final = re.compile(rb"^Message-ID:\s*(<[^<>\s]+>)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Imap:
    """A journal mailbox, searched by IMAP.

    Imap("mail.example.org", username="journal", password=..., lag=60, retention=90 * 86400)
    """

    host: str
    port: int = 993
    _: KW_ONLY
    username: str
    password: str = field(repr=False)
    mailbox: str = "INBOX"
    tls: str = "implicit"
    lag: float = 30.0
    """Seconds that a copy may take to show up."""
    retention: float | None = None
    """Seconds after which copies are deleted; None: never."""
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checked_place(self.host, self.port, self.tls, secret=True)
        checked_login(self.username, self.password)
        if not self.mailbox or not self.mailbox.isascii() or not self.mailbox.isprintable():
            raise UsageError(
                "mailbox= is a name as IMAP writes it: printable ASCII, other characters in modified UTF-7"
            )

    async def find(self, token: str, *, within: float) -> Answer:
        """Whether the mailbox has the message of this token; whatever goes wrong, nothing is known by it."""
        try:
            async with asyncio.timeout(within):
                return await self._find(id_prefix(token))
        except (OSError, EOFError, ImapError, ValueError, asyncio.LimitOverrunError) as problem:
            return Answer.unknown(f"{self.host}: {type(problem).__name__}: {problem}")

    async def _find(self, beginning: str) -> Answer:
        tls = checked_place(self.host, self.port, self.tls, secret=True)
        async with connected(self.host, self.port, tls, self.ssl_context) as dialogue:
            await dialogue.login(self.username, self.password)
            await dialogue.command(b"EXAMINE", quoted(self.mailbox))
            numbers = await _search(dialogue, beginning)
            if not numbers:
                return Answer(found=Found.ABSENT, evidence=f"nothing in {self.mailbox} of {self.host}")
            copies = await _copies(dialogue, numbers, beginning)
        if not copies:
            return Answer.unknown(f"{self.host} found what is not in its messages")
        (first, received), *more = copies
        return Answer(
            found=Found.DUPLICATE if more else Found.FOUND,
            notification_id=first,
            sent_at=received,
            evidence=f"{len(copies)} in {self.mailbox} of {self.host}, UID {', '.join(numbers[:_MOST_FETCHED])}",
        )


async def _search(dialogue: Dialogue, beginning: str) -> list[str]:
    """The numbers of the messages whose Message-ID holds this; a server that names none at all has not answered."""
    said = await dialogue.command(b"UID SEARCH HEADER Message-ID", quoted(beginning))
    answers = [line.split()[2:] for line in said if line[:8].upper() == b"* SEARCH"]
    if len(answers) != 1 or not all(number.isdigit() for number in answers[0]):
        raise ImapError("a search without a clear answer")
    return [number.decode() for number in answers[0]]


async def _copies(dialogue: Dialogue, numbers: list[str], beginning: str) -> list[tuple[str, float | None]]:
    """Id and time of arrival of those that are the message: what was found is looked at, not believed."""
    wanted = ",".join(numbers[:_MOST_FETCHED]).encode()
    said = await dialogue.command(b"UID FETCH", wanted, b"(INTERNALDATE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])")
    copies = []
    for line in said:
        found = _ID.search(line)
        if found is not None and found[1].decode("ascii", "replace").startswith(beginning):
            copies.append((found[1].decode("ascii", "replace"), _received(line)))
    return copies


def _received(line: bytes) -> float | None:
    found = _RECEIVED.search(line)
    parsed = None if found is None else parsedate_tz(found[1].decode("ascii", "replace").replace("-", " ", 2))
    return None if parsed is None else float(mktime_tz(parsed))
