"""What is asked of every signature: a prompt with its places, a schema, and the version that both make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from reprieve.app.answers import AnswerSchema, UnfitError
from reprieve.core import repair
from reprieve.core.analysis import question_of
from reprieve.errors import UsageError
from reprieve.ports.modelling import Prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_PLACES: Final = re.compile(r"\{(signature|samples)\}")
_LIKE_PLACES: Final = re.compile(r"\{([\w ]{1,40})\}")
_NEAR: Final = 0.8
_LONGEST_SIGNATURE: Final = 2000
"""Bytes in UTF-8: an index of PostgreSQL takes no more than 2,700."""


class Question(Generic[T]):
    """The same for every signature."""

    __slots__ = ("_is_plain", "_max_tokens", "_prompt", "_system", "form", "version")

    def __init__(self, prompt: str, schema: object, *, system: str = "", max_tokens: int | None = None) -> None:
        """Take a prompt with `{signature}` and `{samples}` in it; without a place for them, the samples follow it."""
        if not prompt.strip():
            raise UsageError("an analysis needs a prompt: a text, with {signature} and {samples} where they belong")
        _refuse_near_places(prompt)
        self._prompt = prompt if "{samples}" in prompt else f"{prompt}\n\n{{samples}}"
        self._system, self._max_tokens = system, max_tokens
        self.form: AnswerSchema[T] = AnswerSchema.of(schema)
        self._is_plain = isinstance(schema, Mapping)
        self.version = question_of(f"{system}\x1f{prompt}", {"schema": self.form.key})

    def about(self, signature: str, samples: Sequence[object]) -> Prompt:
        """The question about one signature; what stands in a sample is never read as a place."""
        told = "\n".join(sample if isinstance(sample, str) else repair.compact(sample) for sample in samples)
        values = {"signature": signature, "samples": told}
        text = _PLACES.sub(lambda place: values[place[1]], self._prompt).strip()
        return Prompt.of(text, system=self._system, max_tokens=self._max_tokens)

    def written(self, value: T, text: str) -> bytes:
        """An answer as it is kept: written anew where that reads as the same value, else in the model's words."""
        from pydantic_core import to_json  # noqa: PLC0415 - heavy, and loaded by now

        try:
            data = to_json(value, by_alias=True)
            if self.form.read(data.decode()) == value:
                return data
        except (ValueError, UnfitError):
            pass
        return text.encode()

    def kept(self, answer: bytes) -> T:
        """A cached answer to this very question; `UnfitError` where what checks it has changed since."""
        if self._is_plain:
            from pydantic_core import from_json  # noqa: PLC0415 - as above

            try:
                value: T = from_json(answer)
            except ValueError:
                pass
            else:
                return value
        return self.form.read(answer.decode())


def _refuse_near_places(prompt: str) -> None:
    """A place that is spelled wrong would be asked about as it stands, for every signature; other braces are the prompt's own."""
    for place in _LIKE_PLACES.finditer(prompt):
        near = get_close_matches(place[1].strip().casefold(), ("signature", "samples"), n=1, cutoff=_NEAR)
        if near and place[0] != f"{{{near[0]}}}":
            raise UsageError(f"the prompt has {place[0]}: {{{near[0]}}} is what is replaced")


def named(signature: object) -> str:
    """A signature as it is kept, or a refusal."""
    if not isinstance(signature, str) or not signature:
        raise UsageError("a signature is a text that is not empty")
    try:
        length = len(signature.encode())
    except UnicodeEncodeError:
        length = _LONGEST_SIGNATURE + 1
    if length > _LONGEST_SIGNATURE or "\0" in signature:
        raise UsageError(f"a signature is a text of at most {_LONGEST_SIGNATURE} bytes that a database can take")
    return signature


Schema = Any
"""A pydantic model or other type, a TypeAdapter, or a JSON Schema."""
