"""Mail through a real server: SMTP in, IMAP out."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from uuid import uuid4

import pytest

from reprieve.adapters.smtp import SMTP
from reprieve.core.addresses import one_line
from reprieve.core.delivery import Found, Phase
from reprieve.ports.sending import Message, Outgoing, Question
from reprieve.testing import trusting_context

ADA = "mailto:ada@example.org"


@pytest.fixture
def smtp(mail_server):
    """Makes senders to the real server."""

    def make(**settings):
        settings = {
            "sender": "Reviews <reviews@example.org>",
            "tls": "none",
            "journal": mail_server.journal(),
        } | settings
        port = mail_server.smtps_port if settings["tls"] == "implicit" else mail_server.smtp_port
        return SMTP(mail_server.host, port, **settings)

    return make


def outgoing(token=None, phases=None, **content):
    message = Message(**({"recipient": ADA, "subject": "A review", "text": "All is well."} | content))
    reached = (lambda _: None) if phases is None else phases.append
    return Outgoing(
        message=message, token=token or uuid4().hex, timeout=20.0, prepared_at=1_700_000_000.0, reached=reached
    )


def asked(token):
    return Question(recipient=ADA, token=token, notification_id=None, since=0.0, timeout=20.0)


def closing(sender, work):
    """Do it, and let go of the connections."""

    async def run():
        try:
            return await work
        finally:
            await sender.close()

    return asyncio.run(run())


def arrived(mail_server, token):
    return mail_server.messages(token)


@pytest.mark.parametrize("tls", ["none", "starttls", "implicit"])
@pytest.mark.parametrize("login", [False, True])
def test_a_message_arrives_and_its_id_is_the_one_it_has_there(mail_server, smtp, tls, login):
    credentials = {"username": mail_server.username, "password": mail_server.password} if login else {}
    sender = smtp(tls=tls, ssl_context=trusting_context(), **credentials)
    token, phases = uuid4().hex, []
    notification_id = closing(sender, sender.send(outgoing(token, phases, html="<p>All is <b>well</b>.</p>")))
    (message,) = arrived(mail_server, token)
    assert notification_id == message["Message-ID"] == f"<{token}@example.org>"
    assert phases == [Phase.BEFORE, Phase.DURING]
    assert (message["Subject"], message["To"]) == ("A review", "ada@example.org")
    assert message["Date"].datetime.timestamp() == 1_700_000_000
    assert message.get_body(("plain",)).get_content().strip() == "All is well."
    assert message.get_body(("html",)).get_content().strip() == "<p>All is <b>well</b>.</p>"


def test_a_login_that_the_server_does_not_know_is_refused_and_the_password_is_nowhere(mail_server, smtp):
    password = secrets.token_hex(12)
    sender = smtp(username="somebody", password=password)
    token, phases = uuid4().hex, []
    with pytest.raises(Exception, match="535") as refused:
        closing(sender, sender.send(outgoing(token, phases)))
    assert phases[-1] is Phase.REJECTED
    assert password not in repr(refused.value) + str(refused.value) + repr(sender) + repr(vars(refused.value))
    assert sender.secrets == (password, mail_server.password)
    assert arrived(mail_server, token) == []


def test_an_address_beyond_ascii_is_served_where_the_server_takes_it(mail_server, smtp):
    sender, token = smtp(), uuid4().hex
    closing(sender, sender.send(outgoing(token, recipient="mailto:Jörg@exämple.org")))
    (message,) = arrived(mail_server, token)
    assert "jörg@xn--exmple-cua.org" in str(message["To"])


@pytest.mark.parametrize(
    "hostile", ["x\r\nBcc: eve@example.org\r\n\r\nhello", "=?utf-8?q?x=0D=0ABcc:_eve@example.org?=", "x\r\n.\r\nMAIL FROM:<e@x>"]
)  # fmt: skip
def test_what_comes_from_outside_stays_in_its_place(mail_server, smtp, hostile):
    sender, token = smtp(), uuid4().hex
    closing(sender, sender.send(outgoing(token, subject=hostile, text=hostile, html=hostile)))
    (message,) = arrived(mail_server, token)
    assert message["Subject"] == one_line(hostile, longest=250)
    assert message["Bcc"] is None
    assert message.get_body(("plain",)).get_content().replace("\r\n", "\n").rstrip("\n") == hostile.replace(
        "\r\n", "\n"
    )


@pytest.mark.spec("REV-4.1")
def test_the_same_token_makes_the_same_message_on_every_try(mail_server, smtp):
    token = uuid4().hex
    for _ in range(2):
        sender = smtp()
        closing(sender, sender.send(outgoing(token, subject="Grüße", html="<p>")))
    first, second = arrived(mail_server, token)
    del first["X-Peer"], second["X-Peer"]  # the server's own note
    assert first.as_bytes() == second.as_bytes()


def test_a_look_up_finds_what_was_sent_and_denies_what_was_not(smtp):
    sender, token = smtp(), uuid4().hex

    async def work():
        before = await sender.look_up(asked(token))
        await sender.send(outgoing(token))
        once = await sender.look_up(asked(token))
        await sender.send(outgoing(token))
        return before, once, await sender.look_up(asked(token))

    before, once, twice = closing(sender, work())
    assert (before.found, before.notification_id) == (Found.ABSENT, None)
    assert (once.found, once.notification_id) == (Found.FOUND, f"<{token}@example.org>")
    assert once.sent_at == pytest.approx(time.time(), abs=86400)
    assert "INBOX" in once.evidence
    assert twice.found is Found.DUPLICATE


def test_a_token_that_begins_like_another_is_not_taken_for_it(smtp):
    sender, token = smtp(), uuid4().hex
    closing(sender, sender.send(outgoing(f"{token}0")))
    assert asyncio.run(sender.look_up(asked(token))).found is Found.ABSENT


def test_what_was_sent_under_another_address_is_found_all_the_same(smtp):
    token = uuid4().hex
    former, present = smtp(sender="old@former.example"), smtp(sender="new@present.example")
    closing(former, former.send(outgoing(token)))
    answer = asyncio.run(present.look_up(asked(token)))
    assert (answer.found, answer.notification_id) == (Found.FOUND, f"<{token}@former.example>")


def test_a_journal_is_what_makes_it_look_up(mail_server, smtp):
    without = smtp(journal=None, timeout=12.0)
    assert not without.capability.looks_up
    assert without.capability.key_window is None
    assert without.capability.send_timeout == 12.0
    assert asyncio.run(without.look_up(asked("x"))).found is Found.UNKNOWN
    having = smtp(journal=mail_server.journal(lag=7.0, retention=3600.0))
    assert having.capability.looks_up
    assert (having.capability.lag, having.capability.retention) == (7.0, 3600.0)


def test_a_thousand_random_subjects_arrive_as_they_were(mail_server, smtp):
    draw = random.Random(7)
    blocks = [(32, 126), (0xA1, 0x24F), (0x300, 0x36F), (0x400, 0x4FF), (0x4E00, 0x9FFF), (0x1F300, 0x1F9FF)]
    run = uuid4().hex
    subjects = {
        f"{run}-{number}-": "".join(chr(draw.randint(*draw.choice(blocks))) for _ in range(draw.randrange(1, 120)))
        for number in range(1000)
    }
    sender = smtp(connections=2)

    async def send_all():
        await asyncio.gather(*(sender.send(outgoing(token, subject=text)) for token, text in subjects.items()))

    closing(sender, send_all())
    seen = {message["Message-ID"]: message["Subject"] for message in arrived(mail_server, run)}
    assert seen == {f"<{token}@example.org>": one_line(text, longest=250) for token, text in subjects.items()}
