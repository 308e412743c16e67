"""What the command line says when the database is not as it should be, or something else goes wrong."""

import resource
import socket
import sqlite3
import subprocess
import sys

import pytest

READING = [["jobs", "list"], ["jobs", "show", "1"], ["jobs", "watch"], ["stages", "list"]]
CHANGING = [
    ["jobs", "cancel", "1"],
    ["jobs", "prune", "--older-than", "1d"],
    ["jobs", "erase", "x", "-y"],
    ["stages", "pause", "review"],
]


@pytest.mark.parametrize("arguments", [*READING, *CHANGING], ids=" ".join)
def test_a_file_that_is_not_there_is_told_and_not_made(command, tmp_path, arguments):
    done = command(*arguments)
    assert done.code == 2
    assert "reprieve db upgrade" in done.err
    assert not (tmp_path / "reprieve.db").exists()


@pytest.mark.parametrize("arguments", [*READING, *CHANGING], ids=" ".join)
def test_a_missing_table_is_told(command, tmp_path, arguments):
    (tmp_path / "reprieve.db").touch()
    done = command(*arguments)
    assert done.code == 2
    assert "reprieve db upgrade" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("url", ["jobs.db", "mysql://host/name", "sqlite:/jobs.db", "postgresql://a:b@c@d/e"])
def test_a_wrong_url_is_told_with_a_right_one(command, url):
    for arguments in (["jobs", "list"], ["db", "check"], ["submit", "review", "{}"]):
        done = command(*arguments, "--url", url)
        assert done.code == 2
        assert "write " in done.err


@pytest.mark.spec("ORC-4.2")
@pytest.mark.parametrize(
    "arguments",
    [["jobs", "list"], ["db", "upgrade"], ["db", "check"], ["jobs", "cancel", "1"], ["submit", "review", "{}"]],
)
def test_a_server_that_is_away_is_tried_three_times_more_then_told_without_its_password(command, arguments):
    password = "hunter" + "2secret"
    done = command(*arguments, "--url", f"postgresql://ada:{password}@127.0.0.1:1/jobs")
    assert done.code == 2
    *tries, end = [line for line in done.err.splitlines() if line.startswith("reprieve: ")]
    assert len(tries) == 3
    assert all("127.0.0.1:1/jobs" in line and "trying again in" in line for line in tries)
    assert end.startswith("reprieve: System unavailable, try again later: ")
    assert password not in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs", "list"],
        ["db", "upgrade"],
        ["db", "check"],
        ["jobs", "cancel", "1"],
        ["submit", "review", "{}"],
        ["work"],
    ],
)
@pytest.mark.parametrize(
    ("there", "wrong", "says"),
    [
        ("/postgres?", "/nowhere?", 'database "nowhere" does not exist'),
        ("postgres:@", "nobody:@", 'role "nobody" does not exist'),
    ],
)
def test_a_database_or_a_role_that_is_not_there_is_told_at_once(
    command, postgres_server, arguments, there, wrong, says
):
    done = command(*arguments, "--url", postgres_server("postgres").replace(there, wrong))
    assert done.code == 2
    assert says in done.err
    assert "trying again" not in done.err
    assert "System unavailable" not in done.err
    assert "working on" not in done.err


def test_a_host_that_nobody_knows_is_told_at_once(command, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(
        socket, "getaddrinfo", unknown
    )  # the answer of a resolver that works, which not every machine has
    done = command("jobs", "list", "--url", "postgresql://ada@no-such-host.invalid/jobs")
    assert done.code == 2
    assert "no-such-host.invalid" in done.err
    assert "trying again" not in done.err
    assert "System unavailable" not in done.err


@pytest.mark.parametrize("arguments", [["db", "upgrade"], ["submit", "review", "{}"], ["work"]])
def test_a_folder_that_is_not_there_is_told_at_once(command, arguments):
    done = command(*arguments, "--url", "sqlite:///nowhere/jobs.db")
    assert done.code == 2
    assert "there is no folder 'nowhere'" in done.err
    assert "trying again" not in done.err
    assert "working on" not in done.err


@pytest.mark.spec("ORC-4.2")
def test_a_file_that_is_free_again_is_used(worked):
    holder = sqlite3.connect("reprieve.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    pruning = subprocess.Popen(
        [sys.executable, "-m", "reprieve", "jobs", "prune", "--older-than", "0s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "locked; trying again in 1 s" in pruning.stderr.readline()
    holder.execute("ROLLBACK")
    holder.close()
    out, _ = pruning.communicate(timeout=60)
    assert (pruning.returncode, out) == (0, "1 job removed; 1 job kept for open dead letters\n")


def test_a_file_that_is_no_database_is_told(command, tmp_path):
    (tmp_path / "reprieve.db").write_text("not a database, but long enough to be looked at as if it were one" * 20)
    for arguments in (["jobs", "list"], ["db", "check"], ["db", "upgrade"], ["submit", "review", "{}"]):
        done = command(*arguments)
        assert done.code == 2
        assert "not a SQLite database" in done.err


def test_a_locked_file_is_told(worked, monkeypatch):
    monkeypatch.setattr("reprieve.adapters.sql.engine.PATIENCE", 0.1)
    holder = sqlite3.connect("reprieve.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    done = worked("jobs", "prune", "--older-than", "1d")
    assert worked("jobs", "list").code == 0, "a reader does not wait for a writer"
    holder.execute("ROLLBACK")
    holder.close()
    assert done.code == 2
    assert "locked" in done.err


def test_a_full_disk_is_told(command, tmp_path):
    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = subprocess.run(
        [sys.executable, "-B", "-m", "reprieve", "db", "upgrade"],
        preexec_fn=no_room,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "cannot be used now" in done.stderr
    assert "Traceback" not in done.stderr
    assert command("db", "upgrade").out.startswith("tables made"), "nothing half-written was left"


def test_a_text_that_no_database_takes_is_told(worked):
    done = worked("jobs", "list", "--subject", "\udcff")
    assert done.code == 2
    assert "databases do not take" in done.err


def test_what_nobody_expected_is_told_without_a_stack_or_a_secret(worked, monkeypatch):
    secret = "hunter" + "2secret"

    def broken(*_):
        raise RuntimeError(f"odd: password={secret}")

    monkeypatch.setattr("reprieve.faces.cli.job_views.job_table", broken)
    done = worked("jobs", "list")
    assert done.code == 2
    assert "nobody expected this: RuntimeError: odd" in done.err
    assert secret not in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("REPRIEVE_DEBUG", "1")
    with pytest.raises(RuntimeError, match="odd"):
        worked("jobs", "list")


GROUPS = {
    "jobs": ("list", "show", "cancel", "watch", "prune", "erase"),
    "stages": ("list", "pause", "resume"),
    "db": ("upgrade", "check"),
}
COMMANDS = [("work",), ("submit",), *((group, name) for group, names in GROUPS.items() for name in names)]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_a_help_with_an_example(command, path):
    done = command(*path, "--help")
    assert done.code == 0
    assert f"reprieve {' '.join(path)}" in done.out.partition("Examples:")[2]
    assert "--url" in done.out


def test_the_groups_say_what_is_in_them(command):
    for group, names in GROUPS.items():
        assert all(f" {name} " in command(group, "--help").out for name in names)
