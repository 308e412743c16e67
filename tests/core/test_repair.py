"""JSON out of an answer, and the words that ask to mend it."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.repair import Problem, compact, echo, json_texts, request, shortened, told, without_thoughts

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
containers = st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=8), values, max_size=4)
prose = st.text(alphabet=st.characters(exclude_characters="{}[]`"), max_size=60).map(lambda text: text + "\n")
TAGS = ("<think>", "</think>", "{</think>}", "<think></think>")
hostile = st.text(alphabet='{}[]"\\`\n ,:a1', max_size=200)


@given(prose, containers, prose, st.booleans())
def test_a_value_among_prose_is_found_whole(before, value, after, indented):
    text = json.dumps(value, indent=2 if indented else None)
    _, bracketed = json_texts(before + text + "\n" + after)
    assert bracketed == [text]


@given(prose, values, st.sampled_from(["json", "", "JSON"]))
def test_a_value_in_a_fence_is_found_whole(before, value, language):
    text = json.dumps(value)
    if "```" in text:
        return
    fenced, _ = json_texts(f"{before}```{language}\n{text}\n```\nHope that helps!")
    assert fenced == [text]


@given(containers)
def test_a_value_that_holds_fences_itself_is_found_by_its_brackets(value):
    text = json.dumps({"comment": "use ```x``` here", "value": value})
    _, bracketed = json_texts(f"```json\n{text}\n```")
    assert bracketed == [text]


@given(hostile)
def test_whatever_the_text_is_its_parts_are_of_it_and_do_not_overlap(text):
    for parts in json_texts(text):
        at = 0
        for part in parts:
            at = text.index(part, at) + len(part)
    _, bracketed = json_texts(text)
    assert all(part[0] + part[-1] in {"{}", "[]"} for part in bracketed)


@given(st.lists(containers, min_size=2, max_size=5))
def test_several_values_are_found_one_by_one(several):
    texts = [json.dumps(each) for each in several]
    assert json_texts(" and ".join(texts))[1] == texts


def test_a_bracket_in_prose_that_never_closes_hides_nothing():
    assert json_texts('use { and [ as you like: {"a": "}"} done')[1] == ['{"a": "}"}']


def test_a_quote_that_is_left_open_does_not_swallow_the_rest():
    assert json_texts('{"a": "broken\n} then {"b": 1}')[1][-1] == '{"b": 1}'


@pytest.mark.parametrize("piece", ["{", "[", "{}", "[]", '{"', '"', "}", '{"a":', "`" * 3, "[[", "\\", *TAGS])
def test_the_work_grows_with_the_length_alone(piece):
    """Counted in steps of the interpreter, not in time, which a busy machine stretches."""

    def steps(length):
        count = 0

        def step(frame, event, argument):
            nonlocal count
            count += 1
            return step

        before = sys.gettrace()
        sys.settrace(step)
        try:
            json_texts(without_thoughts(piece * (length // len(piece))))
        finally:
            sys.settrace(before)
        return count

    assert steps(8000) < 4 * 2 * steps(1000) + 1000


def test_of_very_many_parts_only_the_largest_are_tried():
    _, bracketed = json_texts("[] " * 5000 + '{"a": 1}')
    assert len(bracketed) == 16
    assert '{"a": 1}' in bracketed


@given(st.text(max_size=400), st.integers(10, 100))
def test_what_is_shortened_is_short_and_keeps_both_ends(text, longest):
    short = shortened(text, longest)
    assert len(short) <= longest
    assert short == text or (text.startswith(short.split("...")[0][:1]) and short[-1] == text[-1])


def test_problems_are_told_one_a_line_and_not_without_end():
    problems = [Problem("missing", "Field required", ("items", number, "name")) for number in range(20)]
    lines = told(problems)
    assert lines[0] == "at items.0.name: Field required"
    assert lines[-1] == "and 12 more"
    assert len(lines) == 9
    assert max(map(len, told([Problem("long", "x" * 10_000)]))) == 300


@pytest.mark.spec("LLM-4.2")
@given(st.lists(values, max_size=3), st.dictionaries(st.text(max_size=8), values, max_size=3))
def test_the_request_to_mend_carries_samples_schema_and_error(samples, schema):
    words = request([Problem("missing", "Field required", ("name",))], schema, samples)
    assert "- at name: Field required\n" in words
    assert words.endswith(compact(schema))
    for sample in samples:
        assert (sample if isinstance(sample, str) else compact(sample)) in words


def test_an_answer_is_shown_again_as_it_was_unless_it_is_empty_or_huge():
    assert echo('{"a": 1}') == '{"a": 1}'
    assert echo(" \n") == "(an empty answer)"
    assert len(echo("x" * 1_000_000)) == 20_000
