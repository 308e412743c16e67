"""A second draw, written after the first was judged: the standard library's corners, mail, web sockets, people's services."""

from __future__ import annotations

import argparse
import asyncio
import binascii
import concurrent.futures
import email.errors
import getopt
import graphlib
import http.client
import locale
import multiprocessing
import shutil
import smtplib
import socket
import ssl
import subprocess
import tokenize
from typing import TYPE_CHECKING, Any, Final

import aiosmtplib
import httpx
import jsonschema
import jwt
import pydantic
import slack_sdk.errors
import stripe
import tenacity
import websockets.exceptions
import yaml
from instructor.v2.core.errors import IncompleteOutputException

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    POLICY,
    RATE_LIMIT,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)
from audited.services import mail, pay, post, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


EITHER: Final = CONFIGURATION | VALIDATION
LATER: Final = AWAY | RATE_LIMIT


def _full() -> object:
    line: asyncio.Queue[int] = asyncio.Queue(1)
    line.put_nowait(1)
    return line.put_nowait(2)


def _empty() -> object:
    return asyncio.Queue().get_nowait()


def _shut() -> object:
    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.shutdown()
    return pool.submit(print)


def _invalid() -> Exception:
    try:
        pydantic.TypeAdapter(int).validate_python("x")
    except pydantic.ValidationError as exc:
        return exc
    raise AssertionError("it was valid")


ROWS: Final[tuple[tuple[str, str, Callable[[], object], bool, Any, bool], ...]] = (
    ("stdlib", "http.client.ResponseNotReady", lambda: http.client.ResponseNotReady("Idle"), False, CONFIGURATION, False),
    ("stdlib", "http.client.LineTooLong", lambda: http.client.LineTooLong("status line"), True, AWAY | VALIDATION, True),
    ("stdlib", "socket.herror", lambda: socket.herror(1, "Unknown host"), True, NETWORK | CONFIGURATION, True),
    ("stdlib", "a host name that is too long", lambda: socket.getaddrinfo("a" * 70 + ".example", 80), False, EITHER, False),
    ("ssl", "SSLWantReadError", lambda: ssl.SSLWantReadError(2, "The operation did not complete (read)"), True, NETWORK, True),
    ("ssl", "CertificateError", lambda: ssl.CertificateError(1, "hostname mismatch"), False, CONFIGURATION, False),
    ("ssl", "SSLSyscallError", lambda: ssl.SSLSyscallError(5, "Some I/O error occurred"), True, NETWORK, False),
    ("asyncio", "asyncio.QueueFull", _full, True, AWAY | UNKNOWN, True),
    ("asyncio", "asyncio.QueueEmpty", _empty, True, AWAY | UNKNOWN, True),
    ("concurrent.futures", "a pool that was shut down", _shut, True, UNKNOWN, False),
    ("multiprocessing", "multiprocessing.AuthenticationError", lambda: multiprocessing.AuthenticationError("digest"), False, AUTH, False),
    ("multiprocessing", "multiprocessing.BufferTooShort", lambda: multiprocessing.BufferTooShort(b"x"), False, EITHER | UNKNOWN, True),
    ("stdlib", "shutil.SameFileError", lambda: shutil.SameFileError("a and a are the same file"), False, EITHER | UNKNOWN | CONFLICT, True),
    ("stdlib", "shutil.ReadError", lambda: shutil.unpack_archive("x.zip", ".", "nonsense"), False, EITHER, False),
    ("stdlib", "argparse.ArgumentError", lambda: argparse.ArgumentError(None, "bad"), False, EITHER | UNKNOWN, True),
    ("stdlib", "getopt.GetoptError", lambda: getopt.getopt(["-x"], ""), False, EITHER | UNKNOWN, True),
    ("stdlib", "locale.Error", lambda: locale.Error("unsupported locale setting"), False, EITHER | UNKNOWN, True),
    ("stdlib", "email MessageParseError", lambda: email.errors.HeaderParseError("bad header"), False, EITHER | UNKNOWN, True),
    ("stdlib", "binascii.Error", lambda: binascii.a2b_base64("a", strict_mode=True), False, EITHER, False),
    ("stdlib", "graphlib.CycleError", lambda: list(graphlib.TopologicalSorter({1: {2}, 2: {1}}).static_order()), False, EITHER, False),
    ("stdlib", "tokenize.TokenError", lambda: tokenize.TokenError("EOF in multi-line statement"), False, EITHER | UNKNOWN, True),
    ("stdlib", "IsADirectoryError without errno", lambda: IsADirectoryError("a folder"), False, EITHER | NOT_FOUND, False),
    ("stdlib", "FileNotFoundError without errno", lambda: FileNotFoundError("no such change"), False, NOT_FOUND | CONFIGURATION, False),
    ("stdlib", "BrokenPipeError without errno", lambda: BrokenPipeError("gone"), True, NETWORK, False),
    ("stdlib", "ConnectionAbortedError without errno", lambda: ConnectionAbortedError("gone"), True, NETWORK, False),
    ("stdlib", "ProcessLookupError", lambda: ProcessLookupError(3, "No such process"), False, NOT_FOUND | CONFIGURATION, True),
    ("stdlib", "ChildProcessError", lambda: ChildProcessError(10, "No child processes"), False, CONFIGURATION | UNKNOWN, True),
    ("stdlib", "InterruptedError", lambda: InterruptedError(4, "Interrupted"), True, AWAY | UNKNOWN, True),
    ("subprocess", "git cannot resolve its host", lambda: subprocess.CalledProcessError(128, ["git", "fetch"], stderr="fatal: unable to access: Could not resolve host: git.example"), True, NETWORK | UNKNOWN | UPSTREAM, True),
    ("smtplib", "SMTPConnectError 421", lambda: smtplib.SMTPConnectError(421, b"4.3.2 too busy"), True, LATER, False),
    ("smtplib", "SMTPConnectError 554", lambda: smtplib.SMTPConnectError(554, b"5.7.1 your address is blocked"), False, POLICY | AUTH | VALIDATION, False),
    ("smtplib", "SMTPServerDisconnected", lambda: smtplib.SMTPServerDisconnected("Connection unexpectedly closed"), True, NETWORK | UPSTREAM, False),
    ("smtplib", "SMTPResponseException 503", lambda: smtplib.SMTPResponseException(503, b"5.5.1 bad sequence of commands"), False, EITHER | POLICY, False),
    ("smtplib", "SMTPResponseException 455", lambda: smtplib.SMTPResponseException(455, b"4.5.0 unable to accommodate"), True, LATER, False),
    ("smtplib", "SMTPAuthenticationError 534", lambda: smtplib.SMTPAuthenticationError(534, b"5.7.9 a stronger mechanism is required"), False, AUTH, False),
    ("smtplib", "everybody refused for now", lambda: smtplib.SMTPRecipientsRefused({"a@x": (450, b"4.2.0 later"), "b@x": (452, b"4.2.2 full")}), True, LATER, False),
    ("smtplib", "everybody refused for good", lambda: smtplib.SMTPRecipientsRefused({"a@x": (550, b"5.1.1 nobody"), "b@x": (553, b"5.1.3 nobody")}), False, NOT_FOUND | VALIDATION, False),
    ("aiosmtplib", "aiosmtplib SMTPReadTimeoutError", lambda: aiosmtplib.SMTPReadTimeoutError("Timed out waiting for server response"), True, NETWORK, False),
    ("aiosmtplib", "aiosmtplib SMTPServerDisconnected", lambda: aiosmtplib.SMTPServerDisconnected("Connection lost"), True, NETWORK | UPSTREAM, False),
    ("aiosmtplib", "aiosmtplib SMTPHeloError 550", lambda: aiosmtplib.SMTPHeloError(550, "5.7.1 go away"), False, POLICY | AUTH | VALIDATION | NOT_FOUND, False),
    ("aiosmtplib", "aiosmtplib SMTPNotSupported", lambda: aiosmtplib.SMTPNotSupported("no SMTPUTF8"), False, CONFIGURATION | VALIDATION, False),
    ("httpx", "httpx WriteTimeout", lambda: httpx.WriteTimeout("slow"), True, NETWORK, False),
    ("httpx", "httpx WriteError", lambda: httpx.WriteError("broken pipe"), True, NETWORK, False),
    ("httpx", "httpx ProxyError", lambda: httpx.ProxyError("502 Bad Gateway"), True, AWAY, True),
    ("httpx", "httpx CookieConflict", lambda: httpx.CookieConflict("Multiple cookies exist"), False, EITHER, False),
    ("websockets", "websockets PayloadTooBig", lambda: websockets.exceptions.PayloadTooBig(2, 1), False, VALIDATION, False),
    ("websockets", "websockets ProtocolError", lambda: websockets.exceptions.ProtocolError("bad frame"), True, AWAY | VALIDATION, True),
    ("websockets", "websockets InvalidHandshake", lambda: websockets.exceptions.InvalidHandshake("no upgrade"), True, AWAY | VALIDATION | CONFIGURATION, True),
    ("yaml", "yaml ReaderError", lambda: yaml.safe_load("a\x00b"), False, VALIDATION, False),
    ("jwt", "jwt ImmatureSignatureError", lambda: jwt.ImmatureSignatureError("not yet valid"), False, AUTH | VALIDATION, False),
    ("jwt", "jwt PyJWKClientError", lambda: jwt.PyJWKClientError("Unable to find a signing key that matches"), False, AUTH | CONFIGURATION | NOT_FOUND, True),
    ("jsonschema", "jsonschema FormatError", lambda: jsonschema.FormatChecker().check("x", "ipv4"), False, VALIDATION, False),
    ("pydantic", "pydantic in a group", lambda: ExceptionGroup("g", [_invalid(), TimeoutError()]), False, VALIDATION, False),
    ("instructor", "instructor IncompleteOutputException", lambda: IncompleteOutputException(last_completion=None), False, VALIDATION, False),
    ("tenacity", "tenacity TryAgain", tenacity.TryAgain, True, UNKNOWN | UPSTREAM, False),
    ("slack_sdk", "slack SlackRequestError", lambda: slack_sdk.errors.SlackRequestError("invalid base_url"), False, EITHER, False),
    ("slack_sdk", "slack SlackObjectFormationError", lambda: slack_sdk.errors.SlackObjectFormationError("text is too long"), False, EITHER, False),
    ("stripe", "stripe APIConnectionError without a cause", lambda: stripe.APIConnectionError("Network error: timeout"), True, NETWORK, False),
)  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for library, label, call, retryable, categories, arguable in ROWS:
        make = retry if retryable else stop
        yield make(library, label, lambda _, call=call: call(), categories, "second draw", arguable=arguable)
    yield from _services()


def _services() -> Iterator[Case]:
    refused: tuple[tuple[str, bool, Any, bool], ...] = (
        ("invalid_channel", False, NOT_FOUND | VALIDATION, True),
        ("team_access_not_granted", False, AUTH, False),
        ("ekm_access_denied", False, AUTH, True),
        ("too_many_attachments", False, VALIDATION, False),
        ("method_deprecated", False, EITHER, True),
        ("cannot_dm_bot", False, NOT_FOUND | VALIDATION | POLICY, True),
    )
    for word, retryable, categories, arguable in refused:
        make = retry if retryable else stop
        yield make(
            "slack_sdk", f"slack {word}, second draw", lambda lab, word=word: post(lab, 200, {"ok": False, "error": word}), categories,
            "ok:false at 200", arguable=arguable,
        )  # fmt: skip
    yield stop(
        "slack_sdk",
        "slack 404 that is a page",
        lambda lab: post(lab, 404, b"<html>no</html>"),
        NOT_FOUND | CONFIGURATION,
        "as the status",
    )
    yield stop(
        "slack_sdk", "slack 403 that is a page", lambda lab: post(lab, 403, b"<html>no</html>"), AUTH, "as the status"
    )
    expired = {"type": "card_error", "code": "expired_card", "message": "Your card has expired."}
    yield stop(
        "stripe",
        "stripe 402 expired_card",
        lambda lab: pay(lab, 402, expired),
        EITHER | POLICY | AUTH | RATE_LIMIT,
        "CRIT-1.8",
    )
    wrong: dict[str, object] = {
        "type": "invalid_request_error",
        "code": "url_invalid",
        "message": "timeout is not a valid URL",
    }
    yield stop("stripe", "stripe 400 that quotes a timeout", lambda lab: pay(lab, 400, wrong), VALIDATION, "decision 1")
    yield retry("stripe", "stripe 502", lambda lab: pay(lab, 502, {}), AWAY, "CRIT-1.1")
    yield retry(
        "twilio",
        "twilio 502 that is a page",
        lambda lab: text(lab.http.url(502, {}, b"<html>bad gateway</html>")),
        AWAY | UNKNOWN,
        "CRIT-1.1",
    )
    unknown = {"code": 21408, "message": "Permission to send an SMS has not been enabled", "status": 400}
    yield stop(
        "twilio",
        "twilio 400 21408",
        lambda lab: text(lab.http.url(400, {}, unknown)),
        AUTH | VALIDATION | POLICY,
        "no permission",
    )
    yield stop("sendgrid", "sendgrid 405", lambda lab: mail(lab.http.url(405)), EITHER, "a wrong call")
    yield stop("sendgrid", "sendgrid 415", lambda lab: mail(lab.http.url(415)), EITHER, "a wrong call")
    yield retry("sendgrid", "sendgrid 504", lambda lab: mail(lab.http.url(504)), AWAY, "CRIT-1.1")
