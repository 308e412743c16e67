"""The types are tested as code: mypy, strict, reads the files beside this one."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder in which mypy keeps what it knows of the package, for the tests of this file."""
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.parametrize("file", sorted(HERE.glob("*_types.py")), ids=lambda path: path.stem)
def test_the_promised_types_hold(file, cache):
    command = [sys.executable, "-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={cache}"]
    done = subprocess.run(
        [*command, "--strict", str(file)], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_promise_is_noticed(tmp_path, cache):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from reprieve.app.retry import retry\n\n\n@retry\ndef work(value: int) -> int:\n    return value\n\n\nwork('x')\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={cache}"]
    done = subprocess.run(
        [*command, "--strict", str(wrong)], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300
    )
    assert "arg-type" in done.stdout
