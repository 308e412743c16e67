"""The pages of reference say what is there, no more and no less."""

from pathlib import Path

import pytest

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
