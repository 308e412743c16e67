"""CODEOWNERS as it is documented: the last line that fits decides, also to own by nobody."""

import pytest

from reprieve import UsageError
from reprieve.review import patterns
from reprieve.review.diffs import is_generated, lines_of
from reprieve.review.owners import owners_of, owners_of_all, parse
from reprieve.review.patterns import Pattern
from reprieve.review.recipients import recipients_of, uri_of
from reprieve.senders import Maildir

LINES = parse(
    """# the documented example
*       @global-owner1 @global-owner2
*.js    @js-owner # trailing words
*.go docs@example.com
/build/logs/ @doctocat
docs/*  docs@example.com
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @octocat
/apps/github
with\\ space.txt @spacer
!*.py @nobody
[a-z]*.c @nobody
"""
)


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("README", ("@global-owner1", "@global-owner2")),
        ("src/a.js", ("@js-owner",)),
        ("src/a.go", ("docs@example.com",)),
        ("build/logs/deep/x", ("@octocat",)),
        ("docs/getting-started.md", ("@doctocat",)),
        ("docs/build-app/troubleshooting.md", ("@doctocat",)),
        ("deep/apps/x", ("@octocat",)),
        ("apps/github", ()),
        ("apps/github/x", ()),
        ("scripts/x.go", ("@doctocat", "@octocat")),
        ("with space.txt", ("@spacer",)),
        ("x.py", ("@global-owner1", "@global-owner2")),
        ("a.c", ("@global-owner1", "@global-owner2")),
    ],
)
def test_the_last_line_that_fits_a_path_says_whose_it_is(path, owners):
    assert owners_of(path, LINES) == owners


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("docs/*", ["docs/a.md"], ["docs/deep/a.md", "x/docs/a.md"]),
        ("*", ["a", "deep/a"], []),
        ("/*.md", ["a.md"], ["deep/a.md"]),
        ("a/**/b", ["a/b", "a/x/y/b", "a/b/c"], ["x/a/b"]),
        ("/a/**", ["a/x", "a/x/y"], ["a", "b/a/x"]),
        ("a?c", ["abc", "x/abc"], ["a/c", "ac"]),
        ("/", [], ["a"]),
        ("a.b+c", ["a.b+c"], ["aXb+c", "a.bbc"]),
    ],
)
def test_patterns_fit_what_they_are_documented_to_fit(pattern, fits, not_):
    assert [path for path in fits + not_ if Pattern(pattern).fits(path)] == fits


@pytest.mark.timeout(20)
def test_a_hostile_pattern_takes_no_longer_than_another():
    assert not Pattern("*a" * 200 + "b").fits("a" * 5000)


def test_a_long_file_is_compiled_once_whatever_the_number_of_paths(monkeypatch):
    compiled, real = [], patterns.re2.compile
    monkeypatch.setattr(patterns.re2, "compile", lambda text: compiled.append(text) or real(text))
    lines = parse("\n".join(f"/d{number}/*.x @a{number}" for number in range(5000)))
    assert owners_of_all(["d7/a.x", *[f"src/{number}.py" for number in range(9)]], lines) == ("@a7",)
    assert len(compiled) == 5000
    compiled.clear()
    attributes = lines_of("\n".join(f"/d{number}/*.x linguist-generated" for number in range(5000)))
    assert [is_generated(path, attributes) for path in ("d7/a.x", "b.x", "c.x", "yarn.lock")] == [
        True,
        False,
        False,
        True,
    ]
    assert len(compiled) <= 5000


def test_owners_of_very_many_files_are_looked_up_for_as_many_as_can_be_read():
    lines = parse("*.py @ada\n/last.py @bo\n")
    assert owners_of_all([*[f"{number}.py" for number in range(100_000)], "last.py"], lines) == ("@ada",)


def test_owners_come_once_in_the_order_of_the_files():
    assert owners_of_all(["a.js", "b.js", "x.go"], LINES) == ("@js-owner", "docs@example.com")


def test_people_are_reached_as_the_settings_say(tmp_path):
    mail = Maildir(tmp_path)
    routes = {"mailto": mail, "maildir": mail}
    people = {"@ada": "Ada@Example.org", "shop/pay": "maildir:pay"}
    concerned = [
        "@ada",
        "@shop/pay",
        "@nobody",
        "bo@example.org",
        "ada@example.org",
        "bo@example.org\nBcc: x@y",
        "root",
        "slack:C1",
    ]
    found = recipients_of(["maildir:archive"], concerned, people=people, routes=routes)
    assert found.told == ("maildir:archive", "mailto:ada@example.org", "maildir:pay", "mailto:bo@example.org")
    assert found.unknown == 4
    assert uri_of("@nobody", people) is None
    with pytest.raises(UsageError, match="nobody is set up to reach slack"):
        recipients_of(["slack:C1"], [], people={}, routes=routes)
    with pytest.raises(UsageError, match="nobody knows how to reach"):
        recipients_of(["@nobody"], [], people={}, routes=routes)
