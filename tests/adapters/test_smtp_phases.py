"""How far a send had got when it failed: over real sockets, at every step of the dialogue."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from contextlib import closing as closed

import aiosmtplib
import pytest

from reprieve import classify
from reprieve.adapters.smtp import SMTP
from reprieve.adapters.smtp import connections as dialogue
from reprieve.core.delivery import Phase
from reprieve.errors import Permanent, UsageError
from reprieve.ports.sending import Message, Outgoing
from reprieve.testing import Answer, Certificate, FlakySMTP, HangUp, Reset, Stall, trusting_context
from reprieve.testing import Phase as Step

BEFORE_THE_MESSAGE = [Step.CONNECT, Step.EHLO, Step.AUTH, Step.MAIL, Step.RCPT, Step.DATA]
BREAKS = [HangUp(), Reset(), Stall()]
SILENT = 0.4


@pytest.fixture
def mail():
    with FlakySMTP() as mail:
        yield mail


def smtp(mail, **settings):
    return SMTP(mail.host, mail.port, **({"sender": "Reviews <reviews@example.org>", "tls": "none"} | settings))


def with_login(mail, **settings):
    return smtp(mail, username="reviews", password=secrets.token_hex(8), **settings)


def outgoing(phases, token="token", timeout=20.0, **content):
    message = Message(**({"recipient": "mailto:ada@example.org", "subject": "A review", "text": "Well."} | content))
    return Outgoing(message=message, token=token, timeout=timeout, prepared_at=1_700_000_000.0, reached=phases.append)


def attempt(sender, **settings):
    """One send: how far it got, and what it raised."""
    phases = []

    async def run():
        try:
            await sender.send(outgoing(phases, **settings))
        finally:
            await sender.close()

    try:
        asyncio.run(run())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is judged
        return phases[-1], error
    return phases[-1], None


async def until(true):
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for happens in another thread
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("act", BREAKS, ids=lambda act: type(act).__name__)
@pytest.mark.parametrize("step", BEFORE_THE_MESSAGE)
def test_a_break_before_the_message_is_known_to_be_one(mail, step, act):
    mail.always(step, act)
    phase, error = attempt(with_login(mail), timeout=SILENT if isinstance(act, Stall) else 20.0)
    assert phase is Phase.BEFORE
    assert classify(error).retryable
    assert mail.messages == ()


@pytest.mark.parametrize("act", BREAKS, ids=lambda act: type(act).__name__)
def test_a_break_before_the_answer_to_the_message_leaves_it_in_doubt(mail, act):
    mail.always(Step.MESSAGE, act)
    phase, error = attempt(with_login(mail), timeout=SILENT if isinstance(act, Stall) else 20.0)
    assert phase is Phase.DURING
    assert error is not None
    assert len(mail.messages) == 1  # the server has it, and the sender cannot know


@pytest.mark.parametrize(("code", "retryable"), [(421, True), (451, True), (454, True), (550, False), (554, False)])
@pytest.mark.parametrize("step", [*BEFORE_THE_MESSAGE, Step.MESSAGE])
def test_a_refusal_is_one_at_any_step(mail, step, code, retryable):
    mail.always(step, Answer(code))
    phase, error = attempt(with_login(mail))
    assert phase is Phase.REJECTED
    assert classify(error).retryable is retryable


@pytest.mark.parametrize("code", [200, 300, 354])
def test_an_answer_to_the_message_that_means_nothing_does_not_pass_for_a_refusal(mail, code):
    mail.always(Step.MESSAGE, Answer(code))
    phase, error = attempt(smtp(mail))
    assert phase is Phase.DURING
    assert (error is None) is (code == 200)


@pytest.mark.parametrize("code", [250, 300])
def test_an_odd_answer_to_data_sends_no_message(mail, code):
    mail.always(Step.DATA, Answer(code))
    phase, error = attempt(smtp(mail))
    assert phase is Phase.BEFORE
    assert isinstance(error, aiosmtplib.SMTPDataError)
    assert mail.messages == ()


def test_nobody_at_home_is_before():
    with closed(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    phase, error = attempt(SMTP("127.0.0.1", port, sender="r@example.org", tls="none"))
    assert phase is Phase.BEFORE
    assert classify(error).error_class == "CONNECTION_REFUSED"


def test_a_name_that_no_host_has_is_before():
    phase, error = attempt(SMTP("nowhere.invalid", 25, sender="r@example.org", tls="none"))
    assert phase is Phase.BEFORE
    assert classify(error).retryable


class Server:
    """A mail server up to the message; then it does as it is told with the connection."""

    def __init__(self, then):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        self.port = self.listener.getsockname()[1]
        self.then = then
        self.heard = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rb") as lines:
            connection.settimeout(20)
            connection.sendall(b"220 here\r\n")
            for line in lines:
                self.heard.append(line)
                connection.sendall(b"354 go\r\n" if line.startswith(b"DATA") else b"250 ok\r\n")
                if line.startswith(b"DATA"):
                    break
            self.then(connection)

    def close(self):
        self.listener.close()
        self.thread.join(20)


def test_the_server_learns_no_name_of_this_machine():
    with closed(Server(lambda _: None)) as server:
        attempt(SMTP("127.0.0.1", server.port, sender="Reviews <reviews@example.org>", tls="none"))
    assert server.heard == [
        b"EHLO example.org\r\n", b"MAIL FROM:<reviews@example.org>\r\n", b"RCPT TO:<ada@example.org>\r\n", b"DATA\r\n"
    ]  # fmt: skip


def test_a_break_in_the_middle_of_the_message_leaves_it_in_doubt():
    with closed(Server(lambda connection: connection.recv(1000))) as server:
        sender = SMTP("127.0.0.1", server.port, sender="r@example.org", tls="none")
        phase, error = attempt(sender, text="word " * 100_000)
    assert phase is Phase.DURING
    assert isinstance(error, OSError)


@pytest.mark.parametrize("words", [12_000, 2_000_000], ids=["in the system's buffers", "in our own"])
def test_a_message_that_was_given_up_does_not_go_on_arriving(words):
    given_up, received = threading.Event(), []

    def read_late(connection):
        given_up.wait(20)
        try:
            while data := connection.recv(65_536):
                received.append(data)
        except ConnectionResetError:
            received.append(b"reset")

    with closed(Server(read_late)) as server:
        sender = SMTP("127.0.0.1", server.port, sender="r@example.org", tls="none")
        phases = []

        async def run():
            with pytest.raises(TimeoutError):
                await sender.send(outgoing(phases, timeout=0.5, text="word\n" * words))
            await asyncio.sleep(0.05)  # the loop closes the socket on its next turn
            given_up.set()
            await asyncio.to_thread(server.thread.join, 20)

        asyncio.run(run())
    assert phases[-1] is Phase.DURING
    assert received[-1] == b"reset"
    assert b"\r\n.\r\n" not in b"".join(received)


def test_cancelled_in_the_middle_it_is_in_doubt_and_the_connection_is_not_used_again(mail):
    mail.next(Step.MESSAGE, Stall())
    sender, phases = smtp(mail), []

    async def run():
        task = asyncio.create_task(sender.send(outgoing(phases)))
        await until(lambda: Phase.DURING in phases)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sender.send(outgoing([], token="other"))
        await sender.close()

    asyncio.run(run())
    assert phases[-1] is Phase.DURING
    assert mail.connections == 2


def test_a_burst_goes_over_few_connections(mail):
    sender = smtp(mail, connections=3)

    async def run():
        for number in range(10):
            await sender.send(outgoing([], token=f"one-{number}"))
        used = mail.connections
        await asyncio.gather(*(sender.send(outgoing([], token=f"many-{number}")) for number in range(30)))
        await sender.close()
        return used

    assert asyncio.run(run()) == 1
    assert mail.connections <= 3
    assert len(mail.messages) == 40


@pytest.mark.parametrize(
    "act", [HangUp(), Reset(), Answer(421, "4.4.2 idle for too long"), Answer(451, "4.7.0 too many")]
)
def test_a_kept_connection_that_does_no_longer_serve_is_replaced_before_the_message(mail, act):
    sender, phases = smtp(mail), []

    async def run():
        await sender.send(outgoing([], token="first"))
        mail.next(Step.MAIL, act)
        await sender.send(outgoing(phases, token="second"))
        await sender.close()

    asyncio.run(run())
    assert phases == [Phase.BEFORE, Phase.DURING]
    assert mail.connections == 2
    assert len(mail.messages) == 2


def test_a_kept_connection_that_has_fallen_silent_is_replaced_in_time(mail, monkeypatch):
    monkeypatch.setattr(dialogue, "_STALE_SECONDS", 0.2)
    sender, phases = smtp(mail), []

    async def run():
        await sender.send(outgoing([], token="first"))
        mail.next(Step.MAIL, Stall())
        await sender.send(outgoing(phases, token="second"))
        await sender.close()

    asyncio.run(run())
    assert phases == [Phase.BEFORE, Phase.DURING]
    assert len(mail.messages) == 2


def test_a_server_that_went_away_meanwhile_is_noticed_before_the_message():
    sender, phases = None, []

    async def run():
        nonlocal sender
        with FlakySMTP() as mail:
            sender = smtp(mail)
            await sender.send(outgoing([]))
        with pytest.raises(OSError):  # noqa: PT011 - refused, or reset: both are right
            await sender.send(outgoing(phases))
        await sender.close()

    asyncio.run(run())
    assert phases == [Phase.BEFORE]


def test_a_connection_is_let_go_when_nothing_follows(mail, monkeypatch):
    monkeypatch.setattr(dialogue, "_IDLE_SECONDS", 0.05)
    sender = smtp(mail)

    async def run():
        await sender.send(outgoing([], token="first"))
        await until(lambda: not mail._wires)
        await sender.send(outgoing([], token="second"))
        await sender.close()
        await sender.close()

    asyncio.run(run())
    assert mail.connections == 2


def test_one_sender_serves_one_event_loop_after_another(mail):
    sender = smtp(mail)
    for number in range(3):
        assert attempt(sender, token=f"loop-{number}") == (Phase.DURING, None)
    assert len(mail.messages) == 3


@pytest.mark.spec("REV-4.1")
def test_every_try_sends_the_same_bytes(mail):
    mail.next(Step.MESSAGE, Answer(451), HangUp())
    for _ in range(3):
        attempt(smtp(mail), subject="Grüße", html="<p>ü</p>", text="one\n.\n..two\n")
    assert len(mail.messages) == 3
    assert len({message.content for message in mail.messages}) == 1
    assert b"\r\n.\r\n..two" in mail.messages[0].content


def test_the_journal_gets_a_blind_copy_in_the_same_transaction(mail):
    assert attempt(smtp(mail, bcc_journal="Journal@example.org")) == (Phase.DURING, None)
    (message,) = mail.messages
    assert message.recipients == ("ada@example.org", "journal@example.org")
    assert b"journal" not in message.content


@pytest.mark.parametrize(("code", "kind", "error_class"), [(550, Permanent, "CONFIG_INVALID"), (451, aiosmtplib.SMTPRecipientRefused, "UPSTREAM_ERROR")])  # fmt: skip
def test_without_its_copy_a_message_is_not_sent_and_the_recipient_is_not_blamed(mail, code, kind, error_class):
    mail.always(Step.RCPT, Answer(code), recipient="journal@example.org")
    phase, error = attempt(smtp(mail, bcc_journal="journal@example.org"))
    assert phase is not Phase.DURING
    assert isinstance(error, kind)
    assert classify(error).error_class == error_class
    assert mail.messages == ()


def test_an_address_that_the_server_does_not_take_is_refused_for_good(mail):
    phase, error = attempt(smtp(mail), recipient="mailto:jörg@example.org")
    assert phase is Phase.BEFORE
    assert classify(error).error_class == "RECIPIENT_INVALID"
    assert not classify(error).retryable
    assert mail.messages == ()


@pytest.mark.parametrize("implicit", [False, True])
def test_mail_is_encrypted_as_asked_for(implicit):
    with FlakySMTP(certificate=Certificate.GOOD, implicit=implicit) as mail:
        sender = with_login(mail, tls="implicit" if implicit else "starttls", ssl_context=trusting_context())
        assert attempt(sender) == (Phase.DURING, None)
        assert len(mail.messages) == 1


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("certificate", [each for each in Certificate if each is not Certificate.GOOD])
def test_a_server_that_cannot_prove_who_it_is_gets_nothing(certificate, implicit):
    with FlakySMTP(certificate=certificate, implicit=implicit) as mail:
        sender = with_login(mail, tls="implicit" if implicit else "starttls", ssl_context=trusting_context())
        phase, error = attempt(sender)
        assert phase is Phase.BEFORE
        assert error is not None
        assert mail.messages == ()


def test_no_certificate_is_trusted_unasked():
    with FlakySMTP(certificate=Certificate.GOOD) as mail:
        phase, error = attempt(smtp(mail, tls="starttls"))
        assert phase is Phase.BEFORE
        assert "certificate" in str(error).lower()


def test_what_should_be_encrypted_is_not_sent_where_that_is_not_offered(mail):
    phase, error = attempt(with_login(mail, tls="starttls"))
    assert phase is Phase.BEFORE
    assert not classify(error).retryable
    assert mail.messages == ()


@pytest.mark.parametrize("step", [Step.STARTTLS])
@pytest.mark.parametrize("act", [*BREAKS, Answer(454)], ids=lambda act: type(act).__name__)
def test_a_break_while_encryption_starts_is_before(step, act):
    with FlakySMTP(certificate=Certificate.GOOD) as mail:
        mail.always(step, act)
        sender = smtp(mail, tls="starttls", ssl_context=trusting_context())
        phase, error = attempt(sender, timeout=SILENT if isinstance(act, Stall) else 20.0)
        assert phase is (Phase.REJECTED if isinstance(act, Answer) else Phase.BEFORE)
        assert error is not None
        assert mail.messages == ()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": ""}, "host="),
        ({"host": "mail\r\nexample"}, "host="),
        ({"port": 0}, "port="),
        ({"tls": "ssl"}, "tls="),
        ({"sender": "nobody"}, "name@domain"),
        ({"bcc_journal": "nobody"}, "name@domain"),
        ({"username": "x"}, "go together"),
        ({"username": "x", "password": "a\r\nb"}, "control character"),
        ({"username": "x", "password": "abcdefgh", "tls": "none"}, "in the clear"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_passwords_are_not_repeated(settings, says):
    wanted = {"host": "mail.example.org", "port": 587, "sender": "r@example.org"} | settings
    with pytest.raises(UsageError, match=says) as refused:
        SMTP(wanted.pop("host"), wanted.pop("port"), **wanted)
    assert "abcdefgh" not in str(refused.value)
