"""What the tests of the tools share: the scripts as modules, and small source trees."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def census():
    return load("census")


@pytest.fixture(scope="session")
def walk():
    return load("walk")


@pytest.fixture
def tree(tmp_path):
    """Writes files below a fresh folder and returns the folder."""

    def write(files):
        for path, text in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return tmp_path

    return write
