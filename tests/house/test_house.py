"""What the repository promises about itself."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import reprieve
from reprieve.faces.cli.taxonomy import page

ROOT = Path(__file__).parents[2]


def test_the_pinned_base_is_what_the_package_declares():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    listed = [line for line in (ROOT / "requirements/base.in").read_text().splitlines() if not line.startswith("#")]
    assert sorted(listed) == sorted(declared)


def test_celery_is_installed_with_what_its_transport_for_redis_needs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(each.startswith("celery[redis]") for each in extras["celery"])
    assert "celery[redis]" in (ROOT / "requirements/test.in").read_text().splitlines()
    pinned = (ROOT / "requirements/test.txt").read_text()
    assert all(
        re.search(rf"^{name}(\[redis\])?==", pinned, re.MULTILINE) for name in ("celery", "kombu", "packaging", "redis")
    )


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_no_page_installs_a_release_before_there_is_one(path):
    assert "pip install 'reprieve" not in path.read_text(encoding="utf-8")


LOCKED = sorted(path for path in (ROOT / "requirements").glob("*.txt") if path.name != "debian.txt")


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.name)
def test_a_requirements_file_pins_with_hashes_and_names_no_host(path):
    text = path.read_text()
    pins = re.findall(r"^[A-Za-z0-9_.\[\]-]+==\S+.*\\$", text, re.MULTILINE)
    packages = re.findall(r"^[A-Za-z0-9]", text, re.MULTILINE)
    assert pins
    assert len(pins) == len(packages)
    assert "--hash=sha256:" in text
    assert not re.search(r"https?://|--index-url|--extra-index|--find-links", text)


def test_the_taxonomy_page_is_made_from_the_table():
    assert (ROOT / "docs/taxonomy.md").read_text(encoding="utf-8") == page(), "run `make docs`"


def test_the_public_names_are_those_that_have_a_home():
    assert sorted(reprieve.__all__) == sorted(reprieve._HOME_OF)


@pytest.mark.parametrize("name", reprieve.__all__)
def test_a_public_name_can_be_used(name):
    assert getattr(reprieve, name) is not None
    assert name in dir(reprieve)


def test_a_name_that_does_not_exist_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_ours'"):
        reprieve.nothing_of_ours  # noqa: B018


HEAVY = ("asyncio", "re2", "rich", "typer", "tomllib", "httpx", "httpx2", "socket", "logging")


@pytest.mark.parametrize(
    "code", ["import reprieve", "import reprieve; reprieve.retry; reprieve.classify; reprieve.Failure"]
)
def test_importing_the_package_loads_nothing_heavy(code):
    script = f"{code}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
