"""How a test run treats hangs, an ignored SIGINT, missing programs, a random order and campaigns."""

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from support import effort, programs
from support.schedule import WAITING, OverlapScheduling, shuffled
from support.servers import start_on_free_ports

ROOT = Path(__file__).parents[2]
HANGS = """
import asyncio, threading, time

def wait_in_a_thread():
    time.sleep(30)

def test_hangs():
    threading.Thread(target=wait_in_a_thread, daemon=True).start()
    asyncio.run(asyncio.sleep(30))

def test_is_still_run():
    pass
"""
LOOKS_AT_SIGINT = """
import subprocess, sys

def test_a_child_can_be_interrupted():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode != 0
"""
NEEDS_GIT = """
from support import programs

def test_needs_git():
    programs.require("git")
"""
OF_ALL_SIZES = """
import pytest
from support import effort

def test_usual():
    assert effort.size(1, 2) == 1

@pytest.mark.campaign
def test_of_both():
    print("size", effort.size(1, 2))

"""


@pytest.fixture
def run(tmp_path):
    """Runs pytest, as the project configures it, on a file with these tests."""

    def run_tests(source, *options, **process):
        (tmp_path / "test_sample.py").write_text(source)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(ROOT / "pyproject.toml"),
            f"--rootdir={ROOT}",
            "-p",
            "conftest",
        ]
        process = {"env": {**os.environ, "PYTHONPATH": str(ROOT / "tests")}} | process
        return subprocess.run(
            [*command, "-p", "no:cacheprovider", "-rA", *options, str(tmp_path / "test_sample.py")],
            capture_output=True, text=True, timeout=60, check=False, **process,
        )  # fmt: skip

    return run_tests


def counted(done):
    """The numbers of the last line, by what they count."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1])}


def test_every_test_has_a_time_limit(pytestconfig):
    assert 0 < float(pytestconfig.getini("timeout")) <= 300


def test_a_test_that_hangs_fails_with_the_stacks_of_all_threads(run):
    done = run(HANGS, "--timeout=1")
    assert counted(done)["failed"] == 1
    assert counted(done)["passed"] == 1
    assert "asyncio.run(asyncio.sleep(30))" in done.stdout
    assert "in wait_in_a_thread" in done.stdout


def test_a_run_that_was_started_with_sigint_ignored_passes(run):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = run(LOOKS_AT_SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert counted(done)["passed"] == 1, done.stdout


@pytest.fixture
def without_programs(tmp_path):
    """An environment in which no program is found."""
    (tmp_path / "empty").mkdir()
    return {**os.environ, "PATH": str(tmp_path / "empty"), "PYTHONPATH": str(ROOT / "tests")}


def test_a_missing_program_skips_its_tests_and_the_run_says_how_to_install_it(run, without_programs):
    done = run(NEEDS_GIT, env=without_programs)
    assert counted(done)["skipped"] == 1
    assert "Tests were skipped for missing programs: apt-get install git" in done.stdout


def test_a_missing_program_fails_its_tests_where_all_are_required(run, without_programs):
    done = run(NEEDS_GIT, "--require=all", env=without_programs)
    assert counted(done)["failed"] == 1
    assert "git is not installed: apt-get install git" in done.stdout


def test_the_list_for_debian_has_the_packages_of_all_programs_that_tests_require():
    assert sorted(programs.listed_packages()) == sorted(set(programs.PACKAGE_OF.values()))


def test_a_campaign_runs_at_its_full_size_and_is_apart_from_the_usual_run(run):
    usual, campaign = run(OF_ALL_SIZES), run(OF_ALL_SIZES, "--campaign")
    assert counted(usual) == {"passed": 2}
    assert counted(campaign) == {"passed": 1, "deselected": 1}
    assert "size 1" in usual.stdout
    assert "size 2" in campaign.stdout


def test_a_shuffled_run_has_every_test_once_and_keeps_modules_together():
    class Item:
        def __init__(self, nodeid):
            self.nodeid = nodeid

    items = [Item(f"tests/test_{module}.py::test_{number}") for module in "abcdefgh" for number in range(9)]
    orders = {tuple(item.nodeid for item in shuffled(items, seed)) for seed in ("1", "1", "2", "3")}
    assert len(orders) == 3
    for order in orders:
        assert sorted(order) == sorted(item.nodeid for item in items)
        modules = [nodeid.partition("::")[0] for nodeid in order]
        assert sum(one != other for one, other in itertools.pairwise(modules)) == 7
    assert shuffled(items, None) == items


def test_a_file_stays_together_but_tests_that_wait_do_not():
    scope_of = OverlapScheduling._split_scope
    assert scope_of(None, "tests/core/test_http.py::test_a[x::y]") == "tests/core/test_http.py"
    assert scope_of(None, "tests/engine/test_races.py::test_a") == "tests/engine/test_races.py::test_a"


class Node:
    """A test process, as far as the scheduler looks at it."""

    def __init__(self, number):
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.sent = []

    def send_runtest_some(self, indices):
        self.sent += indices


def test_half_of_the_processes_take_tests_that_wait_first_and_the_others_whole_files_first():
    tests = ["tests/core/test_http.py::test_a", "tests/engine/test_races.py::test_a", "tests/core/test_http.py::test_b"]
    nodes = [Node(0), Node(1)]
    scheduler = OverlapScheduling(SimpleNamespace(getvalue=lambda name: ["2*popen"]))
    for test in tests:
        scheduler.workqueue.setdefault(scheduler._split_scope(test), {})[test] = False
    for node in nodes:
        scheduler.registered_collections[node] = tests
        scheduler._assign_work_unit(node)
    assert [node.sent for node in nodes] == [[1], [0, 2]]


@pytest.mark.parametrize("prefix", [*effort.FAST, *effort.SLOW, *WAITING])
def test_each_place_that_is_listed_has_tests(prefix):
    assert list(ROOT.glob(f"{prefix}*"))


def test_a_server_whose_port_is_taken_is_started_on_another(tmp_path):
    code = "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"
    tried = []
    with socket.create_server(("127.0.0.1", 0)) as foreign:

        def command(ports):
            tried.append(ports)
            port = foreign.getsockname()[1] if len(tried) == 1 else ports[0]
            ports[0] = port
            return [sys.executable, "-c", code, str(port)]

        process, ports = start_on_free_ports(1, command)
        process.kill()
        process.wait()
    assert len(tried) == 2
    assert ports == tried[1] != tried[0]


@pytest.mark.parametrize(
    ("statement", "is_used_again"),
    [
        ("INSERT INTO workers (name, host, pid, started_at, expires_at) VALUES ('w', 'h', 1, now(), now())", True),
        ("ALTER TABLE workers ADD COLUMN extra int", False),
        ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", False),
        ("CREATE SCHEMA another", False),
    ],
)
def test_a_database_with_rows_is_emptied_and_one_with_another_schema_is_dropped(
    postgres_databases, statement, is_used_again
):
    url = postgres_databases.take()
    with psycopg.connect(url) as connection:
        connection.execute(statement)
    postgres_databases.give_back(url)
    again = postgres_databases.take()
    assert (again == url) == is_used_again
    with psycopg.connect(again) as connection:
        assert connection.execute("SELECT count(*) FROM workers").fetchone() == (0,)
    postgres_databases.give_back(again)
