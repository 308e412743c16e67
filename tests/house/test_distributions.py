"""The wheel and the source distribution hold what belongs in them, and the wheel works by itself."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = [ROOT / each for each in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
MAX_BYTES = 1_000_000
SUFFIXES = {".lua", ".py", ".typed", ".toml", ".txt", ".sql"}
PROGRAM = """
import asyncio, json
from importlib.metadata import entry_points
import reprieve

pipeline = reprieve.Pipeline("smoke")

@pipeline.stage
async def double(job: reprieve.Job[int]) -> int:
    return 2 * job.payload

async def main() -> int:
    async with reprieve.connect("sqlite:///smoke.db") as app:
        job = await app.submit(pipeline, 21)
        await app.work(pipeline, until_idle=True)
        return await job.result()

print(json.dumps({
    "result": asyncio.run(main()),
    "file": reprieve.__file__,
    "version": reprieve.__version__,
    "class": reprieve.classify(ConnectionRefusedError(111, "refused")).error_class,
    "profiles": list(reprieve.load_profiles().names()),
    "plugins": [each.value for each in entry_points(group="pytest11")],
}))
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment that holds the wheel and what it requires."""

    folder: Path

    def run(self, *arguments):
        """What a command of the environment prints, run from an empty folder; it has to exit with 0."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        command = [str(self.folder / "bin" / arguments[0]), *arguments[1:]]
        own = {key: text for key, text in os.environ.items() if not key.startswith(("PYTHON", "REPRIEVE_"))}
        done = subprocess.run(
            command,
            cwd=work,
            env=own,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def build(source, target, *kinds):
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target)]
    command += [word for kind in kinds for word in ("-t", kind)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def required_distributions(*extras):
    """The distributions that the package needs with these extras, and those that they need."""
    found = {}
    optional = PYPROJECT["project"]["optional-dependencies"]
    waiting = [
        Requirement(each)
        for group in (PYPROJECT["project"]["dependencies"], *(optional[extra] for extra in extras))
        for each in group
    ]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[name] = distribution(name)
            waiting += map(Requirement, found[name].requires or ())
    return found.values()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both distributions, built from the work tree."""
    target = tmp_path_factory.mktemp("built")
    build(ROOT, target, "sdist", "wheel")
    return target


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(built):
    (found,) = built.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A new environment with the wheel and what it requires without any extra."""
    return make_environment(wheel, tmp_path_factory.mktemp("environment"))


def make_environment(wheel, folder, *extras):
    """Make an environment: pip installs the wheel; its requirements are links into this environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    install = [*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, timeout=120, capture_output=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for each in required_distributions(*extras):
        for top in {file.parts[0] for file in each.files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(each.locate_file(top))
        for program in (file for file in each.files if file.parts[-2:-1] == ("bin",)):
            (folder / "bin" / program.name).symlink_to(each.locate_file(program).resolve())
    return Environment(folder)


def misplaced(name, size, packages):
    """What is wrong with a file of the wheel; nothing where it belongs there."""
    path = PurePosixPath(name)
    if re.fullmatch(r"reprieve-[\w.]+\.dist-info", path.parts[0]):
        return []
    wrong = {
        "is outside of the packages": path.parts[0] not in packages,
        "is a test": "tests" in path.parts or path.name.startswith(("test_", "conftest")),
        f"is no file of the kinds {sorted(SUFFIXES)}": path.suffix not in SUFFIXES,
        f"has {size:,} bytes, more than {MAX_BYTES:,}": size > MAX_BYTES,
    }
    return [f"{name} {why}" for why, holds in wrong.items() if holds]


def test_every_file_of_the_wheel_belongs_in_it(wheel):
    packages = {package.name for package in PACKAGES}
    wrong = [why for name, text in contents(wheel).items() for why in misplaced(name, len(text), packages)]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "size", "why"),
    [
        ("bench/run.py", 1, "outside of the packages"),
        ("reprieve/tests/helpers.py", 1, "is a test"),
        ("reprieve/core/test_decide.py", 1, "is a test"),
        ("reprieve/core/__pycache__/decide.cpython-311.pyc", 1, "is no file of the kinds"),
        ("reprieve/core/words.txt", MAX_BYTES + 1, "more than 1,000,000"),
    ],
)
def test_a_file_that_does_not_belong_in_the_wheel_is_named_with_the_reason(name, size, why):
    (found,) = misplaced(name, size, {"reprieve"})
    assert found.startswith(name)
    assert why in found


def test_the_description_of_the_package_has_no_picture_and_no_link_that_leads_nowhere(wheel):
    (text,) = [text for name, text in contents(wheel).items() if name.endswith(".dist-info/METADATA")]
    description = text.decode().partition("\n\n")[2]
    assert description.startswith("# Reprieve")
    assert "https://github.com/celery/celery" in description
    assert re.findall(r"\]\((?!https://)", description) == []
    assert "![" not in description


def test_every_file_of_the_packages_is_in_the_wheel(wheel):
    found = [path.relative_to(package.parent) for package in PACKAGES for path in package.rglob("*.*")]
    wanted = {path.as_posix() for path in found if "__pycache__" not in path.parts}
    assert "reprieve/py.typed" in wanted
    assert "reprieve/profiles/criticizer.toml" in wanted
    assert wanted - contents(wheel).keys() == set()


def test_the_source_distribution_has_what_building_and_testing_take_and_no_more(sdist):
    with tarfile.open(sdist) as archive:
        names = [PurePosixPath(name) for name in archive.getnames()]
    tops = {path.parts[1] for path in names if len(path.parts) > 1}
    assert tops == {
        ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "PKG-INFO", "README.md", "bench", "docs",
        "hatch_build.py", "pyproject.toml", "requirements", "src", "tests", "tools",
    }  # fmt: skip
    assert [path for path in names if "results" in path.parts or "__pycache__" in path.parts] == []


def test_the_source_distribution_builds_the_same_wheel(sdist, wheel, tmp_path):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    build(source, tmp_path / "dist", "wheel")
    (again,) = (tmp_path / "dist").glob("*.whl")
    assert again.name == wheel.name
    assert contents(again) == contents(wheel)


def test_the_command_of_the_installed_wheel_runs(environment):
    assert environment.run("reprieve", "--version").split() == ["reprieve", PYPROJECT["project"]["version"]]
    assert "RATE_LIMITED" in environment.run("reprieve", "classify", "--status", "429")


def test_a_program_on_the_installed_wheel_runs_with_its_own_requirements_only(environment):
    found = json.loads(environment.run("python", "-I", "-W", "error", "-c", PROGRAM))
    assert Path(found.pop("file")).is_relative_to(environment.folder)
    assert {"criticizer", "analysis", "ingestion", "orchestrator"} <= set(found.pop("profiles"))
    assert found == {
        "result": 42, "version": PYPROJECT["project"]["version"], "class": "CONNECTION_REFUSED",
        "plugins": [PYPROJECT["project"]["entry-points"]["pytest11"]["reprieve"]],
    }  # fmt: skip


def test_the_requirements_of_the_extras_are_not_in_the_environment(environment):
    found = "import importlib.util as u; print(*filter(u.find_spec, ['httpx2', 'openai', 'pytest']))"
    assert environment.run("python", "-I", "-c", found).strip() == ""


def test_a_review_runs_on_the_installed_wheel_with_the_requirements_of_its_extra_only(wheel, tmp_path):
    environment = make_environment(wheel, tmp_path / "environment", "review")
    shop = tmp_path / "shop"
    subprocess.run(["git", "init", "--quiet", str(shop)], check=True)
    (shop / "cart.py").write_text("import pickle\n\n\ndef read(text):\n    return pickle.loads(text)\n")
    (shop / "shop.yaml").write_text("a: [1\n")
    said = environment.run("reprieve", "review", "--repository", str(shop))
    assert "shop.yaml:2  high  does-not-parse" in said
    assert "cart.py:5  medium  unsafe-deserialization" in said
    assert "not checked" not in said
