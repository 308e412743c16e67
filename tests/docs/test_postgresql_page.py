"""The guide to moving to PostgreSQL, typed in as its reader would, with a real server to move to."""

import shlex

import pytest


@pytest.fixture
def with_reviews(page, reader, tmp_path):
    """A reader who has run the example, and has a job waiting."""
    (program,) = page("docs/operating.md").section("## The example").programs
    (tmp_path / "reviews.py").write_text(program, encoding="utf-8")
    assert reader.python("reviews.py").returncode == 0
    return reader


def test_every_command_of_the_page_runs_and_the_jobs_go_on(page, with_reviews, postgres_databases):
    url = postgres_databases.make(empty=True)
    commands = [line.replace('"$NEW"', shlex.quote(url)) for line in page("docs/postgresql.md").commands]
    before = [
        "export REPRIEVE_APP=reviews REPRIEVE_URL=sqlite:///reviews.db",
        'reprieve submit review \'{"name": "later"}\' --key later@1',
    ]
    look = "reprieve jobs show --key later@1"
    said = with_reviews.types_all([*before, *commands, look])
    assert len(commands) == 5
    assert "jobs: 2 rows" in said[commands[0]]
    assert "job 2 of review: succeeded" in said[look]
