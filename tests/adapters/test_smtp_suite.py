"""The suite for senders, on mail: against a server that fails on purpose, and a real one behind a line that does."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from reprieve.senders import SMTP, Found, Maildir, Message, Outgoing, Question
from reprieve.senders import Phase as Delivery
from reprieve.testing import Answer, FlakySMTP, HangUp, Phase, Rig, SenderSuite, Stall, Trouble


class TestWithoutAJournal(SenderSuite):
    @contextmanager
    def provider(self, trouble):
        password = secrets.token_hex(8)
        with FlakySMTP() as mail:
            act = {Trouble.REFUSES: Answer(554), Trouble.DROPS: HangUp(), Trouble.SILENT: Stall()}.get(trouble)
            if act is not None:
                mail.always(Phase.MESSAGE, act)
            host, port = mail.host, mail.port
            if trouble is Trouble.UNREACHABLE:
                mail.stop()
            yield Rig(
                sender=lambda: SMTP(
                    host, port, sender="Reviews <reviews@example.org>", tls="none", username="reviews", password=password
                ),
                recipient="mailto:Ada@Example.org",
                arrived=lambda token: [each.content for each in mail.messages if token.encode() in each.content],
                secrets=(password,),
            )  # fmt: skip


class Line:
    """A line to a server that breaks, or falls silent, after the server has taken a message and before its answer is through."""

    def __init__(self, host, port, *, then):
        self.target, self.then = (host, port), then
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.closed = threading.Event()
        self.sockets = [self.listener]
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target, timeout=20)
                self.sockets += [client, server]
                sent = threading.Event()
                for one, other, act in ((client, server, self.watch), (server, client, self.withhold)):
                    self.threads.append(threading.Thread(target=self.pump, args=(one, other, act, sent)))
                    self.threads[-1].start()

    def pump(self, one, other, act, sent):
        with suppress(OSError):
            while data := one.recv(65_536):
                act(data, sent)
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def watch(self, data, sent):
        if data.endswith(b"\r\n.\r\n"):
            sent.set()

    def withhold(self, data, sent):
        if sent.is_set() and self.then is Trouble.SILENT:
            self.closed.wait(30)
        if sent.is_set() and self.then in {Trouble.DROPS, Trouble.SILENT}:
            raise OSError("the line is down")

    def close(self):
        self.closed.set()
        for each in self.sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for each in self.threads:
            each.join(20)
        for each in self.sockets:
            each.close()


class TestWithAJournal(SenderSuite):
    @pytest.fixture(autouse=True)
    def _server(self, mail_server):
        self.server = mail_server

    @contextmanager
    def provider(self, trouble):
        if trouble is Trouble.REFUSES:
            raise NotImplementedError
        server = self.server
        server.empty()
        line = Line(server.host, server.smtp_port, then=trouble)
        search = Line(server.host, server.imap_port, then=trouble)
        if trouble is Trouble.UNREACHABLE:
            line.close()
        if trouble in {Trouble.UNREACHABLE, Trouble.HIDES}:
            search.close()
        journal = server.journal(port=search.port)
        try:
            yield Rig(
                sender=lambda: SMTP(
                    server.host, line.port, sender="reviews@example.org", tls="none", journal=journal,
                    username=server.username, password=server.password,
                ),
                recipient="mailto:Ada@Example.org",
                arrived=lambda token: [_without_notes(each) for each in server.messages(token)],
                secrets=(server.password,),
            )  # fmt: skip
        finally:
            line.close()
            search.close()


@pytest.mark.parametrize("trouble", [Trouble.DROPS, Trouble.SILENT])
def test_what_the_server_took_unsaid_is_found_in_its_journal(mail_server, trouble):
    token, phases = secrets.token_hex(20), []
    message = Message(recipient="mailto:ada@example.org", subject="A review", text="All is well.")
    outgoing = Outgoing(message=message, token=token, timeout=1.0, prepared_at=1.7e9, reached=phases.append)
    question = Question(recipient=message.recipient, token=token, notification_id=None, since=0.0, timeout=20.0)
    line = Line(mail_server.host, mail_server.smtp_port, then=trouble)
    sender = SMTP(mail_server.host, line.port, sender="reviews@example.org", tls="none", journal=mail_server.journal())

    async def run():
        with pytest.raises(OSError):  # noqa: PT011 - a timeout, or a connection that broke
            await sender.send(outgoing)
        return await sender.look_up(question)

    try:
        answer = asyncio.run(run())
    finally:
        line.close()
    assert phases[-1] is Delivery.DURING
    assert (answer.found, answer.notification_id) == (Found.FOUND, f"<{token}@example.org>")
    assert len(mail_server.messages(token)) == 1


class TestMaildir(SenderSuite):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path_factory):
        self.folders = tmp_path_factory

    @contextmanager
    def provider(self, trouble):
        path = self.folders.mktemp("mail")
        match trouble:
            case Trouble.UNREACHABLE | Trouble.REFUSES:
                path /= "a file"
                path.touch()
            case Trouble.DROPS | Trouble.SILENT | Trouble.HIDES:
                raise NotImplementedError
        yield Rig(
            sender=lambda: Maildir(path),
            recipient="mailto:Ada@Example.org",
            arrived=lambda token: [each.read_bytes() for each in path.rglob(f"new/*{token}*")],
        )


def _without_notes(message):
    del message["X-Peer"]  # the server's own, with the port of this connection
    return message.as_bytes()
