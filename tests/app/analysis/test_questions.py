"""The places of a prompt: two are replaced, one that is nearly one of them is a mistake, and all else is the prompt's own."""

import pytest

from reprieve.app.analysis.questions import Question
from reprieve.errors import UsageError

KIND = {"type": "object", "properties": {"kind": {"type": "string"}}}


@pytest.mark.parametrize(
    ("place", "meant"),
    [("{sampels}", "samples"), ("{Signature}", "signature"), ("{sample}", "samples"), ("{ samples }", "samples")],
)
def test_a_place_that_is_spelled_wrong_is_refused_before_anybody_is_asked(place, meant):
    with pytest.raises(UsageError, match=f"the prompt has {place}: {{{meant}}} is what is replaced"):
        Question(f"Which kind is {{signature}}? {place}", KIND)


@pytest.mark.parametrize("braces", ["{}", "{kind}", '{"samples": 1}', "{url}", "{simple}", "{example}", "{a" * 1000])
def test_other_braces_of_a_prompt_stay_as_they_are(braces):
    (turn,) = Question(f"Fill in {braces}", KIND).about("s", ["one", "two"]).turns
    assert turn.text == f"Fill in {braces}\n\none\ntwo"
