"""Messages of any queue: one block around the handling of a message, which ends, retries or dead-letters it.

    async with handle(message, profile="orchestrator") as item:
        order = item.parse(Order)
        await charge(order)

`message` is a `QueueMessage`: `reprieve.integrations.sqs` has one for Amazon SQS, and writing another takes
three methods. A failure of the block is decided on and does not leave it. A cancellation does: the queue
delivers the message again by itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from reprieve.integrations.tasks import DEFAULT_PROFILE, HostTask, build_policy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from reprieve.app.profiles import ProfileLike
    from reprieve.integrations.tasks import TaskFailure, TaskPolicy

T = TypeVar("T")


class QueueMessage(Protocol):
    """One delivery of a message, and what can be done with it."""

    @property
    def integration(self) -> str:
        """The kind of queue, as `sqs`."""
        ...

    @property
    def queue(self) -> str:
        """The queue's name."""
        ...

    @property
    def id(self) -> str:
        """The message's id, the same at every delivery."""
        ...

    @property
    def deliveries(self) -> int:
        """How often it was delivered, this time included."""
        ...

    @property
    def body(self) -> bytes:
        """The body."""
        ...

    async def complete(self) -> None:
        """Remove the message: it was handled."""
        ...

    async def retry(self, delay: float) -> None:
        """Have it delivered again, not before so many seconds have passed."""
        ...

    async def dead_letter(self, fields: Mapping[str, str]) -> None:
        """Keep it as a dead letter, then remove it.

        The fields are `original_message`, `error_context` and `origin`.
        """
        ...


def handle(
    message: QueueMessage,
    *,
    profile: ProfileLike = DEFAULT_PROFILE,
    service: str = "",
    idempotent: bool = False,
) -> Handling:
    """Handle a message in an `async with` block; `idempotent` says that doing it twice is harmless."""
    return Handling(message, build_policy(profile, service), idempotent=idempotent)


class Handling:
    """The handling of one delivery."""

    def __init__(self, message: QueueMessage, policy: TaskPolicy, *, idempotent: bool) -> None:
        self.message = message
        self.failure: TaskFailure | None = None
        """The failure and what was decided; None for a message that was handled."""
        self._policy, self._idempotent = policy, idempotent
        self._task = HostTask(
            integration=message.integration,
            queue=message.queue,
            name=message.queue,
            id=message.id,
            fields={"body": message.body},
            attempt=message.deliveries,
        )
        self._poison: TaskFailure | None = None
        self._was_refused = False

    @property
    def body(self) -> bytes:
        """The body. It ends the block for a message whose workers died again and again."""
        if self._poison is not None:
            self._was_refused = True
            raise _PoisonError
        return self.message.body

    def parse(self, model: type[T]) -> T:
        """The body as JSON of this type, by pydantic; what does not fit is dead-lettered."""
        wanted: Any = model
        parsed: T = _adapter(wanted).validate_json(self.body)
        return parsed

    async def __aenter__(self) -> Self:
        self._poison = self._policy.decide_deliveries(self._task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> bool:
        """End, retry or dead-letter the message. What the queue itself raises then leaves the block."""
        if error is not None and not isinstance(error, Exception):
            return False
        if self._poison is not None and self._was_refused:
            # The block may have caught the error, or raised another one because of it.
            await self._keep(self._poison)
            return True
        if error is None:
            await self.message.complete()
            return False
        found = self._policy.decide_failure(error, self._task, idempotent=self._idempotent)
        if found.delay is None:
            await self._keep(found)
        else:
            self.failure = found
            await self.message.retry(found.delay)
        return True

    async def _keep(self, found: TaskFailure) -> None:
        self.failure = found
        await self.message.dead_letter(self._policy.dead_letter_fields(self._task, found))


class _PoisonError(Exception):
    """Leaves the block of a message that must not be handled."""


@lru_cache(maxsize=256)
def _adapter(model: Any) -> Any:  # noqa: ANN401 - any type that pydantic knows
    from pydantic import TypeAdapter  # noqa: PLC0415 - only for bodies that are parsed

    return TypeAdapter(model)
