"""Workers of other task systems: real processes on a real Valkey."""

from pathlib import Path

import pytest

from support.hosts import Host
from support.redis_servers import RedisServer

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def broker():
    """A Valkey on a port, for the tests of one module."""
    server = RedisServer(on_port=True).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def start_host(broker, tmp_path_factory):
    """Start a worker on that Valkey; it ends with the module's tests."""
    started = []

    def start(*command, restarts=False, environment=None):
        log = tmp_path_factory.mktemp("host") / "log"
        host = Host(broker, command, PROGRAMS, log, restarts=restarts, environment=environment)
        host.start()
        started.append(host)
        return host

    yield start
    for host in started:
        host.kill()
