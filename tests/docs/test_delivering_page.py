"""The guide to delivering, typed in as its reader would: its program, then every command."""

import pytest

from reprieve.core.lifecycle import DeliveryStatus


@pytest.fixture
def guide(page):
    return page("docs/delivering.md")


def test_its_program_and_every_command_run_and_do_what_the_page_says(guide, reader, tmp_path):
    (program,) = guide.programs
    (tmp_path / "notices.py").write_text(program, encoding="utf-8")
    done = reader.python("notices.py")
    assert (done.returncode, done.stdout) == (0, "delivery:1\n")
    assert done.stderr.splitlines() == [
        "delivery 2 waits for a person: the provider can neither be asked nor drops a second one"
    ]
    assert len(list((tmp_path / "outgoing" / "ada@example.org" / "new").iterdir())) == 1
    said = reader.types_all(guide.commands)
    assert "pigeon:ben" in said["reprieve deliveries list --status held"]
    assert "ada" not in said["reprieve deliveries list --status held"]
    assert "next: find out whether it was received" in said["reprieve deliveries show 2"]
    assert said["reprieve deliveries list --changelist cl-42"].count(" sent ") == 2


def test_it_names_every_status(guide):
    for status in DeliveryStatus:
        assert f"`{status}`" in guide.text
