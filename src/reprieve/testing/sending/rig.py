"""A provider that fails on purpose, and how a sender is driven against it: as the outbox drives it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar
from unittest import SkipTest

from reprieve.app.judging import classify
from reprieve.core.delivery import Phase, assumed_phase
from reprieve.ports.sending import Answer, Message, Outgoing, Question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterator, Sequence

    from reprieve.ports.sending import Sender

T = TypeVar("T")

PATIENCE: Final = 30.0
"""Seconds after which something is taken to hang."""
BRIEF: Final = 0.5
_PREPARED_AT: Final = 1_700_000_000.0


class Trouble(StrEnum):
    """How a provider is to fail."""

    NONE = "none"
    """It is well."""
    UNREACHABLE = "unreachable"
    """Nobody is there."""
    REFUSES = "refuses"
    """It says no, and does not take the message."""
    DROPS = "drops"
    """It takes the message, and the connection breaks before it has answered."""
    SILENT = "silent"
    """It takes the message, and never answers."""
    HIDES = "hides"
    """It takes messages, and fails when it is asked about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A provider, and senders that talk to it."""

    sender: Callable[[], Sender]
    """Makes another sender to the same provider."""
    recipient: str
    """Somebody whom the provider knows."""
    arrived: Callable[[str], Sequence[bytes]]
    """What has come to the provider under a token, one entry for each message, without what belongs to one try (the time
    of a signature). Where a provider drops what it has already, the one that it kept."""
    secrets: tuple[str, ...] = ()
    """What must not be in an error or a log."""


Provider = Callable[[Trouble], AbstractContextManager[Rig]]
"""Makes a provider that fails in that way."""


@dataclass(frozen=True, slots=True)
class Try:
    """What a send came to."""

    sent: str | None = None
    error: Exception | None = None
    phase: Phase | None = None

    def need(self) -> str:
        """The id; fails where the send did."""
        if self.error is not None:
            raise AssertionError(f"the provider is well, and send raised {self.error!r}") from self.error
        return self.sent  # type: ignore[return-value]  # what a sender returned is what is checked here


async def try_send(rig: Rig, sender: Sender, token: str, *, timeout: float = PATIENCE) -> Try:  # noqa: ASYNC109 - as a worker does
    """Send as the outbox does: with a limit around it, judged by the phase that was told last."""
    phases: list[Phase] = []
    try:
        async with asyncio.timeout(timeout):
            return Try(sent=await sender.send(outgoing(rig, sender, token, phases, timeout)))
    except Exception as error:  # noqa: BLE001 - whatever a sender raises is what is looked at
        return Try(error=error, phase=phases[-1] if phases else assumed_phase(classify(error)))


def outgoing(rig: Rig, sender: Sender, token: str, phases: list[Phase], timeout: float) -> Outgoing:
    """A message with what senders stumble over: letters beyond ASCII, a line that is a dot, signs of markup."""
    message = Message(
        recipient=sender.address(rig.recipient),
        subject="A review of cl-42: für Ádá",
        text="Looks fine.\n\n.\nOne line begins with a dot, and <one> has & in it.\n",
        html="<p>Looks fine.</p>",
        data={"changelist": "cl-42", "findings": [1, 2.5, None, True, {"b": 1, "a": "ä"}]},
    )
    return Outgoing(message=message, token=token, timeout=timeout, prepared_at=_PREPARED_AT, reached=phases.append)


async def ask(
    rig: Rig,
    sender: Sender,
    token: str,
    *,
    since: float | None = None,
    timeout: float = PATIENCE,  # noqa: ASYNC109 - as a worker does
) -> Answer:
    """Look up as the outbox does: whatever goes wrong is unknown."""
    question = Question(
        recipient=sender.address(rig.recipient), token=token, notification_id=None,
        since=time.time() if since is None else since, timeout=timeout,
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout):
            answer = await sender.look_up(question)
    except Exception as error:  # noqa: BLE001 - as the outbox does
        return Answer.unknown(repr(error))
    expect(isinstance(answer, Answer), f"look_up answers a {type(answer).__name__}, not an Answer")
    return answer


def with_sender(
    provider: Provider,
    run: Callable[[Rig, Sender], Coroutine[Any, Any, None]],
    trouble: Trouble = Trouble.NONE,
) -> None:
    """Run this with a sender to such a provider, and close it."""
    __tracebackhide__ = True

    async def around(rig: Rig) -> None:
        sender = rig.sender()
        try:
            await run(rig, sender)
        finally:
            await sender.close()

    with set_up(provider, trouble) as rig:
        in_time(around(rig))


@contextmanager
def set_up(provider: Provider, trouble: Trouble = Trouble.NONE) -> Iterator[Rig]:
    """The rig; skips where the provider cannot be made to fail so."""
    with ExitStack() as stack:
        try:
            rig = stack.enter_context(provider(trouble))
        except NotImplementedError:
            raise SkipTest(f"the provider cannot be made to be {trouble.value}") from None
        yield rig


def in_time(what: Awaitable[T]) -> T:
    """Run it in an event loop of its own, to its end or to the end of all patience."""
    __tracebackhide__ = True

    async def run() -> T:
        async with asyncio.timeout(4 * PATIENCE):
            return await what

    return asyncio.run(run())


@contextmanager
def listening() -> Iterator[list[str]]:
    """Every line that is logged meanwhile, whatever its level."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    root, listener = logging.getLogger(), Listener()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.setLevel(level)
        root.removeHandler(listener)


def token_of(name: str) -> str:
    """A token such as the outbox makes."""
    return sha256(name.encode()).hexdigest()[:40]


def expect(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - an assertion that survives `python -O`
    """Fail with these words unless it holds."""
    __tracebackhide__ = True
    if not holds:
        raise AssertionError(otherwise)
