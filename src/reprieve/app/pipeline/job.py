"""What a stage's function is given: the job, its payload, and a memory that outlives an attempt."""

from __future__ import annotations

from hashlib import sha256
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, overload

from reprieve.app.pipeline.memos import Elsewhere, Memos
from reprieve.app.pipeline.values import TypeCodec
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable, Coroutine

P_co = TypeVar("P_co", covariant=True)
T = TypeVar("T")

_LONGEST_KEY: Final = 500


class Memory(Protocol):
    """Where a job's memos are kept; the worker's."""

    @property
    def loop(self) -> AbstractEventLoop:
        """The event loop that `load` and `keep` belong to."""
        ...

    async def load(self) -> dict[str, bytes]:
        """All memos of this job and stage."""
        ...

    async def keep(self, key: str, value: bytes) -> None:
        """Store one, durable when this returns; raises where the lease is lost."""
        ...


class Job(Generic[P_co]):
    """A job as the stage that it stands at sees it."""

    __slots__ = (
        "_memos", "attempt", "cancelled", "created_at", "fresh", "id", "idempotency_key", "memory", "payload", "pipeline", "stage",
        "subject", "version",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - a record by keyword
        self,
        payload: P_co,
        *,
        id: int = 0,  # noqa: A002 - read as `job.id`
        pipeline: str = "",
        stage: str = "",
        idempotency_key: str = "",
        attempt: int = 1,
        subject: str | None = None,
        version: int | None = None,
        created_at: float = 0.0,
        memory: Memory | None = None,
        fresh: bool = False,
    ) -> None:
        """Made by the worker; made by hand, for a test of a stage's function, it remembers only for itself."""
        self.payload = payload
        self.id = id
        self.pipeline = pipeline
        self.stage = stage
        """The name that the job stands at in the store: a former one, where the stage was renamed since."""
        self.idempotency_key = idempotency_key
        self.attempt = attempt
        """From 1, within the budget of the stage's own failures."""
        self.subject = idempotency_key if subject is None else subject
        self.version = 1 if version is None else version
        self.created_at = created_at
        """Seconds since the epoch."""
        self.cancelled = False
        """Whether somebody asked to stop it; for plain functions, which look now and then. Async ones are cancelled."""
        self.memory = memory
        self.fresh = fresh
        """Nothing can have been remembered yet."""
        self._memos: Memos | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} at {self.pipeline}.{self.stage}, attempt {self.attempt}>"

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to another process, without the memory: that process has to bring one."""
        record = {name: getattr(self, name) for name in Job.__slots__ if name not in _LEFT_BEHIND}
        return (_arrive, (record, self.cancelled))

    @property
    def token(self) -> str:
        """An idempotency key for upstreams: the same on every attempt and after a replay, another for every stage."""
        parts = (self.pipeline, self.idempotency_key, str(self.version), self.stage)
        return sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]

    @overload
    def remember(
        self, key: str, make: Callable[[], Awaitable[object]] | Callable[[], object]
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def remember(
        self, key: str, make: Callable[[], Awaitable[object]] | Callable[[], object], *, type: type[T]
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def remember(
        self, key: str, make: Callable[[], Awaitable[object]] | Callable[[], object], *, type: object
    ) -> Coroutine[Any, Any, Any]: ...
    def remember(self, key: str, make: Callable[[], object], *, type: Any = Any) -> Coroutine[Any, Any, Any]:  # noqa: A002 - a type
        """Make something once for this job and stage: a later attempt gets what was kept, and does not pay again.

        `make` is called with nothing, plain or async. Its value is kept durably as JSON of `type` and returned as it will
        be read back. Calls of one key wait for one another.
        """
        memos = self._remembering()
        memos.require_async()
        return memos.remember(_checked(key, make), make, TypeCodec.of(type))

    @overload
    def remember_blocking(self, key: str, make: Callable[[], object]) -> Any: ...  # noqa: ANN401 - no type was given
    @overload
    def remember_blocking(self, key: str, make: Callable[[], object], *, type: type[T]) -> T: ...
    @overload
    def remember_blocking(self, key: str, make: Callable[[], object], *, type: object) -> Any: ...  # noqa: ANN401 - the same
    def remember_blocking(self, key: str, make: Callable[[], object], *, type: Any = Any) -> Any:  # noqa: A002 - a type
        """`remember` for plain functions, which run in a thread."""
        memos = self._remembering()
        memos.require_plain()
        return memos.remember_blocking(_checked(key, make), make, TypeCodec.of(type))

    def _remembering(self) -> Memos:
        if self._memos is None:
            self._memos = Memos(self.memory, fresh=self.fresh)
        return self._memos


_LEFT_BEHIND: Final = frozenset({"memory", "_memos", "cancelled"})


def _arrive(record: dict[str, Any], cancelled: bool) -> Job[Any]:  # noqa: FBT001 - as __reduce__ hands it over
    job: Job[Any] = Job(**record, memory=Elsewhere())
    job.cancelled = cancelled
    return job


def _checked(key: object, make: object) -> str:
    if not callable(make):
        if iscoroutine(make):
            make.close()
        raise UsageError(f"what makes a memo is a function: write `lambda: ...` around it, not {type(make).__name__}")
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
        raise UsageError(f"the key of a memo is a text of 1 to {_LONGEST_KEY} characters")
    if "\0" in key or not (key.isascii() or key.encode("utf-8", "ignore").decode() == key):
        raise UsageError("the key of a memo holds a NUL or a lone surrogate, which no database keeps")
    return key
