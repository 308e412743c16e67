"""The README's pipeline and the commands of the README and of the page on operating, run as their reader would."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def with_reviews(page, reader, tmp_path):
    """A reader who has saved the example and run it."""
    (program,) = page("docs/operating.md").section("## The example").programs
    (tmp_path / "reviews.py").write_text(program, encoding="utf-8")
    done = reader.python("reviews.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    return reader


def test_the_pipeline_of_the_readme_runs_and_its_dead_letter_is_found_by_command(page, reader, tmp_path):
    section = page("README.md").section("## A pipeline")
    (program,) = section.programs
    (tmp_path / "orders.py").write_text(program, encoding="utf-8")
    done = reader.python("orders.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "6 EUR\n", "")
    said = [reader.types(line) for line in section.commands]
    assert len(said) == 5
    assert "no product has such a name" in said[-1]


def test_the_readme_is_short_and_its_picture_is_there(page):
    readme = page("README.md")
    assert len(readme.text.split()) <= 700
    assert "docs/run.svg" in readme.text
    assert (ROOT / "docs" / "run.svg").is_file()


def test_the_commands_of_the_page_on_operating_run(page, with_reviews):
    commands = page("docs/operating.md").commands
    assert len(commands) == 27
    look = "reprieve jobs show --key broken@1 --json"
    said = with_reviews.types_all([*commands, look])
    assert said["reprieve jobs cancel --key mistake@1 --reason 'submitted by mistake'"] == "job 4: cancelled\n"
    assert said["reprieve jobs erase cl-7 --yes"] == "the contents of 1 job erased\n"
    assert "no change has such a name" in said["reprieve jobs show --key broken@1 --stack"]
    assert "review.llm paused" in said["reprieve stages pause review llm --reason 'the provider is down until noon'"]
    job = json.loads(said[look])
    assert (job["status"], job["dead_letter"]["state"]) == ("dead_letter", "open")
