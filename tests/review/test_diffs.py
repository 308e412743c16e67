"""What of a diff is looked at: no binary, generated or overlong files, which are counted."""

import pytest

import reprieve
from reprieve.review.diffs import LeftOut, Limits, is_generated, lines_of, parse


def diff(path, *lines, start=1):
    body = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -{start},0 +{start},{len(lines)} @@\n{body}"


def test_files_have_their_paths_texts_and_the_lines_that_a_finding_may_point_at():
    (file,) = parse(diff("shop/a.py", "one", "two", start=10)).files
    assert (file.path, file.spans, file.added, file.removed) == ("shop/a.py", ((10, 11),), 2, 0)
    assert [line for line in range(8, 14) if file.covers(line)] == [10, 11]
    assert file.text.startswith("@@ -10,0 +10,2 @@")


def test_what_machines_wrote_is_counted_and_left_out():
    text = "".join(
        diff(path, "x")
        for path in (
            "a.py",
            "web/package-lock.json",
            "static/app.min.js",
            "vendor/lib/x.go",
            "made/schema.py",
            "deep/node_modules/y.js",
        )
    )
    text += "diff --git a/x.png b/x.png\nindex 1..2 100644\nBinary files a/x.png and b/x.png differ\n"
    found = parse(text, attributes="made/* linguist-generated=true\n")
    assert [file.path for file in found.files] == ["a.py"]
    assert found.left_out == LeftOut(binary=1, generated=5)
    assert len(found.paths) == 7


def test_the_last_line_of_gitattributes_decides_over_the_name():
    lines = lines_of(
        "*.py linguist-generated\nkept.py -linguist-generated\nuv.lock linguist-generated=false\n# *.c linguist-generated\n"
    )
    assert [is_generated(path, lines) for path in ("a.py", "kept.py", "uv.lock", "x.c", "go.sum")] == [
        True,
        False,
        False,
        False,
        True,
    ]


def test_overlong_files_and_those_beyond_the_limit_are_left_out_and_an_overlong_diff_is_refused():
    text = diff("long.py", "x" * 2000) + diff("a.py", "1") + diff("b.py", "2")
    assert parse(text, limits=Limits(file_bytes=1000, files=1)).left_out == LeftOut(too_large=1, beyond=1)
    with pytest.raises(reprieve.Permanent) as caught:
        parse(text, limits=Limits(diff_bytes=1000))
    assert caught.value.error_class == "PAYLOAD_TOO_LARGE"


def test_what_is_no_diff_is_refused_without_quoting_it():
    with pytest.raises(reprieve.Permanent) as caught:
        parse("--- a\n+++ b\n@@ -1,5 +1,5 @@\n secret\n")
    assert "secret" not in str(caught.value)
