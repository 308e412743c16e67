"""Messages are kept byte for byte and parsed once."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from reprieve.errors import PayloadError, UsageError
from reprieve.streams.dead_letters import decode_dead_letter
from reprieve.streams.message import build_parser, decode_fields, encode_fields


class Task(BaseModel):
    project: str
    priority: int = 0


PAIRS = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), min_size=1, max_size=6)


@given(PAIRS)
@example([(b"a", b"1"), (b"a", b"2")])
@example([(b"b", b"\x00"), (b"a", b"\xff\xfe"), (b"", b"")])
@example([(b"a", b'{"base64": "x"}')])
@example([(b"big", b"x" * 1_000_000)])
@example([(b"surrogate", "\ud800".encode("utf-8", "surrogatepass"))])
@pytest.mark.spec("ORC-5.3")
def test_the_encoded_fields_decode_to_the_same_bytes_in_the_same_order(pairs):
    fields = [each for pair in pairs for each in pair]
    assert decode_fields(encode_fields(fields)) == fields


def test_the_usual_message_is_an_object_that_people_can_read():
    assert json.loads(encode_fields([b"project", "Größe".encode(), b"n", b"1"])) == {"project": "Größe", "n": "1"}


def test_json_inside_a_field_is_not_unwrapped():
    assert encode_fields([b"data", b'{"a":  1}']) == r'{"data":"{\"a\":  1}"}'


@pytest.mark.parametrize("text", ["[1]", "[[1, 2]]", '[["a", {"base64": "?"}]]', "nonsense", '[["a", {}]]'])
def test_text_that_is_no_original_message_is_refused(text):
    with pytest.raises(UsageError, match="no original_message"):
        decode_fields(text)


def test_the_fields_are_a_mapping_unless_a_field_holds_the_body():
    assert build_parser(Task, None)([b"project", b"x", b"priority", b"3"]) == Task(project="x", priority=3)
    assert build_parser(None, None)([b"project", b"x"]) == {"project": "x"}
    assert build_parser(Task, "data")([b"data", b'{"project":"x"}']) == Task(project="x")
    assert build_parser(Task, "data")([b"trace", b"1", b"data", b'{"project":"x"}']) == Task(project="x")
    assert build_parser(None, "data")([b"data", b"[1]"]) == [1]
    assert build_parser(list[int], "data")([b"data", b"[1]"]) == [1]


@pytest.mark.parametrize(
    ("model", "body", "fields", "error"),
    [
        (Task, None, [b"a", b"1"], ValidationError),
        (Task, "data", [b"data", b"{"], ValidationError),
        (Task, "data", [b"other", b"{}"], PayloadError),
        (Task, "data", [b"data", b"{}", b"data", b"{}"], PayloadError),
        (None, None, [b"a", b"1", b"a", b"2"], PayloadError),
        (None, None, [b"a", b"\xff"], PayloadError),
        (None, "data", [b"data", b"{"], ValueError),
    ],
)
def test_what_does_not_fit_is_refused_with_an_error(model, body, fields, error):
    with pytest.raises(error):
        build_parser(model, body)(fields)


def test_a_dead_letter_that_another_program_wrote_is_read_without_an_error():
    found = decode_dead_letter("q", b"1-0", [b"payload", b"\xff", b"error_context", b"[1"])
    assert (found.original, found.attempts, found.error, found.queue) == (None, 0, "", "q")
