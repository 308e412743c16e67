"""What all tests share: requirement ids in the report, generated examples that repeat, and real databases."""

from __future__ import annotations

import imaplib
import os
import secrets
import signal
import sys
import tempfile
from dataclasses import dataclass
from email import message_from_bytes, policy
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from support import effort, programs
from support.postgres import start_postgres
from support.schedule import OverlapScheduling, shuffled
from support.servers import start_on_free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message

    from support.databases import Databases
    from support.redis_servers import RedisServer

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 << 30

# The same examples in every run, so that a failure is the change's; HYPOTHESIS_PROFILE=default draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Temporary files are in memory where possible. No test cuts the power, so waiting for a disk proves nothing.
if "TMPDIR" not in os.environ and MEMORY.is_dir() and disk_usage(MEMORY).free > MIN_FREE_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# A shell that starts a run in the background with `nohup ... &` makes it ignore SIGINT. Children inherit
# that, and tests send SIGINT to children.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `make test` and `make campaign` pass on."""
    group = parser.getgroup("reprieve")
    group.addoption("--campaign", action="store_true", help="run the long campaigns only, at their full size")
    group.addoption("--fast", action="store_true", help="run only the fast tests, those of `make check`")
    group.addoption("--shuffle", metavar="SEED", help="run modules, and the tests inside each, in a random order")
    group.addoption("--require", choices=["all"], help="fail tests that a missing program would skip")


def pytest_configure(config: pytest.Config) -> None:
    """Set the size of the run before tests are imported. Keep pytest-xdist from sorting a random order."""
    if config.getoption("shuffle") and hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    effort.CAMPAIGN = config.getoption("campaign")
    programs.REQUIRED = config.getoption("require") == "all"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of this run, shuffle them, and write the ids of `spec` marks as properties."""
    for item in items:
        for mark in item.iter_markers("spec"):
            item.user_properties.extend(("spec", spec_id) for spec_id in mark.args)
    wanted, others = [], []
    for item in items:
        fits = effort.is_selected(item) and (effort.is_fast(item) or not config.getoption("fast"))
        (wanted if fits else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = shuffled(wanted, config.getoption("shuffle"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OverlapScheduling:
    """Replace the schedulers of pytest-xdist."""
    return OverlapScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the line that installs the programs for which tests were skipped."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []) if report.longrepr]
    if packages := programs.packages_named_in(reasons):
        terminalreporter.write_line(f"Tests were skipped for missing programs: apt-get install {' '.join(packages)}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[str], str]]:
    """A PostgreSQL of this process's own; gives the URL of a database by its name."""
    server = start_postgres()
    yield server.url
    server.remove()


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: Callable[[str], str]) -> Databases:
    """The databases on that server; they go with it."""
    from support.databases import Databases  # noqa: PLC0415 - it loads the store, which most tests do not need

    return Databases(postgres_server)


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    """A database on PostgreSQL that has our tables and no rows."""
    url = postgres_databases.take()
    yield url
    postgres_databases.give_back(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that is made when it is opened."""
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A fresh database on each of the two."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture(scope="session")
def redis_servers() -> Iterator[Callable[[str], RedisServer]]:
    """One Valkey 9 and one Redis 6.2 of this process's own; each starts when a test first asks for it."""
    from support.redis_servers import RedisServer  # noqa: PLC0415 - it loads redis-py, which most tests do not need

    started: dict[str, RedisServer] = {}

    def server(kind: str) -> RedisServer:
        if kind not in started:
            started[kind] = RedisServer(kind).start()
        return started[kind]

    yield server
    for each in started.values():
        each.stop()


@pytest.fixture(params=["valkey", "redis62"])
def redis_server(request: pytest.FixtureRequest, redis_servers: Callable[[str], RedisServer]) -> RedisServer:
    """An empty server of each of the two kinds."""
    server = redis_servers(request.param)
    server.call("FLUSHALL")
    return server


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
    username, password = "journal@example.org", secrets.token_hex(8)

    def command(ports: list[int]) -> list[str]:
        options = {
            "host": "127.0.0.1", "user": username, "smtp-port": ports[0], "smtps-port": ports[1], "imap-port": ports[2],
            "cert": folder / "certificate.pem", "key": folder / "key.pem",
        }  # fmt: skip
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return [sys.executable, "-m", "mail_devel", "--no-http", *words]

    process, ports = start_on_free_ports(3, command, env={**os.environ, "MAIL_PASSWORD": password})
    yield MailServer("127.0.0.1", *ports, username, password)
    process.terminate()
    process.wait(timeout=30)
