"""A pipeline: its stages in the order they are declared, and the types between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Concatenate, Literal, TypedDict, TypeVar, overload

from reprieve.app.pipeline.job import Job
from reprieve.app.pipeline.rules import (
    PAYLOAD,
    check_count,
    check_former,
    check_function,
    check_kind,
    check_name,
    check_names,
    check_upgrade,
    codec_of,
    find_sources,
    find_timeout,
    read_face,
)
from reprieve.app.pipeline.stage import Stage, Upgrade, restore
from reprieve.app.pipeline.values import TypeCodec
from reprieve.app.profiles import SHIPPED, ProfileBook, ProfileLike
from reprieve.app.secrecy import keep_secrets
from reprieve.core.breaker import Breaker
from reprieve.errors import Misfit, PayloadError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    from reprieve.core.policy import Profile
    from reprieve.ports.sending import Sender

F = TypeVar("F", bound=Callable[Concatenate[Job[Any], ...], Any])
U = TypeVar("U", bound=Upgrade)


class StageOptions(TypedDict, total=False):
    """What `Pipeline.stage` takes by keyword."""

    name: str | None
    """The function's own, unless given."""
    timeout: float | None
    """Seconds for one attempt. An async stage is cancelled; a plain one has to be isolated, and is killed."""
    operation: str | None
    """In place of `timeout`: an operation of the profile, which has the seconds and what an expiry means."""
    idempotent: bool
    """Whether doing it twice is harmless; write conflicts are retried only then."""
    repairable: bool
    """Whether its result is a model's output, which the model may be asked to mend when it does not fit."""
    isolate: Literal["process"] | None
    """Run a plain function in a process of its own."""
    concurrency: int | None
    """The most jobs that one worker runs in this stage at a time."""
    profile: ProfileLike | None
    """The pipeline's, unless given."""
    was: str | Iterable[str]
    """Names that the stage had; jobs and results that are stored under them are its own."""
    delivers: bool
    """Whether it tells people: a job that has come here is not superseded any more."""


class Pipeline:
    """A named sequence of stages; declared once, at the top of a module.

    review = reprieve.Pipeline("review")

    @review.stage
    async def fetch(job: reprieve.Job[Change]) -> Diff: ...

    @review.stage(timeout=60)
    async def llm(job: reprieve.Job[Change], diff: Diff) -> Review: ...
    """

    def __init__(
        self,
        name: str,
        *,
        profile: ProfileLike = "criticizer",
        profiles: ProfileBook = SHIPPED,
        max_payload: int = 1_048_576,
        max_result: int = 16_777_216,
        supersede: bool = False,
        breaker: Breaker | None = Breaker(),  # noqa: B008 - frozen
        senders: Iterable[Sender] = (),
    ) -> None:
        """Take how failures are treated, unless a stage says otherwise, and the most bytes of a payload and of a result."""
        self.name = check_name("pipeline", name)
        self.profiles = profiles
        self.profile: Profile = profiles.resolve(profile)
        self.max_payload = check_count("max_payload", max_payload)
        self.max_result = check_count("max_result", max_result)
        self.supersede = _flag("supersede", supersede)
        """Whether a newer version of a subject cancels an older one that has not begun to deliver."""
        if not (breaker is None or isinstance(breaker, Breaker)):
            raise UsageError(f"breaker= takes a Breaker or None, not {type(breaker).__name__}")
        self.breaker = breaker
        self.senders = _by_name(senders)
        """What its stages deliver by, and what a sweep asks after what they left in doubt."""
        self.stages: tuple[Stage, ...] = ()
        self._by_name: dict[str, Stage] = {}
        self._upgrades: dict[str, Upgrade] = {}
        self._payload: Any = inspect.Parameter.empty
        self._codec: TypeCodec[Any] | None = None

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}: {' -> '.join(stage.name for stage in self.stages) or 'no stages'}>"

    @overload
    def stage(self, function: F, /) -> F: ...
    @overload
    def stage(self, /, **options: Unpack[StageOptions]) -> Callable[[F], F]: ...
    def stage(self, function: F | None = None, /, **options: Unpack[StageOptions]) -> F | Callable[[F], F]:
        """Declare the next stage; the function stays as it is. What cannot be is refused here."""
        if unknown := options.keys() - StageOptions.__annotations__.keys():
            raise UnknownNameError("option of a stage", min(unknown), tuple(StageOptions.__annotations__))
        frame = inspect.currentframe()
        # Types that are defined inside a function are found only there.
        namespace = dict(frame.f_back.f_locals) if frame is not None and frame.f_back is not None else {}
        del frame

        def declare(function: F) -> F:
            self._declare(function, namespace, **options)
            return function

        return declare if function is None else declare(function)

    def upgrade(self, stage: str) -> Callable[[U], U]:
        """Declare how an older result of this stage (or the `payload`) is made to fit; it gets what the JSON holds.

        @review.upgrade("fetch")
        def with_language(old: Any) -> Any:
            return {"language": "unknown", **old}
        """
        if not isinstance(stage, str):
            raise UsageError(f'say whose results the upgrade is for: @{self.name}.upgrade("fetch"), or "{PAYLOAD}"')
        known = self.find(stage)
        if known is None and stage != PAYLOAD:
            raise UnknownNameError(f"stage of {self.name}", stage, (*self._by_name, PAYLOAD))
        target = PAYLOAD if known is None else known.name
        if target in self._upgrades:
            raise UsageError(f"an upgrade of {target} is declared already; one function takes all that is older")

        def declare(function: U) -> U:
            self._upgrades[target] = check_upgrade(target, function)
            return function

        return declare

    @property
    def first(self) -> Stage:
        """The stage that a job starts at."""
        if not self.stages:
            raise UsageError(f"the pipeline {self.name!r} has no stages: declare them with @stage")
        return self.stages[0]

    @property
    def payload(self) -> TypeCodec[Any]:
        """The payload's type, from `Job[...]`."""
        if self._codec is None:
            self._codec = TypeCodec.of(self._payload, error=PayloadError)
        return self._codec

    @property
    def fingerprint(self) -> str:
        """Another one after a deployment that may make stored values fit which did not."""
        parts: list[object] = [self.payload.fingerprint]
        for stage in self.stages:
            parts.append((stage.names, stage.result.fingerprint))
            parts += [(each.name, each.source.name, each.codec.fingerprint) for each in stage.parameters]
        parts += [(name, _source(self._upgrades[name])) for name in sorted(self._upgrades)]
        return f"v1:{sha256(repr(parts).encode('utf-8', 'backslashreplace')).hexdigest()[:16]}"

    def find(self, name: str) -> Stage | None:
        """A stage by its name or a former one."""
        return self._by_name.get(name)

    def after(self, stage: Stage) -> Stage | None:
        """The stage that follows; None after the last."""
        return self.stages[stage.index + 1] if stage.index + 1 < len(self.stages) else None

    def keys(self) -> list[tuple[str, str]]:
        """The (pipeline, stage) pairs that its jobs can stand at, former names included."""
        return [(self.name, name) for name in self._by_name]

    def supersedes(self) -> tuple[str, ...]:
        """The names of stages at which a job gives way to a newer version of its subject."""
        if not self.supersede:
            return ()
        delivering = next((stage.index for stage in self.stages if stage.delivers), len(self.stages))
        return tuple(name for stage in self.stages[:delivering] for name in stage.names)

    def encode_payload(self, value: object) -> bytes:
        """A payload, validated, as it is stored; raises `PayloadError`."""
        data = self.payload.encode(value, f"the payload of {self.name}")
        if len(data) > self.max_payload:
            raise PayloadError(
                f"the payload of {self.name} takes {len(data)} bytes, more than the {self.max_payload} of max_payload: store "
                "it elsewhere and submit where it is"
            )
        return data

    def decode_payload(self, data: bytes, type_fingerprint: str) -> Any:  # noqa: ANN401 - what Job[...] says
        """A payload as it was stored, through its upgrade where its type was another; raises `Misfit`."""
        codec = self.payload
        upgrade = None if type_fingerprint == codec.fingerprint else self._upgrades.get(PAYLOAD)
        return restore(data, codec=codec, upgrade=upgrade, whose=PAYLOAD)

    def decode_result(self, stage: str, data: bytes, type_fingerprint: str) -> Any:  # noqa: ANN401 - what the stage returns
        """What a stage left, as `decode_payload` does it; raises `Misfit`."""
        known = self.find(stage)
        if known is None:
            raise Misfit(stage, "is no stage of this pipeline")
        upgrade = None if type_fingerprint == known.result.fingerprint else self._upgrades.get(known.name)
        return restore(data, codec=known.result, upgrade=upgrade, whose=known.name)

    def _declare(  # noqa: PLR0913 - the keywords of `StageOptions`, here with their defaults
        self,
        function: Callable[..., Any],
        namespace: Mapping[str, Any],
        *,
        name: str | None = None,
        timeout: float | None = None,
        operation: str | None = None,
        idempotent: bool = False,
        repairable: bool = False,
        isolate: Literal["process"] | None = None,
        concurrency: int | None = None,
        profile: ProfileLike | None = None,
        was: str | Iterable[str] = (),
        delivers: bool = False,
    ) -> None:
        check_function(function)
        own = check_name("stage", function.__name__ if name is None else name)
        where = f"the stage {own!r} of {self.name!r}"
        found = self.profile if profile is None else self.profiles.resolve(profile)
        limit, named = find_timeout(where, function, timeout=timeout, operation=operation, profile=found)
        former = check_former(where, was)
        check_names(self.name, (own, *former), self._by_name)
        asynchronous = check_kind(where, function, timeout=limit, isolate=isolate)
        face = read_face(where, function, namespace)
        stage = Stage(
            name=own,
            function=function,
            pipeline=self.name,
            index=len(self.stages),
            asynchronous=asynchronous,
            isolated=isolate is not None,
            timeout=limit,
            operation=named,
            idempotent=_flag("idempotent", idempotent),
            repairable=_flag("repairable", repairable),
            concurrency=None if concurrency is None else check_count(f"{where}: concurrency", concurrency),
            profile=found,
            was=former,
            delivers=_flag("delivers", delivers),
            result=codec_of(where, "its result", face.result),
            parameters=find_sources(where, face, self.stages),
            max_result=self.max_result,
            upgrades=self._upgrades,
        )
        self._agree(where, face.payload)
        self.stages += (stage,)
        self._by_name |= dict.fromkeys(stage.names, stage)

    def _agree(self, where: str, payload: Any) -> None:  # noqa: ANN401 - any annotation
        if payload is inspect.Parameter.empty or payload == self._payload:
            return
        codec = codec_of(where, "the payload", payload)
        if self._payload is not inspect.Parameter.empty:
            raise UsageError(
                f"{where} takes a Job[{codec.name}], but the stages before it a Job[{self.payload.name}]: all stages "
                "of a pipeline get the same payload"
            )
        self._payload, self._codec = payload, None


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{what} must be true or false, not {value!r}")
    return value


def _source(function: Upgrade) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # typed in, or not a function
        return getattr(function, "__qualname__", type(function).__qualname__)


def _by_name(senders: Iterable[Sender]) -> dict[str, Sender]:
    named: dict[str, Sender] = {}
    for sender in senders:
        name = check_name("sender", sender.name)
        if named.setdefault(name, sender) is not sender:
            raise UsageError(f"two senders of one pipeline are named {name!r}")
        keep_secrets(sender, "sender")  # of one of your own
    return named
