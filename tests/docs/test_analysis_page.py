"""The page on cached analysis, typed in as its reader would: the program, then every command."""

import json

from reprieve.app.analysis.service import AnalysisOptions


def test_the_program_and_the_commands_of_the_page_do_what_it_says(page, reader, tmp_path):
    guide = page("docs/analysis.md")
    (program,) = guide.programs
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    for word in ("asked", "cached"):
        done = reader.python("program.py")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "{'kind': 'product'} True")
        assert done.stdout.count(word) == 3
        assert "a.example/x/N needs_review None" in done.stdout
    look = [
        "reprieve reviews show 1 --json",
        "reprieve reviews signatures --status active --json",
    ]
    said = reader.types_all([*guide.commands, *look])
    assert "a.example/x/N" in said["reprieve reviews list"]
    assert "wrong: " in said["reprieve reviews show 1"]
    assert [entry["event"] for entry in json.loads(said[look[0]])["history"]] == [
        "ask", "claim", "verify", "undo", "reject",
    ]  # fmt: skip
    assert [each["url_signature"] for each in json.loads(said[look[1]])] == ["a.example/x/N"]


def test_the_page_links_to_what_there_is(page):
    guide = page("docs/analysis.md")
    for path, anchor in guide.links:
        linked = page(f"docs/{path}") if path else guide
        assert not anchor or anchor in linked.anchors


def test_the_page_names_every_option_of_an_analysis(page):
    text = page("docs/analysis.md").text
    for name in AnalysisOptions.__annotations__.keys() - {"draw"}:  # for repeatable runs of tests
        assert f"| `{name}` |" in text, name
