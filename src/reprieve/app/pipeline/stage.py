"""A stage as it was declared, and how it gets what earlier stages left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from reprieve.errors import Misfit, ResultError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.app.pipeline.values import TypeCodec
    from reprieve.core.policy import Profile
    from reprieve.core.timeouts import OperationTimeout
    from reprieve.ports.intents import StoredResult

Upgrade = Callable[[Any], object]
"""Makes what was stored under an older type fit the present one."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that gets the result of an earlier stage."""

    name: str
    source: Stage
    codec: TypeCodec[Any]
    """What the stage declares that it returns or, where it declares nothing, what the parameter asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a pipeline."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    pipeline: str
    index: int
    asynchronous: bool
    isolated: bool
    """Runs in a process of its own, which can be killed."""
    timeout: float | None
    """Seconds for one attempt."""
    operation: OperationTimeout | None
    """The named timeout that `timeout` comes from."""
    idempotent: bool
    repairable: bool
    """What it returns is a model's output, which the model may be asked to mend."""
    concurrency: int | None
    """The most jobs that one worker runs in it at a time."""
    profile: Profile = field(repr=False)
    was: tuple[str, ...]
    """Former names, under which jobs and results may still be stored."""
    delivers: bool
    """It begins to tell people: from here on the job is not superseded."""
    result: TypeCodec[Any] = field(repr=False)
    parameters: tuple[Parameter, ...] = field(repr=False)
    max_result: int
    upgrades: Mapping[str, Upgrade] = field(repr=False, compare=False)
    """The pipeline's own, by stage; they may be declared after the stage."""

    @property
    def names(self) -> tuple[str, ...]:
        """The present name and the former ones."""
        return (self.name, *self.was)

    def arguments(self, stored: Mapping[str, StoredResult]) -> list[object]:
        """What the function takes after the job, from results by the names of their stages; raises `Misfit`."""
        return [self._argument(parameter, stored) for parameter in self.parameters]

    def encode(self, value: object) -> bytes:
        """What the function returned, validated, as it is stored; raises `ResultError`."""
        try:
            data = self.result.encode(value, f"the result of {self.name}")
        except ResultError as error:
            if iscoroutine(value):
                value.close()
                raise ResultError(f"{self.name} returned a coroutine: what wraps it has to be async too") from None
            if self.repairable:
                error.error_class = "OUTPUT_INVALID"
            raise
        if len(data) > self.max_result:
            raise ResultError(
                f"the result of {self.name} takes {len(data)} bytes, more than the {self.max_result} of max_result: store "
                "it elsewhere and return where it is",
                error_class="PAYLOAD_TOO_LARGE",
            )
        return data

    def _argument(self, parameter: Parameter, stored: Mapping[str, StoredResult]) -> object:
        source = parameter.source
        for name in source.names:
            if (found := stored.get(name)) is not None:
                return restore(
                    found.data,
                    codec=parameter.codec,
                    upgrade=None if found.type == source.result.fingerprint else self.upgrades.get(source.name),
                    whose=source.name,
                )
        raise Misfit(
            source.name, f"has left no result, which {self.name} takes: the job was past it when it was declared"
        )


def restore(data: bytes, *, codec: TypeCodec[Any], upgrade: Upgrade | None, whose: str) -> object:
    """Read a stored value, through an upgrade where one is given; raises `Misfit` that says whose it is."""
    try:
        return codec.decode(data) if upgrade is None else codec.adopt(_upgraded(data, upgrade))
    except Misfit as misfit:
        cause, problem = misfit.__cause__, misfit.problem
    raise Misfit(whose, problem if upgrade is None else f"as its upgrade makes it, {problem}") from cause


def _upgraded(data: bytes, upgrade: Upgrade) -> object:
    from pydantic_core import from_json  # noqa: PLC0415 - heavy, and loaded by now

    try:
        old = from_json(data)
    except ValueError:
        raise Misfit("", "is not JSON") from None
    try:
        return upgrade(old)
    except Exception as error:
        raise Misfit("", f"raises {type(error).__name__}") from error
