"""The parser child: it answers for each file, and a file that takes too much is given up alone."""

import pytest

from reprieve.review.critic.parsing import ParserChild, kind_of


@pytest.fixture
def child():
    with ParserChild() as made:
        yield made


@pytest.mark.parametrize(
    ("kind", "text", "error"),
    [
        ("python", "x = (1\n", [1, "'(' was never closed"]),
        ("json", '{"a": 1,}', [1, "Expecting property name enclosed in double quotes"]),
        ("json-with-comments", '{\n  // one\n  "a": [1, 2,], /* two\n lines */ "b": "//no"\n}', None),
        ("json-with-comments", '{\n/* two\nlines */ "a" 1}', [3, "Expecting ':' delimiter"]),
        ("toml", "a = 1\nb = \n", [2, "Invalid value"]),
        ("yaml", "a: 1\nb: [1\nc: 2\n", [3, "did not find expected ',' or ']'"]),
        ("yaml", "a: &x !!python/object/apply:os.system [touch x]\nb: *x\n", None),
        ("yaml", "a: &x 1\n---\nb: *x\n", [3, "there is no anchor 'x'"]),
    ],
)
def test_a_text_is_parsed_and_an_error_has_its_line(child, kind, text, error):
    assert child.parse(kind, text)["error"] == error


def test_a_text_that_is_nested_too_deeply_is_given_up_and_the_child_goes_on(child):
    assert child.parse("json", "[" * 200_000).get("gave_up")
    assert child.parse("json", "[]") == {"error": None}


def test_a_text_that_takes_too_long_is_given_up_and_the_next_is_parsed_by_a_new_child():
    with ParserChild(timeout=0.0) as child:  # the first answer has the time that a start takes
        assert child.parse("json", "[]") == {"error": None}
        assert child.parse("python", "x = 1\n" * 50_000) == {"error": None, "gave_up": "parsing it took too long"}
        assert child.parse("json", "[]") == {"error": None}


def test_a_child_that_was_started_before_has_the_time_that_a_start_takes():
    with ParserChild(timeout=0.0) as child:
        child.start()
        assert child.parse("json", "[]") == {"error": None}


def test_the_time_for_all_files_together_is_limited():
    with ParserChild(budget=0.0) as child:
        assert child.parse("json", "[]") == {"error": None, "gave_up": "the time for parsing this change is used up"}


def test_a_text_over_one_megabyte_is_not_parsed(child):
    assert child.parse("json", " " * 1_000_001) == {"error": None, "gave_up": "it is larger than 1 MB"}


def test_a_bomb_of_references_takes_no_memory(child):
    bomb = (
        "a: &a [x, x]\n" + "b0: &b0 [*a, *a]\n" + "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 60))
    )
    assert child.parse("yaml", bomb)["error"] is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/b.py", "python"), ("a.json", "json"), ("tsconfig.base.json", "json-with-comments"),
        (".vscode/x.json", "json-with-comments"), ("a.YML", "yaml"), ("pyproject.toml", "toml"), ("a.go", None),
    ],
)  # fmt: skip
def test_a_file_is_parsed_by_its_name(path, kind):
    assert kind_of(path) == kind
