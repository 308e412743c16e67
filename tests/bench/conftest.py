"""The modules of bench/, which is a folder of scripts and not a package."""

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="session")
def bench_module():
    """Import a module of bench/ by its name, with the folder on the path for the time of the import only."""

    def load(name):
        sys.path.insert(0, str(BENCH))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.remove(str(BENCH))

    return load
