"""The sender that needs nobody: files in Maildir form, there whole or not at all."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reprieve.adapters.maildir import files
from reprieve.core.addresses import address_of, mailbox, mailto
from reprieve.core.delivery import Capability, Found, Phase
from reprieve.core.mail import compose
from reprieve.errors import UsageError
from reprieve.ports.sending import Answer

if TYPE_CHECKING:
    import os

    from reprieve.ports.sending import Outgoing, Question

_SCHEME: Final = "maildir:"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_+-]|\.(?!\.|\Z)){0,99}")


class Maildir:
    """Writes messages below a folder, to a Maildir for each recipient.

    Maildir("outgoing") puts what is for mailto:ada@example.org into outgoing/ada@example.org, and what is for maildir:ada
    into outgoing/ada.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str = "maildir",
        sender: str = "Reprieve <reprieve@localhost>",
        timeout: float = 30.0,
    ) -> None:
        """Take the folder, which is made when it is needed, and whom the messages are said to be from."""
        self.name = name
        self._path = Path(path)
        self._sender = mailbox(sender)
        self.capability = Capability(looks_up=True, send_timeout=timeout)

    def address(self, recipient: str) -> str:
        """`mailto:` and an address, or `maildir:` and the name of a folder, in its normal form."""
        name = _folder_name(recipient)
        return mailto(address_of(recipient)) if name is None else _SCHEME + name

    async def send(self, outgoing: Outgoing) -> str:
        """Write it, and return the name of its file, which it keeps when a mail program moves it."""
        outgoing.reached(Phase.BEFORE)
        message, name = outgoing.message, files.file_name(outgoing.token)
        folder, recipient = self._place(message.recipient)
        content = compose(
            sender=self._sender, recipient=recipient, subject=message.subject, text=message.text, html=message.html,
            token=outgoing.token, prepared_at=outgoing.prepared_at,
        ).replace(b"\r\n", b"\n")  # fmt: skip
        written = await asyncio.to_thread(files.write_unless_there, folder, name, content)
        if written is not None:
            outgoing.reached(Phase.DURING)
            await asyncio.to_thread(files.publish, folder, written, name)
        return name

    async def look_up(self, question: Question) -> Answer:
        """Look into the recipient's folders, among what was read too."""
        folder, _ = self._place(question.recipient)
        name = files.file_name(question.token)
        copies = await asyncio.to_thread(files.copies, folder, name)
        if not copies:
            return Answer(found=Found.ABSENT, evidence=f"not in {folder.name}")
        return Answer(
            found=Found.DUPLICATE if len(copies) > 1 else Found.FOUND,
            notification_id=name,
            sent_at=files.written_at(copies[0]),
            evidence=f"in {folder.name}: {', '.join(f'{each.parent.name}/{each.name}' for each in copies)}",
        )

    async def close(self) -> None:
        """Nothing is kept open."""

    def _place(self, recipient: str) -> tuple[Path, str]:
        """The Maildir of a recipient, and the address that its messages show."""
        name = _folder_name(recipient)
        if name is not None:
            return self._path / name, f"{name}@localhost"
        address = address_of(recipient)
        return self._path / files.folder_name(address), address


def _folder_name(recipient: str) -> str | None:
    if recipient[: len(_SCHEME)].lower() != _SCHEME:
        return None
    name = recipient[len(_SCHEME) :].lower()
    if not _NAME.fullmatch(name):
        raise UsageError("after maildir: comes a folder's name of at most 100 letters, digits, single dots and _ + -")
    return name
