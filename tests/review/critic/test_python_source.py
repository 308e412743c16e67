"""What the critic reads of a Python file."""

import ast
import sys
from textwrap import dedent

import pytest

from reprieve.review.critic.parsing import ParserChild
from reprieve.review.critic.python_scopes import children_of
from reprieve.review.critic.python_source import read_python


def read(text):
    return read_python(dedent(text))


def uses(text, kind):
    return [use[1] for use in read(text)["uses"] if use[0] == kind]


def test_the_parser_child_reads_python():
    with ParserChild() as child:
        answer = child.parse("python", "from a import b\n\nb(1)\n")
    assert answer["error"] is None
    assert answer["uses"] == [["imported", "a.b", 3, False, [1, []]]]


EVERYTHING = """
import a.b as c
from . import d as e, f
@g.h(1, *i, j=2, **k)
async def l(m: int, /, n=3, *o, p: str = "", **q) -> r:
    global s
    async with t(u) as (v, w): await x
    async for y in z[1:2, ...]: yield f"{y!r:>{n}}"
    return not m < n <= 4 and (m if n else lambda: (yield))
class A(B, metaclass=C):
    aa: int = -1
    bb += {**cc, "dd": [ee for ee in ff if ee for gg in ee]}
try: del hh, ii.jj
except* (KK, LL) as mm: raise nn from oo
else: assert pp, {qq async for qq in rr}
finally: ss = tt = (uu := 1) @ 2
match vv:
    case {"ww": [xx, *yy], **zz} | Ab(ac, ad=ae) as af if ag: pass
    case None | -1: nonlocal_ = ah or ai
while aj: continue
"""


def test_the_children_of_a_node_are_those_that_python_lists_without_operators_and_contexts():
    plain = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
    newer = "type AK[AL] = am\n" if sys.version_info >= (3, 12) else ""
    for node in ast.walk(ast.parse(EVERYTHING + newer)):
        assert children_of(node) == [each for each in ast.iter_child_nodes(node) if not isinstance(each, plain)]


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb = = 2\n", 2), ("a = '\0'\n", 1)])
def test_a_text_that_does_not_parse_gives_the_line_of_the_error(text, line):
    assert read_python(text)["error"][0] == line


def test_a_byte_order_mark_is_no_error():
    assert "error" not in read_python("\ufeffa = 1\n")


def test_definitions_are_what_the_module_binds_without_a_condition():
    found = read(
        """
        import os
        LIMIT = 3
        first, second = 1, 2
        kept: int = 4
        def run(): ...
        class Job: ...
        if LIMIT:
            conditional = 1
        """
    )
    kinds = {name: each["kind"] for name, each in found["definitions"].items()}
    assert kinds == {
        "os": "import", "LIMIT": "constant", "first": "constant", "second": "constant", "kept": "constant",
        "run": "function", "Job": "class",
    }  # fmt: skip
    assert "conditional" in found["bound"]


def test_parameters_keep_their_kind_and_whether_they_are_optional():
    found = read("def run(a, /, b, c=1, *rest, d, e=2, **others): ...")
    assert found["definitions"]["run"]["parameters"] == [
        ["a", "positional", False],
        ["b", "any", False],
        ["c", "any", True],
        ["rest", "positionals", True],
        ["d", "keyword", False],
        ["e", "keyword", True],
        ["others", "keywords", True],
    ]


@pytest.mark.parametrize(
    ("decorator", "is_plain"),
    [("", True), ("@functools.lru_cache(maxsize=3)", True), ("@app.task", False), ("@decorators[0]", False)],
)
def test_only_decorators_that_keep_parameters_are_plain(decorator, is_plain):
    assert read(f"{decorator}\ndef run(): return 1")["definitions"]["run"]["is_plain"] is is_plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b\na.b.c()", "a.b.c"),
        ("import a.b as m\nm.c()", "a.b.c"),
        ("from a import b as m\nm.c", "a.b.c"),
        ("from . import b\nb.c", ".b.c"),
        ("from ..a import b\nb.c", "..a.b.c"),
        ("def f():\n    from a import b\n    return b", "a.b"),
        ("import a\ndef f():\n    return [a.b for x in y]", "a.b"),
        ("import a\nclass C:\n    a = 1\n    def f(self):\n        return a.b", "a.b"),
    ],
)
def test_a_use_carries_the_path_that_its_import_gives(text, expected):
    assert expected in uses(text, "imported")


@pytest.mark.parametrize(
    "text",
    [
        "from a import b\ndef f(b):\n    return b.c",
        "from a import b\ndef f():\n    b = 1\n    return b.c",
        "from a import b\nx = [b.c for b in y]",
        "from a import b\nx = lambda b: b.c",
        "from a import b\ndef f():\n    for b in y:\n        b.c",
        "try:\n    from a import b\nexcept KeyError:\n    b = None\nb.c",
    ],
)
def test_a_local_name_hides_an_import(text):
    assert "a.b.c" not in uses(text, "imported")


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import a\nexcept ImportError:\n    pass",
        "try:\n    import a\nexcept Exception:\n    pass",
        "with suppress(ImportError):\n    import a",
        "with pytest.raises(ImportError):\n    import a",
        "if sys.version_info > (3, 11):\n    import a",
    ],
)
def test_an_import_that_may_fail_is_guarded(text):
    guarded = {each[1]: each[3] for each in read(text)["imports"]}
    assert guarded["a"] is True


@pytest.mark.parametrize("text", ["import a", "try:\n    import a\nexcept KeyError:\n    pass"])
def test_another_import_is_not_guarded(text):
    assert read(text)["imports"][0][3] is False


@pytest.mark.parametrize("text", ["f(*a)", "f(**a)"])
def test_a_call_with_unpacked_arguments_has_no_count(text):
    assert read(f"def f(): ...\n{text}")["uses"][-1][4] is None


@pytest.mark.parametrize(
    "text",
    ["from a import *", "def __getattr__(name): ...", "globals()['a'] = 1", "__getattr__, x = attach()"],
)
def test_a_module_that_may_have_other_names_is_dynamic(text):
    assert read(text)["is_dynamic"]


def test_a_deeply_nested_file_is_read():
    text = f"import a\nx = {'+'.join(['a.b'] * 2000)}\n"
    with ParserChild() as child:
        assert child.parse("python", text).get("gave_up") in {None, "it is nested too deeply"}
        assert child.parse("python", "import a")["imports"]
