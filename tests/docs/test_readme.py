"""The README's pipeline and the commands of the README and of the page on operating, run as their reader would."""

import json

import pytest


@pytest.fixture
def with_reviews(page, reader, tmp_path):
    """A reader who has saved the README's program and run it."""
    (program,) = page("README.md").section("## Pipelines that survive").programs
    (tmp_path / "reviews.py").write_text(program, encoding="utf-8")
    done = reader.python("reviews.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    return reader


def test_the_pipeline_of_the_readme_runs_by_command_too(page, with_reviews):
    commands = page("README.md").section("## Pipelines that survive").commands
    assert len(commands) == 6
    said = {line: with_reviews.types(line) for line in commands}
    (dead,) = [output for line, output in said.items() if "--status dead_letter" in line]
    assert "dead_letter" in dead
    assert "succeeded" not in dead
    shown = said[commands[-1]]
    assert "job 2 of review: succeeded" in shown
    assert shown.splitlines()[-1].strip() == "1"


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
