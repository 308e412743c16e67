"""Certificates, good and bad, made on the spot; needs trustme (`pip install reprieve[testing]`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import ssl
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from reprieve.errors import ReprieveError

if TYPE_CHECKING:
    import trustme


class Certificate(StrEnum):
    """What an upstream that speaks TLS shows its clients."""

    GOOD = "good"
    """Signed by `trusting_context`'s authority, for localhost and 127.0.0.1."""
    SELF_SIGNED = "self_signed"
    """Signed by nobody but itself."""
    UNKNOWN_ISSUER = "unknown_issuer"
    """Signed by an authority that nobody trusts."""
    EXPIRED = "expired"
    """Good until yesterday."""
    WRONG_HOST = "wrong_host"
    """Good, for another host."""


@functools.cache
def _authority() -> trustme.CA:
    return _new_authority()


def _new_authority() -> trustme.CA:
    try:
        import trustme  # noqa: PLC0415 - optional, and only upstreams that speak TLS need it
    except ImportError as error:
        raise ReprieveError("an upstream that speaks TLS needs trustme: pip install 'reprieve[testing]'") from error
    return trustme.CA()


def authority_pem() -> bytes:
    """The certificate of the authority that `Certificate.GOOD` comes from, for clients that want a file."""
    return _authority().cert_pem.bytes()


def trusting_context() -> ssl.SSLContext:
    """A client's context that trusts the authority of `Certificate.GOOD` and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _authority().configure_trust(context)
    return context


@functools.cache
def server_context(certificate: Certificate) -> ssl.SSLContext:
    """A server's context that shows such a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    names = ("localhost", "127.0.0.1")
    match certificate:
        case Certificate.GOOD:
            _authority().issue_cert(*names).configure_cert(context)
        case Certificate.SELF_SIGNED:
            _show_itself(_new_authority(), context)
        case Certificate.UNKNOWN_ISSUER:
            _new_authority().issue_cert(*names).configure_cert(context)
        case Certificate.EXPIRED:
            yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
            _authority().issue_cert(*names, not_after=yesterday).configure_cert(context)
        case Certificate.WRONG_HOST:
            _authority().issue_cert("elsewhere.example").configure_cert(context)
        case _:
            assert_never(certificate)
    return context


def _show_itself(authority: trustme.CA, context: ssl.SSLContext) -> None:
    # ssl loads a certificate from a file only.
    descriptor, name = tempfile.mkstemp(suffix=".pem")
    with contextlib.ExitStack() as stack:
        stack.callback(Path(name).unlink)
        with os.fdopen(descriptor, "wb") as file:
            file.write(authority.private_key_pem.bytes() + authority.cert_pem.bytes())
        context.load_cert_chain(name)
