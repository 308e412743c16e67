"""Looking for a message in its journal: three answers, and none that was not given."""

from __future__ import annotations

import asyncio
import base64
import secrets
import socket
import ssl
from contextlib import closing as closed

import pytest

from reprieve.adapters.smtp import Imap
from reprieve.core.delivery import Found
from reprieve.errors import UsageError
from reprieve.testing import Certificate, trusting_context
from reprieve.testing.tls import server_context

TOKEN = "0a1b2c"
GONE, SILENCE = object(), object()
OURS = f"<{TOKEN}@example.org>"
USUAL = {
    b"CAPABILITY": [b"* CAPABILITY IMAP4rev1 AUTH=PLAIN", b"@ OK"],
    b"AUTHENTICATE": [b"@ OK"],
    b"LOGIN": [b"@ OK"],
    b"EXAMINE": [b"* 7 EXISTS", b"@ OK [READ-ONLY]"],
    b"SEARCH": [b"* SEARCH", b"@ OK"],
}


def fetched(*ids, date=b"01-Jan-2026 10:00:00 +0100"):
    """What a server says about messages with these ids."""
    heads = [b"Message-ID: " + each.encode() + b"\r\n\r\n" for each in ids]
    return [
        b'* %d FETCH (UID %d INTERNALDATE "%s" BODY[HEADER.FIELDS (MESSAGE-ID)] {%d}\r\n%s)'
        % (number, number, date, len(head), head)
        for number, head in enumerate(heads, 1)
    ] + [b"@ OK"]


class Scripted:
    """An IMAP server that says what it is told to, and remembers what it heard."""

    def __init__(self, greeting=b"* OK here", *, certificate=None, implicit=False, after_starttls=b"", **answers):
        self.greeting, self.implicit, self.after_starttls = greeting, implicit, after_starttls
        self.answers = USUAL | {name.upper().encode(): lines for name, lines in answers.items()}
        self.context = None if certificate is None else server_context(certificate)
        self.heard = []
        self.port = 0

    def ask(self, token=TOKEN, within=20.0, **settings):
        """Search it as a journal."""
        wanted = {"username": "journal", "password": "a-test-password", "tls": "none"} | settings

        async def run():
            implicit = self.context if self.implicit else None
            server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=implicit)
            async with server:
                self.port = server.sockets[0].getsockname()[1]
                return await Imap("127.0.0.1", self.port, **wanted).find(token, within=within)

        return asyncio.run(run())

    async def serve(self, reader, writer):
        try:
            writer.write(self.greeting + b"\r\n")
            while line := await reader.readline():
                self.heard.append(line)
                tag, *words = line.split()
                name = b"SEARCH" if b"SEARCH" in words else b"FETCH" if b"FETCH" in words else words[0]
                if name == b"AUTHENTICATE":
                    writer.write(b"+ \r\n")
                    self.heard.append(await reader.readline())
                if name == b"STARTTLS" and self.context is not None:
                    writer.write(tag + b" OK go\r\n" + self.after_starttls)
                    await writer.start_tls(self.context)
                    continue
                for each in self.answers.get(name, [b"@ BAD unknown"]):
                    if each is SILENCE:
                        await reader.read()  # until the client has gone
                    if each is GONE:
                        return
                    writer.write((tag + each[1:] if each.startswith(b"@") else each) + b"\r\n")
        except (ConnectionError, ssl.SSLError):
            pass  # the client left
        finally:
            writer.close()


@pytest.mark.parametrize(
    ("search", "ids", "found"),
    [
        (b"* SEARCH", (), Found.ABSENT),
        (b"* SEARCH 4", (OURS,), Found.FOUND),
        (b"* search 4", (OURS,), Found.FOUND),
        (b"* SEARCH 4 9", (OURS, OURS), Found.DUPLICATE),
        (b"* SEARCH 4", (f"<{TOKEN}@elsewhere.example>",), Found.FOUND),
        (b"* SEARCH 4 9", (OURS, "<other@example.org>"), Found.FOUND),
        (b"* SEARCH 4", ("<other@example.org>",), Found.UNKNOWN),
        (b"* SEARCH 4", (f"<x{TOKEN}@example.org>",), Found.UNKNOWN),
        (b"* SEARCH 4", (), Found.UNKNOWN),
        (b"* SEARCH four", (OURS,), Found.UNKNOWN),
    ],
)
def test_what_the_server_finds_is_looked_at_and_not_believed(search, ids, found):
    server = Scripted(search=[search, b"@ OK"], fetch=fetched(*ids))
    answer = server.ask()
    assert answer.found is found
    assert answer.notification_id == (ids[0] if found in {Found.FOUND, Found.DUPLICATE} else None)
    assert any(b'UID SEARCH HEADER Message-ID "<0a1b2c@"' in line for line in server.heard)
    assert not any(b"SELECT" in line or b"STORE" in line for line in server.heard)


def test_when_it_arrived_is_told():
    answer = Scripted(search=[b"* SEARCH 4", b"@ OK"], fetch=fetched(OURS)).ask()
    assert answer.sent_at == 1_767_258_000.0
    odd = Scripted(search=[b"* SEARCH 4", b"@ OK"], fetch=fetched(OURS, date=b"the day before tomorrow")).ask()
    assert (odd.found, odd.sent_at) == (Found.FOUND, None)


@pytest.mark.parametrize(
    "server",
    [
        Scripted(greeting=b"* BYE too many connections"),
        Scripted(greeting=b"HTTP/1.1 400 Bad Request"),
        Scripted(greeting=b"* OK " + b"x" * 100_000),
        Scripted(authenticate=[b"@ NO [AUTHENTICATIONFAILED] no"]),
        Scripted(examine=[b"@ NO [NONEXISTENT] no such mailbox"]),
        Scripted(examine=[b"* 7 EXISTS", GONE]),
        Scripted(search=[b"@ OK nothing said"]),
        Scripted(search=[b"* SEARCH", b"* SEARCH 4", b"@ OK"]),
        Scripted(search=[b"@ NO not now"]),
        Scripted(search=[b"@ BAD what"]),
        Scripted(search=[b"@ OKAY what"]),
        Scripted(search=[b"* SEARCH 4", GONE]),
        Scripted(search=[b"* SEARCH {5}", GONE]),
        Scripted(search=[b"* 1 EXISTS"] * 5000),
        Scripted(search=[b"* SEARCH 4", b"@ OK"], fetch=[b"@ NO not now"]),
        Scripted(search=[b"* SEARCH 4", b"@ OK"], fetch=[b"* 1 FETCH (UID 4 BODY[] {999}", GONE]),
    ],
    ids=range(16),
)
def test_what_goes_wrong_means_that_nothing_is_known(server):
    answer = server.ask()
    assert answer.found is Found.UNKNOWN
    assert answer.evidence.startswith("127.0.0.1: ")
    assert "a-test-password" not in answer.evidence


@pytest.mark.parametrize("step", ["capability", "examine", "search"])
def test_silence_means_that_nothing_is_known(step):
    assert Scripted(**{step: [SILENCE]}).ask(within=0.3).found is Found.UNKNOWN


def test_nobody_at_home_means_that_nothing_is_known():
    with closed(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    journal = Imap("127.0.0.1", port, username="journal", password="a-test-password", tls="none")
    assert asyncio.run(journal.find(TOKEN, within=5.0)).found is Found.UNKNOWN


def test_a_wrong_password_means_that_nothing_is_known(mail_server):
    password = secrets.token_hex(8)
    answer = asyncio.run(mail_server.journal(password=password).find(TOKEN, within=20.0))
    assert answer.found is Found.UNKNOWN
    assert password not in answer.evidence


def test_names_and_passwords_are_quoted_or_encoded():
    password = 'a "quoted\\" pässwörd'
    server = Scripted()
    assert server.ask(username="j@example.org", password=password).found is Found.ABSENT
    told = base64.b64decode(server.heard[2]).decode()
    assert told == f"\0j@example.org\0{password}"
    plain = Scripted(capability=[b"* CAPABILITY IMAP4rev1", b"@ OK"])
    assert plain.ask(username='a"b', password="c\\d e", mailbox='All "Mail"').found is Found.ABSENT
    assert plain.heard[1] == b'r2 LOGIN "a\\"b" "c\\\\d e"\r\n'
    assert plain.heard[2] == b'r3 EXAMINE "All \\"Mail\\""\r\n'
    assert Scripted(capability=[b"@ OK"]).ask(password=password).found is Found.UNKNOWN


@pytest.mark.parametrize("token", ['x" OR ALL "', "x\r\nr9 LOGOUT", "\0", "ümlaut", "a b"])
def test_a_token_cannot_say_more_than_itself(token):
    server = Scripted()
    assert server.ask(token=token).found is Found.ABSENT
    assert len(server.heard) == 5
    assert all(line.count(b"\r\n") == 1 for line in server.heard)
    assert server.heard[-1].count(b'"') == 2


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
def test_the_search_is_encrypted_as_asked_for(tls):
    server = Scripted(certificate=Certificate.GOOD, implicit=tls == "implicit")
    assert server.ask(tls=tls, ssl_context=trusting_context()).found is Found.ABSENT
    assert any(b"STARTTLS" in line for line in server.heard) is (tls == "starttls")


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
@pytest.mark.parametrize("certificate", [Certificate.SELF_SIGNED, Certificate.WRONG_HOST, Certificate.EXPIRED])
def test_a_server_that_cannot_prove_who_it_is_is_told_nothing(tls, certificate):
    server = Scripted(certificate=certificate, implicit=tls == "implicit")
    assert server.ask(tls=tls, ssl_context=trusting_context()).found is Found.UNKNOWN
    assert not any(b"AUTHENTICATE" in line for line in server.heard)


def test_where_encryption_is_not_offered_nothing_is_told():
    server = Scripted(starttls=[b"@ NO not here"])
    assert server.ask(tls="starttls", ssl_context=trusting_context()).found is Found.UNKNOWN
    assert not any(b"AUTHENTICATE" in line for line in server.heard)


def test_what_was_said_in_the_clear_before_encryption_is_forgotten():
    injected = b"r2 OK injected\r\nr3 OK\r\nr4 OK\r\n* SEARCH\r\nr5 OK\r\n"
    server = Scripted(certificate=Certificate.GOOD, after_starttls=injected, search=[b"@ NO not now"])
    assert server.ask(tls="starttls", ssl_context=trusting_context()).found is Found.UNKNOWN


def test_its_password_is_not_shown():
    assert "a-test-password" not in repr(Imap("mail.example.org", username="journal", password="a-test-password"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls": "none"}, "in the clear"),
        ({"tls": "ssl"}, "tls="),
        ({"password": "a\r\nb"}, "control character"),
        ({"mailbox": ""}, "mailbox="),
        ({"mailbox": "IN\r\nBOX"}, "mailbox="),
        ({"mailbox": "Entwürfe"}, "mailbox="),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(UsageError, match=says):
        Imap("mail.example.org", **({"username": "journal", "password": "a-test-password"} | settings))
