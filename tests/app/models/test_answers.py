"""The form that an answer has to have: what is taken, what is refused and why, for types and for JSON Schemas."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from reprieve.app.answers import AnswerSchema, UnfitError
from reprieve.errors import UsageError


class Finding(BaseModel):
    line: int = Field(ge=1)
    severity: Literal["low", "high"]
    score: float = 0.0


SCHEMA = {
    "type": "object",
    "properties": {"line": {"type": "integer", "minimum": 1}, "severity": {"enum": ["low", "high"]}},
    "required": ["line", "severity"],
}
GOOD = '{"line": 3, "severity": "low"}'
BOTH = pytest.mark.parametrize("schema", [Finding, SCHEMA], ids=["type", "schema"])


def plain(value):
    value = value.model_dump(exclude_defaults=True) if isinstance(value, BaseModel) else value
    return json.dumps(value, sort_keys=True)


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"Sure! Here you are:\n\n```\n{GOOD}\n```\nAnything else?",
        f"The answer is {GOOD}, I think [1].",
        f"{GOOD}\n{GOOD}",
        f"```python\nprint(1)\n```\n{GOOD}",
    ],
)
def test_the_one_value_that_fits_is_taken_from_wherever_it_stands(schema, text):
    assert plain(AnswerSchema.of(schema).read(text)) == plain(json.loads(GOOD))


OTHER = '{"line": 9, "severity": "high"}'


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        f"<think>maybe {OTHER}</think>{GOOD}",
        f"<thinking>\n```json\n{OTHER}\n```\n</thinking>\n\n```json\n{GOOD}\n```",
        f"<Reasoning>{OTHER}</Reasoning> The answer is {GOOD}.",
        f"maybe {OTHER}, or not\n</think>\n\n{GOOD}",
        f"{OTHER}</think>no: {OTHER}</think>{GOOD}",
        f"<think>a<think>b</think> {OTHER} </think>{GOOD}",
        f"<think>{OTHER}</think>{GOOD}<think>or rather {OTHER}",
        f'<think>{{ and [ and "</think>{GOOD}',
        f"<think>the tag </think> ends it: {OTHER}</think>{GOOD}",
    ],
)
def test_what_a_model_thinks_aloud_is_not_its_answer(schema, text):
    assert plain(AnswerSchema.of(schema).read(text)) == plain(json.loads(GOOD))


@BOTH
@pytest.mark.parametrize("text", [f"<think>maybe {GOOD}", f"<think>{GOOD}</think>", f"{GOOD}</think> I do not know."])
def test_a_thought_without_an_answer_is_an_answer_without_json(schema, text):
    with pytest.raises(UnfitError) as caught:
        AnswerSchema.of(schema).read(text)
    assert [(problem.kind, problem.message) for problem in caught.value.problems] == [
        ("json_invalid", "there is no JSON in it")
    ]


@pytest.mark.parametrize("comment", ["it strips <think>", "it strips </think>", "from <think> to </think>", "</think>"])
@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Here: {}", "<think>hm</think>{}", "hm</think>Here: {}"])
def test_a_value_may_speak_of_the_tags(comment, around):
    value = {"comment": comment}
    assert AnswerSchema.of(dict[str, str]).read(around.format(json.dumps(value))) == value


@BOTH
def test_of_a_key_that_stands_twice_in_an_object_the_last_counts(schema):
    found = AnswerSchema.of(schema).read('{"line": 9, "line": 3, "severity": "high", "severity": "low"}')
    assert plain(found) == plain(json.loads(GOOD))


def test_after_a_thought_anything_may_follow_that_is_json_and_what_is_wrong_with_it_is_told():
    assert AnswerSchema.of(bool).read("<think>hm</think> true") is True
    with pytest.raises(UnfitError, match="literal_error"):
        AnswerSchema.of(Finding).read('<think>hm</think>{"line": 3, "severity": "none"}')
    with pytest.raises(UnfitError) as caught:
        AnswerSchema.of(Finding).read('<think>hm</think>{"line": 3')
    assert "EOF" in caught.value.problems[0].message


@BOTH
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "json_invalid"),
        ("I cannot.", "json_invalid"),
        ('{"line": 3, "severity"', "json_invalid"),
        ('{"line": 3, "severity": "low", "score": NaN}', "json_invalid"),
        ('{"line": Infinity, "severity": "low"}', "json_invalid"),
        (f'{GOOD} or {{"line": 4, "severity": "low"}}', "ambiguous"),
        ("[" * 100_000, "json_invalid"),
        ("[" * 100_000 + "]" * 100_000, "json_invalid"),
        ('{"line": ' + "9" * 5000 + ', "severity": 1}', None),
        ('{"line": 3, "severity": "\\ud800"}', "json_invalid"),
        ('{"line": 3, "severity": "\ud800"}', "not_text"),
        ("[" + '"x",' * 50_000 + "1]", None),
        ("{}" * 50_000, None),
    ],
)
def test_what_is_no_one_value_that_fits_is_refused_with_the_reason(schema, text, kind):
    with pytest.raises(UnfitError) as caught:
        AnswerSchema.of(schema).read(text)
    assert caught.value.problems
    assert kind is None or caught.value.problems[0].kind == kind


@given(st.text(alphabet='{}[]"\\`\n ,:-.0123456789eE+truefalsnlNaIity', max_size=120))
def test_no_text_is_taken_that_does_not_fit_and_none_breaks_the_reader(text):
    for schema in (Finding, SCHEMA, {"type": "array", "items": {"type": "integer"}}, list[int], int):
        try:
            value = AnswerSchema.of(schema).read(text)
        except UnfitError as error:
            assert error.problems
        else:
            AnswerSchema.of(schema).check(value.model_dump() if isinstance(value, BaseModel) else value)


@given(
    st.integers(1, 10**6), st.sampled_from(["low", "high"]), st.text(alphabet=st.characters(exclude_characters="{}[]`"))
)
def test_what_fits_is_taken_whatever_is_said_around_it(line, severity, chatter):
    wanted = {"line": line, "severity": severity}
    text = f"{chatter}\n{json.dumps(wanted)}\n{chatter}"
    for schema in (Finding, SCHEMA):
        assert plain(AnswerSchema.of(schema).read(text)) == plain(wanted)


@BOTH
def test_what_a_person_says_is_checked_alike(schema):
    form = AnswerSchema.of(schema)
    assert plain(form.check({"line": 3, "severity": "low"})) == plain(json.loads(GOOD))
    with pytest.raises(UnfitError) as caught:
        form.check({"line": 0, "severity": "low"})
    assert "at line: " in caught.value.problems[0].told
    with pytest.raises(UnfitError, match="json_invalid"):
        form.check({"line": float("nan"), "severity": {1, 2}})


def test_the_errors_of_a_union_and_of_a_list_say_where():
    form = AnswerSchema.of(list[Annotated[Finding, Field()]])
    with pytest.raises(UnfitError) as caught:
        form.read('[{"line": 1, "severity": "low"}, {"line": "x", "severity": "no"}]')
    assert [problem.path for problem in caught.value.problems] == [(1, "line"), (1, "severity")]
    assert 'not "no"' in caught.value.problems[1].told


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, "not a JSON Schema, at type"),
        ({"$ref": "https://example.invalid/schema.json"}, "which is never fetched"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "which is never fetched"),
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "which it does not have"),
        ({"$ref": "#"}, "refers to itself without end"),
    ],
)
def test_a_schema_that_cannot_be_checked_against_is_refused_before_anybody_is_asked(schema, words):
    with pytest.raises(UsageError, match=words):
        AnswerSchema.of(schema)


def test_a_schema_may_refer_to_itself_and_hold_references_as_values():
    tree = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "$ref": "#/$defs/node",
        "examples": [{"$ref": "https://example.invalid/not-a-reference"}],
    }
    deep = '{"next": ' * 190 + "{}" + "}" * 190
    form = AnswerSchema.of(tree)
    assert form.read('{"next": {"next": {}}}') == {"next": {"next": {}}}
    try:
        form.read(deep)
    except UnfitError as error:
        assert error.problems[0].kind == "too_deep"


def test_a_type_that_has_no_form_in_json_is_refused():
    class Opaque:
        pass

    with pytest.raises(UsageError, match="no answer can have the form"):
        AnswerSchema.of(Opaque)


def test_the_same_schema_has_the_same_key_whatever_the_order_of_its_parts():
    turned = {name: SCHEMA[name] for name in reversed(SCHEMA)}
    assert AnswerSchema.of(SCHEMA).key == AnswerSchema.of(turned).key
    assert AnswerSchema.of(TypeAdapter(Finding)).key == AnswerSchema.of(Finding).key
    form = AnswerSchema.of(Finding)
    assert AnswerSchema.of(form) is form


@pytest.mark.spec("LLM-1.5")
@pytest.mark.parametrize("text", ['{"n": "5", "b": true}', '{"n": 5, "b": "yes"}'])
def test_what_the_schema_that_was_told_does_not_allow_is_not_taken_for_something_near(text):
    class Counted(BaseModel):
        n: int
        b: bool

    with pytest.raises(UnfitError):
        AnswerSchema.of(Counted).read(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"rejected": {"kind": "article"}, "kind": "product"',
        '{"kind": "product", "instead_of": {"kind": "article"}',
        '[{"kind": "article"}, {"kind": "prod',
        'not {"kind": "article"} but {"kind": "product"',
        '{"kind": [{"kind": "article"}}',
        'An example would be {"kind": "article"}, but:\n```json\n{"kind": "product"}\n```',
        'For example:\n```json\n{"kind": "article"}\n```\nMy answer is {"kind": "product"}',
    ],
)
@pytest.mark.spec("LLM-4.1")
def test_a_part_of_an_answer_that_broke_off_or_one_of_two_is_not_taken_for_the_answer(text):
    schema = {"type": "object", "properties": {"kind": {"enum": ["article", "product"]}}, "required": ["kind"]}
    with pytest.raises(UnfitError):
        AnswerSchema.of(schema).read(text)


@pytest.mark.parametrize(
    "text",
    [
        'A set is written {a, b}. My answer: {"kind": "article"}',
        '{"kind": "article"} (see [1] and :-{ for that)',
        '```json\n{"kind": "article"}\n```\nThat is {"kind": "article"}.',
        'See [the page](x), then {"kind": "article"}',
    ],
)
def test_brackets_of_prose_do_not_hide_the_answer(text):
    schema = {"type": "object", "properties": {"kind": {"enum": ["article", "product"]}}, "required": ["kind"]}
    assert AnswerSchema.of(schema).read(text) == {"kind": "article"}


def test_a_format_is_part_of_the_form_for_people_as_for_models():
    form = AnswerSchema.of({"type": "object", "properties": {"on": {"type": "string", "format": "date"}}})
    assert form.read('{"on": "2024-02-29"}') == {"on": "2024-02-29"}
    with pytest.raises(UnfitError, match="format"):
        form.check({"on": "tomorrow"})
