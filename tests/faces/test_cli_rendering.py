"""Times and texts as people read them."""

import pytest

from reprieve.faces.cli.rendering import count, length, plain, when


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.25, "250 ms"), (1, "1 s"), (119, "119 s"), (120, "2 min"), (3599, "60 min"), (7200, "2 h"),
     (86400, "24 h"), (172_800, "2 d"), (-90, "90 s")],
)  # fmt: skip
def test_a_length_of_time_is_a_number_and_a_unit(seconds, text):
    assert length(seconds) == text


def test_a_moment_is_told_absolutely_and_relatively(monkeypatch):
    moment = 1_700_000_000.0
    past = when(moment, moment + 300)
    assert past.startswith("2023-11-1")
    assert past.endswith("(5 min ago)")
    assert when(moment + 300, moment).endswith("(in 5 min)")
    assert when(None, moment) == ""


def test_numbers_have_their_nouns():
    assert [count(number, "job") for number in (0, 1, 1000)] == ["0 jobs", "1 job", "1,000 jobs"]


def test_what_a_terminal_would_obey_is_left_out():
    assert plain("a\x1b[31mb\r\nc\u202ed\x85e") == "a [31mb  c d e"
