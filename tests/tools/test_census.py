"""The census counts what it says, and nothing beside it."""

import ast
import json
from pathlib import Path

import pytest

import reprieve

PACKAGES = dict.fromkeys(["pkg/__init__.py", "pkg/core/__init__.py", "pkg/core/a.py", "b/__init__.py"], "")
STATEMENTS = '''\
"""A docstring is no statement."""
LIMIT = 1
"""A bare string after a name is none either."""
def outer():
    """Nor is this."""
    if LIMIT:
        return [x for x in ()]
    ...
'''
IMPORTERS = {
    "pkg/__init__.py": "from pkg.core import two_importers",
    "pkg/core/__init__.py": "import pkg.part",
    "pkg/part/__init__.py": "",
    "pkg/core/one_importer.py": "",
    "pkg/core/relative.py": "",
    "pkg/core/typing_only.py": "",
    "pkg/core/two_importers.py": "from . import relative",
    "pkg/core/by_name.py": "import pkg.core.one_importer\nimport pkg.core.by_name",
    "pkg/app.py": "import pkg.core.two_importers\nif TYPE_CHECKING:\n    from pkg.core.typing_only import a",
}
REPEATED = {
    "pkg/__init__.py": "class Once: ...",
    "pkg/core/a.py": "class Twice: ...\nclass _Private: ...",
    "pkg/app/b.py": "def f():\n    class Twice: ...\nclass _Private: ...",
    "pkg/app/c.py": "class Three: ...\nclass Three: ...\nclass Twice: ...",
}
COMMENTS = {
    "pkg/__init__.py": (
        "a = 1  # noqa: E501, S608 - why\nb = 2  # noqa: S6080\nc = 3  # fmt: skip\nd = '# noqa: S608'"
    ),
    "pkg/core/a.py": "e = 1  # noqa\nf = '# fmt: skip'\n# nothing of the kind",
}
CASES = {
    "modules": (PACKAGES, {"pkg": 1, "pkg.core": 2, "b": 1}),
    "lines": ({"pkg/__init__.py": "a = 1\n\nb = 2\n", "pkg/core/a.py": "a = 1"}, {"pkg": 3, "pkg.core": 1}),
    "statements": ({"pkg/__init__.py": STATEMENTS, "pkg/a/b.py": "a = 1; b = 2"}, {"pkg": 5, "pkg.a": 2}),
    "functions": (
        {"pkg/__init__.py": "class A:\n    async def f(self):\n        def g(): ...\nh = lambda: 1"},
        {"pkg": 2},
    ),
    "one_importer": (IMPORTERS, {"pkg.core": 3}),
    "repeated_classes": (REPEATED, {"pkg.core": 1, "pkg.app": 2}),
    "noqa": (COMMENTS, {"pkg": 2, "pkg.core": 1}),
    "noqa_s608": (COMMENTS, {"pkg": 1}),
    "fmt_skip": (COMMENTS, {"pkg": 1}),
    "public_names": (
        {"pkg/__init__.py": "__all__ = ['a', 'b']", "pkg/core/__init__.py": "__all__ = ['c']"},
        {"pkg": 2},
    ),
    "long_lines": ({"pkg/__init__.py": f"#{'x' * 109}\n#{'x' * 110}"}, {"pkg": 1}),
    "long_files": ({"pkg/__init__.py": "\n" * 900, "pkg/core/a.py": "\n" * 901}, {"pkg.core": 1}),
}


def figures_of(census, root):
    return {each.name: each for each in census.measure(root)}


@pytest.mark.parametrize("name", CASES)
def test_a_figure_counts_what_it_says_in_each_room(name, census, tree):
    files, expected = CASES[name]
    assert figures_of(census, tree(files))[name].rooms == expected


def test_every_figure_has_a_case(census):
    assert CASES.keys() == census.COUNTS.keys()


def test_a_total_is_the_sum_of_the_rooms(census, tree):
    assert figures_of(census, tree(PACKAGES))["modules"].total == 4


def test_a_class_name_in_two_rooms_counts_once_in_the_total(census, tree):
    repeated = figures_of(census, tree(REPEATED))["repeated_classes"]
    assert repeated.total == 2
    assert repeated.labels == ["Three: pkg.app.c, pkg.app.c", "Twice: pkg.app.b, pkg.app.c, pkg.core.a"]


def test_a_module_with_one_importer_is_listed_with_it(census, tree):
    assert figures_of(census, tree(IMPORTERS))["one_importer"].labels == [
        "pkg.core.one_importer <- pkg.core.by_name",
        "pkg.core.relative <- pkg.core.two_importers",
        "pkg.core.typing_only <- pkg.app",
    ]


def test_lazy_names_without_a_literal_all_are_those_imported_for_type_checkers(census, tree):
    text = "if TYPE_CHECKING:\n    from pkg.a import a, b as c\n__all__ = sorted(HOMES)\nfrom pkg.a import d"
    assert figures_of(census, tree({"pkg/__init__.py": text}))["public_names"].labels == ["pkg.a", "pkg.c"]


def test_the_public_names_of_reprieve_are_found(census):
    assert census.public_names(ast.parse(Path(reprieve.__file__).read_text())) == reprieve.__all__


def test_json_has_totals_rooms_and_the_lists_that_are_wanted(census, tree, capsys):
    assert census.main(["--root", str(tree(REPEATED)), "--json", "--lists", "modules"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total"]["modules"] == 4
    assert found["rooms"]["pkg.app"]["modules"] == 2
    assert found["rooms"]["pkg"]["repeated_classes"] == 0
    assert found["lists"] == {"modules": ["pkg", "pkg.app.b", "pkg.app.c", "pkg.core.a"]}


def test_the_table_has_a_row_for_each_room_and_the_lists_below_it(census, tree, capsys):
    assert census.main(["--root", str(tree(COMMENTS)), "--lists"]) == 0
    table, *lists = capsys.readouterr().out.split("\n\n")
    assert [line.split()[0] for line in table.splitlines()] == ["modules", "pkg", "pkg.core", "total"]
    assert "fmt_skip: 1\n  pkg/__init__.py:3 # fmt: skip" in lists


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--root", "no/such/folder"], "no/such/folder is not a folder"),
        (["--root", str(Path(__file__).parents[2])], "is a whole checkout: give the folder of its packages"),
        (["--root", str(Path(__file__).parents[2] / "requirements")], "holds no Python packages"),
        (["--lists", "beauty"], "there is no figure 'beauty'"),
    ],
)
def test_a_mistake_is_refused_with_what_would_be_right(arguments, why, census, capsys):
    with pytest.raises(SystemExit) as end:
        census.main(arguments)
    assert end.value.code == 2
    assert why in capsys.readouterr().err
