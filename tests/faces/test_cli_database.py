"""`reprieve db`."""

import sqlite3


def test_a_database_gets_its_tables_once(command, tmp_path):
    done = command("db", "check")
    assert (done.code, done.out) == (1, "tables: none of Reprieve's; run `reprieve db upgrade`\n")
    assert not (tmp_path / "reprieve.db").exists()
    assert command("db", "upgrade").out.startswith("tables made: revision ")
    assert command("db", "upgrade").out.startswith("up to date: revision ")
    done = command("db", "check")
    assert done.code == 0
    assert "each is queued or over" in done.out


def test_machines_are_told_too(worked):
    found = worked("db", "check", "--json").json
    assert (found["sound"], found["schema"]["fit"]) == (True, "current")
    assert found["orphans"] == {"neither": [], "both": [], "jobless": [], "unleased": []}


def test_what_is_wrong_with_a_database_is_told_by_the_ids_of_jobs(worked):
    with sqlite3.connect("reprieve.db") as connection:
        connection.execute("DELETE FROM queue WHERE job_id = 4")
        connection.execute(
            "INSERT INTO queue (job_id, pipeline, stage, priority, state) VALUES (1, 'review', 'llm', 0, 0)"
        )
        connection.execute(
            "UPDATE queue SET state = 1, waits_on = NULL, worker_id = 99, leased_at = 1 WHERE job_id = 3"
        )
        connection.execute("DELETE FROM jobs WHERE id = 2")
    connection.close()
    done = worked("db", "check")
    assert done.code == 1
    assert done.out.splitlines()[1:] == [
        "jobs that are neither queued nor over: 4",
        "jobs that are both queued and over: 1",
        "rows of jobs that are not there: 2",
        "jobs leased to workers that nobody knows: 3",
    ]


def test_a_database_of_a_newer_version_is_left_alone(worked):
    with sqlite3.connect("reprieve.db") as connection:
        connection.execute("UPDATE reprieve_revision SET version_num = '9999'")
    connection.close()
    done = worked("db", "check")
    assert done.code == 1
    assert "newer than this version" in done.out
    done = worked("db", "upgrade")
    assert done.code == 2
    assert "newer version of Reprieve" in done.err
    done = worked("jobs", "cancel", 4)
    assert done.code == 2
    assert "newer version of Reprieve" in done.err


def test_it_works_on_postgresql_too(command, postgres_databases):
    url = postgres_databases.make(empty=True)
    done = command("jobs", "list", "--url", url)
    assert done.code == 2
    assert "reprieve db upgrade" in done.err
    assert command("db", "upgrade", "--url", url).out.startswith("tables made")
    assert command("db", "check", "--url", url).code == 0
    assert command("submit", "review", '{"n": 1}', "--url", url).out == "job 1 submitted\n"
    assert command("jobs", "cancel", 1, "--url", url).out == "job 1: cancelled\n"
    assert command("jobs", "list", "--url", url, "--json").json["jobs"][0]["status"] == "cancelled"
