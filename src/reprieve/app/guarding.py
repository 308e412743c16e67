"""A model's answer is taken only if it fits; else the model is asked to mend it, once, and then a person is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from reprieve.app.answers import AnswerSchema, UnfitError
from reprieve.app.secrecy import keep_secrets
from reprieve.core import repair
from reprieve.core.failure import ErrorClass
from reprieve.core.record import writable
from reprieve.errors import Unusable, UsageError
from reprieve.ports.modelling import Finish, Prompt, Reply, Role, Turn, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import TypeAdapter

    from reprieve.ports.modelling import Model

T = TypeVar("T")

_TOO_LONG: Final = frozenset({ErrorClass.CONTEXT_LENGTH_EXCEEDED, ErrorClass.PAYLOAD_TOO_LARGE})
_ENDED: Final = {
    Finish.TRUNCATED: repair.Problem("truncated", "it was cut off by the limit of tokens"),
    Finish.REFUSED: repair.Problem("refused", "the model refused"),
    Finish.FILTERED: repair.Problem("filtered", "the provider's filter stopped it"),
    Finish.UNFINISHED: repair.Problem(
        "unfinished", "it stopped before it was done: answer with text, and call no tool"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded(Generic[T]):
    """An answer that fits."""

    value: T
    replies: tuple[Reply, ...]
    """All that the model answered, each with what it took; the last one holds the value."""

    @property
    def repaired(self) -> bool:
        """Whether the first answer did not fit."""
        return len(self.replies) > 1

    @property
    def usage(self) -> Usage:
        """What all of it took."""
        return sum((reply.usage for reply in self.replies), Usage())


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a model answered, and what is wrong with it."""

    reply: Reply
    problems: tuple[repair.Problem, ...]


@overload
async def guarded(
    model: Model,
    prompt: Prompt | str,
    *,
    schema: type[T] | TypeAdapter[T] | AnswerSchema[T],
    samples: Sequence[object] = ...,
    timeout: float = ...,  # noqa: ASYNC109 - of each call over the network
    tell_schema: bool = ...,
) -> Guarded[T]: ...
@overload
async def guarded(
    model: Model,
    prompt: Prompt | str,
    *,
    schema: Mapping[str, Any],
    samples: Sequence[object] = ...,
    timeout: float = ...,  # noqa: ASYNC109 - of each call over the network
    tell_schema: bool = ...,
) -> Guarded[Any]: ...
async def guarded(
    model: Model,
    prompt: Prompt | str,
    *,
    schema: object,
    samples: Sequence[object] = (),
    timeout: float = 60.0,  # noqa: ASYNC109 - of each call over the network
    tell_schema: bool = True,
) -> Guarded[Any]:
    """Ask, and take the answer only if it fits the schema: a pydantic model or other type, or a JSON Schema.

    An answer that does not fit is sent back once, with what is wrong with it, the schema and the samples; that costs no
    attempt. What does not fit then, was cut off, refused or filtered raises `Unusable`, which makes a job `needs_review`;
    its `material` has all that was asked and answered. What the provider's client raises passes as it is.
    `tell_schema=False` leaves the prompt as it is, for one that describes the answer itself.
    """
    keep_secrets(checked_model(model), "model")  # of one of your own
    form: AnswerSchema[Any] = AnswerSchema.of(schema)
    question = Prompt.of(prompt) if isinstance(prompt, str) else prompt
    if not question.turns or question.turns[-1].role is not Role.USER:
        raise UsageError("a prompt ends with what the user says")
    guard = _Guard(model, question, form, tuple(samples), timeout, tell_schema)
    return await guard.run()


def checked_model(model: Model) -> Model:
    """A model, or words for who has its name alone."""
    if isinstance(model, str):
        raise UsageError(
            'a model is wanted, not its name: reprieve.models.model_at makes one of it, as in model_at("local")'
        )
    if isinstance(model, type) or not callable(getattr(model, "ask", None)):
        raise UsageError(f"a model is wanted, with a name, ask and close, not {_kind(model)}: see reprieve.models")
    return model


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def usage_of(error: BaseException) -> Usage | None:
    """What a question took that came to nothing; None where nothing was answered."""
    answers = error.material.get("answers") if isinstance(error, Unusable) else None
    if not isinstance(answers, list) or not answers:
        return None
    return sum((Usage.of(each.get("usage")) for each in answers if isinstance(each, dict)), Usage())


class _Guard:
    """One guarded question."""

    __slots__ = ("_answers", "_began", "_form", "_model", "_question", "_samples", "_tell_schema", "_timeout")

    def __init__(
        self,
        model: Model,
        question: Prompt,
        form: AnswerSchema[Any],
        samples: tuple[object, ...],
        timeout: float,
        tell_schema: bool,  # noqa: FBT001 - as the caller has it
    ) -> None:
        self._model, self._question, self._form, self._samples = model, question, form, samples
        self._timeout, self._tell_schema = timeout, tell_schema
        self._answers: list[_Answer] = []
        self._began = time()

    async def run(self) -> Guarded[Any]:
        """Ask until it fits, or until core says that a person has to look."""
        prompt = self._told()
        while True:
            try:
                reply = await self._model.ask(prompt, schema=self._form.json_schema, timeout=self._timeout)
            except Exception as error:
                if self._answers and _is_too_long(error):
                    raise self._unusable("the request to mend it is longer than the model takes") from error
                raise
            try:
                value = self._read(reply)
            except UnfitError as error:
                self._answers.append(_Answer(reply, error.problems))
            else:
                return Guarded(value=value, replies=(*(answer.reply for answer in self._answers), reply))
            unusable = self._unusable()
            if not self._may_repair(unusable):
                raise unusable
            prompt = self._mending(prompt)

    def _told(self) -> Prompt:
        if not self._tell_schema:
            return self._question
        words = repair.instruction(self._form.json_schema)
        return replace(self._question, system=f"{self._question.system}\n\n{words}".lstrip())

    def _read(self, reply: Reply) -> object:
        ended = _ENDED.get(reply.finish)
        if ended is not None:
            raise UnfitError(ended)
        return self._form.read(reply.text)

    def _may_repair(self, unusable: Unusable) -> bool:
        """Core decides, as about every other failure."""
        from reprieve.app.judging import classify  # noqa: PLC0415 - its rules are heavy, and most answers fit
        from reprieve.app.profiles import resolve  # noqa: PLC0415 - the same
        from reprieve.core.decide import History, Reason, decide  # noqa: PLC0415 - the same

        now = time()
        repairable = self._answers[-1].reply.finish.repairable
        history = History(attempts=1, started=self._began, repairable=repairable, repaired=len(self._answers) > 1)
        failure = classify(unusable, now=now)
        return decide(failure, history, resolve("analysis"), now=now, draw=0.0).reason is Reason.REPAIR

    def _mending(self, prompt: Prompt) -> Prompt:
        answer = self._answers[-1]
        words = repair.request(answer.problems, self._form.json_schema, self._samples)
        said = (Turn(Role.MODEL, repair.echo(answer.reply.text)), Turn(Role.USER, words))
        return replace(prompt, turns=(*prompt.turns, *said))

    def _unusable(self, why: str = "") -> Unusable:
        """The verdict; its words are made from the schema alone, what was answered is in the material."""
        problems = self._answers[-1].problems
        kinds = ", ".join(dict.fromkeys(problem.kind for problem in problems[:3]))
        after = " after one repair" if len(self._answers) > 1 else ""
        words = why or f"{len(problems)} problem{'s' if len(problems) > 1 else ''}: {kinds}"
        return Unusable(f"the answer of {self._model.name} cannot be used{after} ({words})", material=self._material())

    def _material(self) -> dict[str, object]:
        """What a reviewer needs, as JSON and every database can hold it."""
        turns = self._question.turns
        asked = [turns[0].text] if len(turns) == 1 else [f"{turn.role}: {turn.text}" for turn in turns]
        return {
            "model": self._model.name,
            "question": writable("\n\n".join(asked)),
            "system": writable(self._question.system),
            "schema": self._form.json_schema,
            "samples": [
                writable(sample if isinstance(sample, str) else repair.compact(sample)) for sample in self._samples
            ],
            "answers": [_shown(answer) for answer in self._answers],
        }


def _shown(answer: _Answer) -> dict[str, object]:
    reply = answer.reply
    return {
        "text": writable(reply.text),
        "finish": reply.finish.value,
        "errors": [writable(line) for line in repair.told(answer.problems)],
        "usage": reply.usage.as_dict(),
        "model": writable(reply.model),
        "request_id": reply.request_id,
    }


def _is_too_long(error: Exception) -> bool:
    from reprieve.app.judging import classify  # noqa: PLC0415 - as above

    return classify(error).error_class in _TOO_LONG
