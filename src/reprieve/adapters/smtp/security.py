"""How a connection is protected, and what is refused because it would not be."""

from __future__ import annotations

import ipaddress
import ssl
from enum import StrEnum
from typing import Final

from reprieve.errors import UsageError

_LARGEST_PORT: Final = 65535


class Tls(StrEnum):
    """When a connection is encrypted."""

    STARTTLS = "starttls"
    """After the server was asked to: never without."""
    IMPLICIT = "implicit"
    """From the first byte."""
    NONE = "none"


def checked_place(host: str, port: int, tls: str, *, secret: bool) -> Tls:
    """How to reach a server; a password is not sent in the clear except to this machine."""
    if not host or not host.isprintable() or " " in host:
        raise UsageError("host= is the name or address of a server, such as mail.example.org")
    if not 0 < port <= _LARGEST_PORT:
        raise UsageError(f"port= is a number from 1 to {_LARGEST_PORT}, not {port!r}")
    try:
        kind = Tls(tls)
    except ValueError:
        raise UsageError(f"tls= is one of {', '.join(map(repr, map(str, Tls)))}, not {tls!r}") from None
    if kind is Tls.NONE and secret and not _is_this_machine(host):
        raise UsageError("with tls='none' the password would be sent in the clear: take 'starttls' or 'implicit'")
    return kind


def checked_login(username: str | None, password: str | None) -> None:
    """Both or neither, and nothing that could end a command."""
    if (username is None) != (password is None):
        raise UsageError("username= and password= go together")
    if any(ord(sign) < 0x20 or sign == "\x7f" for sign in f"{username}{password}"):  # noqa: PLR2004 - the first printable character
        raise UsageError("username= and password= hold no line break or control character")


def trusting(context: ssl.SSLContext | None) -> ssl.SSLContext:
    """The given context, or one that trusts whom this machine trusts."""
    return ssl.create_default_context() if context is None else context


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
