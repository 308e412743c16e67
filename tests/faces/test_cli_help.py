"""What `--help` of the commands prints."""

import pytest
import typer
from rich.text import Text

from reprieve.faces.cli import app


def every_command(command=None, path=()):
    command = typer.main.get_command(app) if command is None else command
    yield " ".join(path), command
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from every_command(command.get_command(None, name), (*path, name))


@pytest.mark.parametrize("path", ["streams list", "streams pause", "streams run"])
def test_the_name_of_a_section_of_the_settings_is_printed(command, path):
    assert "[streams]" in command(*path.split(), "--help").out


def test_no_help_text_loses_what_it_has_in_square_brackets():
    for path, command in every_command():
        for text in [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]:
            assert Text.from_markup(text).plain == text.replace("\\[", "["), (path, text)
