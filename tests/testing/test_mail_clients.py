"""smtplib and aiosmtplib against a mail server that fails at each phase."""

from __future__ import annotations

import asyncio
import smtplib
import ssl

import pytest

from reprieve.testing import Answer, Phase
from reprieve.testing.provoke.mail import SITUATIONS

REFUSALS = {
    "connect": ("SMTPConnectError", "SMTPConnectResponseError"),
    "EHLO": ("SMTPHeloError", "SMTPHeloError"),
    "AUTH": ("SMTPAuthenticationError", "SMTPAuthenticationError"),
    "MAIL": ("SMTPSenderRefused", "SMTPSenderRefused"),
    "RCPT": ("SMTPRecipientsRefused", "SMTPRecipientsRefused"),
    "DATA": ("SMTPDataError", "SMTPDataError"),
    "the message": ("SMTPDataError", "SMTPDataError"),
    "STARTTLS": ("SMTPResponseException", "SMTPResponseException"),
}
CERTIFICATES = {"self-signed certificate": {18}, "expired certificate": {10}, "wrong host name": {62, 64}}
OTHERS = {
    "connection refused": ("ConnectionRefusedError", "aiosmtplib.SMTPConnectError"),
    "connect timeout": ("TimeoutError", "aiosmtplib.SMTPConnectTimeoutError"),
    "STARTTLS not offered": ("smtplib.SMTPNotSupportedError", "aiosmtplib.SMTPException"),
}
LIBRARIES = ("smtplib", "aiosmtplib")


def expected_kind(library, situation):
    column = LIBRARIES.index(library)
    if situation in OTHERS:
        return OTHERS[situation][column]
    if situation in CERTIFICATES:
        return "ssl.SSLCertVerificationError"
    what, _, phase = situation.partition(" at ")
    if what.isdigit():
        return f"{library}.{REFUSALS[phase][column]}"
    if library == "smtplib":
        return "smtplib.SMTPServerDisconnected"  # for silence too: it does not tell the two apart
    if what == "silence":
        return "aiosmtplib.SMTPConnectTimeoutError" if phase == "connect" else "aiosmtplib.SMTPReadTimeoutError"
    return "aiosmtplib.SMTPConnectError" if phase == "connect" else "aiosmtplib.SMTPServerDisconnected"


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_each_library_raises_its_own_error_at_each_phase(fail, kind_of, library, situation):
    kinds = {expected_kind(library, situation)}
    if (library, situation) == ("smtplib", "reset at connect"):
        kinds.add("ConnectionResetError")  # where the reset comes before connect() has returned
    assert kind_of(fail(f"{library}: {situation}")) in kinds


@pytest.mark.parametrize(
    ("situation", "code"),
    [
        ("451 at connect", 451),
        ("554 at EHLO", 554),
        ("535 at AUTH", 535),
        ("454 at AUTH", 454),
        ("421 at MAIL", 421),
        ("451 at DATA", 451),
        ("552 at the message", 552),
    ],
)
def test_both_libraries_keep_the_code(fail, situation, code):
    assert fail(f"smtplib: {situation}").smtp_code == code
    assert fail(f"aiosmtplib: {situation}").code == code


def test_refused_recipients_keep_a_code_each(fail):
    plain, asynchronous = fail("smtplib: 550 at RCPT"), fail("aiosmtplib: 550 at RCPT")
    assert {address: code for address, (code, _) in plain.recipients.items()} == {
        "first@example.org": 550,
        "second@example.org": 550,
    }
    assert [(refusal.recipient, refusal.code) for refusal in asynchronous.recipients] == [
        ("first@example.org", 550),
        ("second@example.org", 550),
    ]


@pytest.mark.parametrize("situation", CERTIFICATES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_bad_certificate_keeps_its_verify_code(fail, library, situation):
    error = fail(f"{library}: {situation}")
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert error.verify_code in CERTIFICATES[situation]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("what", ["hung up", "reset", "silence"])
def test_a_message_without_an_answer_had_arrived_whole(stage, fail, library, what):
    fail(f"{library}: {what} at the message")
    (message,) = stage.mail().messages
    assert message.content.startswith(b"Subject: hello")


def test_one_refused_recipient_of_two_is_a_partial_result(stage):
    server = stage.mail()
    server.forget()
    server.always(Phase.RCPT, Answer(550, "5.1.1 no such user"), recipient="gone@example.org")
    everyone = ["gone@example.org", "here@example.org"]
    with smtplib.SMTP(server.host, server.port, timeout=10) as client:
        refused = client.sendmail("us@example.org", everyone, b"Subject: x\r\n\r\nx")
    assert {address: code for address, (code, _) in refused.items()} == {"gone@example.org": 550}
    (message,) = server.messages
    assert message.recipients == ("here@example.org",)


def test_recipients_refused_for_different_reasons_keep_both(stage):
    aiosmtplib = pytest.importorskip("aiosmtplib")
    server = stage.mail()
    server.forget()
    server.always(Phase.RCPT, Answer(550, "5.1.1 no such user"), recipient="gone@example.org")
    server.always(Phase.RCPT, Answer(450, "4.2.1 busy"), recipient="busy@example.org")

    async def send():
        async with aiosmtplib.SMTP(hostname=server.host, port=server.port, start_tls=False) as client:
            await client.sendmail("us@example.org", ["gone@example.org", "busy@example.org"], b"x")

    with pytest.raises(aiosmtplib.SMTPRecipientsRefused) as caught:
        asyncio.run(send())
    assert [refusal.code for refusal in caught.value.recipients] == [550, 450]
    assert server.messages == ()
