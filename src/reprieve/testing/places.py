"""Places where nothing answers: a closed port, a port that never accepts, a name that does not exist."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Final

from reprieve.testing.upstream import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

UNRESOLVABLE_HOST: Final = "upstream.invalid"
"""A name that no resolver may ever answer (RFC 6761)."""

_BACKLOG_FILL: Final = 4


@contextlib.contextmanager
def nobody_listening() -> Iterator[int]:
    """A loopback port that refuses every connection, and that nobody else can take meanwhile.

    with nobody_listening() as port: ...
    """
    with socket.socket() as held:
        held.bind((HOST, 0))
        yield held.getsockname()[1]


@contextlib.contextmanager
def nobody_accepting() -> Iterator[int]:
    """A loopback port whose queue is full, so that connecting to it times out (on Linux).

    with nobody_accepting() as port: ...
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((HOST, 0), backlog=0))
        port: int = listener.getsockname()[1]
        for _ in range(_BACKLOG_FILL):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0)
            filler.connect_ex((HOST, port))
        yield port
