"""Deliveries over real applications, databases and receivers."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "lab"))

from post_office import open_office


@pytest.fixture
def office():
    with open_office() as opened:
        yield opened
