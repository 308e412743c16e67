"""A message as it travels: the same bytes on every try, with nothing in its head that was not put there on purpose."""

from __future__ import annotations

from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from reprieve.core.addresses import one_line

if TYPE_CHECKING:
    from reprieve.core.addresses import Mailbox

_LONGEST_SUBJECT: Final = 250
_LINE: Final = 76
_POLICY: Final = SMTP.clone(cte_type="7bit")
_LONGEST_BOUNDARY: Final = 60


def id_prefix(token: str) -> str:
    """How the Message-ID of a delivery begins, whoever sends it: what it is looked for by."""
    return f"<{quote(token, safe='')}@"


def message_id(token: str, sender: Mailbox) -> str:
    """The Message-ID of a delivery: `<token@domain>`."""
    return f"{id_prefix(token)}{sender.domain}>"


def compose(
    *, sender: Mailbox, recipient: str, subject: str, text: str, html: str | None, token: str, prepared_at: float
) -> bytes:
    """The message in RFC 5322 form, with CRLF line ends; `recipient` is an address in its normal form.

    ASCII throughout, unless one of the addresses is not.
    """
    head = {
        "From": _from(sender),
        "To": f"<{recipient}>",
        "Subject": _encoded("Subject", one_line(subject, longest=_LONGEST_SUBJECT)),
        "Date": formatdate(prepared_at),
        "Message-ID": message_id(token, sender),
        "Auto-Submitted": "auto-generated",  # so that nobody's holiday notice answers it
    }
    # Written here and not by the package: it reads words that look encoded in a text from outside, and writes what they say.
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return lines.encode() + _content(text, html, token).as_bytes()


def _from(sender: Mailbox) -> str:
    if not sender.name:
        return f"<{sender.address}>"
    return f"{_encoded('From', sender.name)}\r\n <{sender.address}>"


def _encoded(header: str, value: str) -> str:
    """One line of a text as a header's value: words of RFC 2047 unless it is plain and short."""
    plain = value.isascii() and len(header) + 2 + len(value) <= _LINE and "=?" not in value
    if plain and header == "Subject":
        return value
    if plain:
        escaped = value.replace("\\", r"\\").replace('"', r"\"")
        return f'"{escaped}"'
    return Header(value, "utf-8", maxlinelen=_LINE, header_name=header).encode(linesep="\r\n")


def _content(text: str, html: str | None, token: str) -> EmailMessage:
    message = EmailMessage(policy=_POLICY)
    text, html = _whole(text), None if html is None else _whole(html)
    message.set_content(text, cte=_encoding(text))
    if html is not None:
        message.add_alternative(html, subtype="html", cte=_encoding(html))
        # `=_` can stand in neither of the two encodings: no text can end its own part.
        message.set_boundary(f"=_{quote(token, safe='')[:_LONGEST_BOUNDARY]}")
    return message


def _whole(text: str) -> str:
    """Without halves of characters, which no encoding takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _encoding(text: str) -> str:
    """Always one of the two that keep lines short and hold no bare line break, NUL or dot of their own."""
    foreign = len(text.encode()) - len(text)
    return "base64" if foreign > len(text) // 4 else "quoted-printable"
