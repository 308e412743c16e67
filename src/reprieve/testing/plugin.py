"""The pytest plugin: upstreams that fail on purpose and pipelines that run on the spot, as fixtures; loaded by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reprieve.testing.mail import FlakySMTP
from reprieve.testing.places import nobody_listening
from reprieve.testing.tls import Certificate
from reprieve.testing.web import FlakyHTTP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reprieve.testing.inline_app import InlineRunner


@pytest.fixture
def flaky_http() -> Iterator[FlakyHTTP]:
    """An HTTP upstream that does what the test scripts; well until then."""
    with FlakyHTTP() as upstream:
        yield upstream


@pytest.fixture
def flaky_https() -> Iterator[FlakyHTTP]:
    """The same over TLS, with a certificate that `trusting_context()` trusts."""
    with FlakyHTTP(certificate=Certificate.GOOD) as upstream:
        yield upstream


@pytest.fixture
def flaky_smtp() -> Iterator[FlakySMTP]:
    """An SMTP upstream that does what the test scripts; takes every message until then."""
    with FlakySMTP() as server:
        yield server


@pytest.fixture
def refusing_port() -> Iterator[int]:
    """A loopback port that refuses every connection."""
    with nobody_listening() as port:
        yield port


@pytest.fixture
def reprieve_inline(tmp_path: Path) -> InlineRunner:
    """Runs jobs on the spot, on one database and by one clock for the whole test: `reprieve_inline(pipeline, payload)`."""
    from reprieve.testing.inline_app import InlineRunner  # noqa: PLC0415 - only who asks for it pays for it

    return InlineRunner(tmp_path)
