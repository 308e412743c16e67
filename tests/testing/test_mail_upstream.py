"""The SMTP upstream itself."""

from __future__ import annotations

import smtplib
import socket

import pytest

from reprieve.errors import UsageError
from reprieve.testing import Answer, Certificate, FlakySMTP, HangUp, Moment, Phase, Reset, Stall, trusting_context

FROM, TO = "us@example.org", "them@example.org"


@pytest.fixture
def mail():
    with FlakySMTP() as mail:
        yield mail


def send(mail, content="Subject: x\r\n\r\nhello"):
    with smtplib.SMTP(mail.host, mail.port, timeout=10) as client:
        return client.sendmail(FROM, [TO], content)


def test_it_takes_a_message_when_nothing_is_scripted(mail):
    assert send(mail) == {}
    (message,) = mail.messages
    assert (message.sender, message.recipients) == (FROM, (TO,))
    assert message.content == b"Subject: x\r\n\r\nhello"


def test_lines_that_begin_with_a_dot_arrive_as_they_were(mail):
    send(mail, "Subject: x\r\n\r\n.hidden\r\n..twice")
    assert mail.messages[0].content.endswith(b"\r\n.hidden\r\n..twice")


def test_it_fails_once_then_recovers(mail):
    mail.next(Phase.MESSAGE, Answer(451, "4.3.0 not now"))
    with pytest.raises(smtplib.SMTPDataError):
        send(mail)
    assert send(mail) == {}


def test_what_is_settled_holds_until_it_is_forgotten(mail):
    mail.always(Phase.MAIL, Answer(452))
    for _ in range(2):
        with pytest.raises(smtplib.SMTPSenderRefused):
            send(mail)
    mail.forget()
    assert send(mail) == {}


def test_after_421_the_connection_is_closed(mail):
    mail.next(Phase.EHLO, Answer(421, "4.3.2 going down"))
    with socket.create_connection((mail.host, mail.port), timeout=10) as connection, connection.makefile("rb") as lines:
        assert lines.readline().startswith(b"220 ")
        connection.sendall(b"EHLO me\r\n")
        assert lines.readline() == b"421 4.3.2 going down\r\n"
        assert lines.readline() == b""


@pytest.mark.parametrize("phase", list(Phase))
def test_a_silence_with_an_end_goes_on_as_if_nothing_had_been(phase):
    with FlakySMTP(certificate=Certificate.GOOD) as mail:
        mail.next(phase, Stall(seconds=0.01))
        with smtplib.SMTP(mail.host, mail.port, timeout=10) as client:
            client.starttls(context=trusting_context())
            client.login("someone", "test-key")
            assert client.sendmail(FROM, [TO], "x") == {}
        assert mail.messages[0].recipients == (TO,)


def test_a_refused_starttls_goes_on_in_the_clear():
    with FlakySMTP(certificate=Certificate.GOOD) as mail:
        mail.next(Phase.STARTTLS, Answer(454, "4.7.0 not now"))
        with smtplib.SMTP(mail.host, mail.port, timeout=10) as client:
            with pytest.raises(smtplib.SMTPResponseException):
                client.starttls(context=trusting_context())
            assert client.sendmail(FROM, [TO], "x") == {}


def test_tls_from_the_first_byte():
    with FlakySMTP(certificate=Certificate.GOOD, implicit=True) as mail:
        with smtplib.SMTP_SSL(mail.host, mail.port, timeout=10, context=trusting_context()) as client:
            assert client.sendmail(FROM, [TO], "x") == {}
        assert len(mail.messages) == 1


def test_an_unknown_command_is_refused_and_the_dialogue_goes_on(mail):
    with smtplib.SMTP(mail.host, mail.port, timeout=10) as client:
        assert client.docmd("TURN")[0] == 500
        assert client.noop()[0] == 250


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda mail: mail.next(Phase.MAIL), "at least one act"),
        (lambda mail: mail.next(Phase.MAIL, 451), "Answer, Reset, HangUp or Stall, not 451"),
        (lambda mail: mail.next(Phase.MAIL, Reset(at=Moment.BODY)), "the phase says when"),
        (lambda mail: mail.next(Phase.MAIL, HangUp(), recipient=TO), "goes with Phase.RCPT, not with 'mail'"),
        (lambda _: Answer(99), "from 200 to 599, not 99"),
        (lambda _: Answer("451"), "a number from 200 to 599, not '451'"),
        (lambda _: FlakySMTP(implicit=True), "needs a certificate"),
    ],
)
def test_a_wrong_script_is_refused_with_what_would_be_right(mail, wrong, message):
    with pytest.raises(UsageError, match=message):
        wrong(mail)
