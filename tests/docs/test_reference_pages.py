"""The pages of reference say what is there, no more and no less."""

import re
from pathlib import Path

import pytest

import reprieve
from reprieve.faces.cli.reference import PAGES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_was_made_from_what_it_is_about(name):
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_command_is_on_the_page_with_what_it_does():
    sections = PAGES["commands"]().split("\n## ")[1:]
    names = [section.partition("\n")[0] for section in sections]
    assert {"reprieve review", "reprieve work", "reprieve dead replay", "reprieve deliveries confirm"} <= set(names)
    assert all(section.partition("\n")[2].strip() for section in sections)


def test_every_variable_that_is_read_is_on_the_page_of_settings():
    sources = Path(reprieve.__file__).parent.rglob("*.py")
    read = {
        name for each in sources for name in re.findall(r'"(REPRIEVE_[A-Z_]+[A-Z])"', each.read_text(encoding="utf-8"))
    }
    text = PAGES["settings"]()
    assert "REPRIEVE_URL" in read
    assert [name for name in sorted(read) if f"`{name}`" not in text] == []
