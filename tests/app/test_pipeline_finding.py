"""Pipelines are found by `module:object`; what is not found says why in one sentence."""

import sys

import pytest

from reprieve.app.pipeline.finding import load_pipelines
from reprieve.errors import UsageError

SOURCE = """
import reprieve

review = reprieve.Pipeline("review")
other = reprieve.Pipeline("other")
alias = review
both = [review, other]
named = {"a": review, "b": other}
twins = (review, reprieve.Pipeline("review"))
mixed = [review, "other"]
number = 5
empty = []


class Holder:
    inner = review
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder that is not on the path, as it is for an installed command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != ""])
    before = set(sys.modules)

    def write(name, source=SOURCE):
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        return name

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in sys.modules[name].__file__:
            del sys.modules[name]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (":review", {"review"}),
        (":both", {"review", "other"}),
        (":named", {"review", "other"}),
        (":Holder.inner", {"review"}),
        ("", {"review", "other"}),
        (":", {"review", "other"}),
    ],
)
def test_one_several_or_all_of_a_module_are_found(folder, path, names):
    name = folder("found_reviews")
    found = load_pipelines(f"{name}{path}")
    assert found.keys() == names
    assert all(pipeline.name == key for key, pipeline in found.items())


def test_a_module_of_a_package_is_found(folder):
    assert load_pipelines(f"{folder('found_package.inner')}:other").keys() == {"other"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "'' names no module: write module:object"),
        (":review", "names no module"),
        ("found_reviews:reveiw", r"found_reviews has no attribute 'reveiw' \(did you mean 'review'\?\)"),
        ("found_reviews:Holder.outer", "found_reviews.Holder has no attribute 'outer'"),
        ("found_reviews:number", "holds no pipeline: it is of type int"),
        ("found_reviews:empty", "holds no pipeline: it is of type list"),
        ("found_reviews:mixed", "holds a str, which is no pipeline"),
        ("found_reviews:twins", "holds two pipelines that are named 'review'"),
        (
            "found_nothing:review",
            "there is no module 'found_nothing' to import, neither installed nor in the current folder",
        ),
        ("found_reviews.inner:review", r"there is no module 'found_reviews.inner'"),
        ("found_reviews.py:review", "'found_reviews.py' is a file: name its module, as in found_reviews:review"),
        ("./folder/reviews.py", "is a file: name its module, as in folder.reviews:review"),
    ],
)
def test_what_is_not_there_is_said(folder, target, message):
    folder("found_reviews")
    with pytest.raises(UsageError, match=message):
        load_pipelines(target)


PLANTED = "://user:" + "pa55" + "word" + "@host/db"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import found_missing_library", "it imports 'found_missing_library', which is not installed"),
        ("import reprieve\nreprieve.Pipeline('a b')", "cannot be imported: UsageError: the name of a pipeline"),
        ("def broken(:\n", "cannot be imported: invalid syntax, in line 1 of found_broken.py"),
        ("raise SystemExit(3)", "it ends the program; put what it runs under"),
        ("raise RuntimeError", "cannot be imported: RuntimeError$"),
        (
            f"raise RuntimeError('no way to postgresql{PLANTED}')",
            "cannot be imported: RuntimeError: no way to postgresql",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(folder, source, message):
    with pytest.raises(UsageError, match=message) as caught:
        load_pipelines(f"{folder('found_broken', source)}:review")
    assert "pa55" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_without_pipelines_says_so(folder):
    with pytest.raises(UsageError, match="found_bare holds no pipeline: it is a module without one"):
        load_pipelines(folder("found_bare", "x = 1\n"))
