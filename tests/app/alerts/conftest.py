"""An application with sinks of a test's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reprieve.app.redaction import forget_secrets

sys.path.insert(0, str(Path(__file__).parent / "lab"))


@pytest.fixture(autouse=True)
def nothing_registered():
    """What a sink registers as secret is forgotten after its test."""
    yield
    forget_secrets()
