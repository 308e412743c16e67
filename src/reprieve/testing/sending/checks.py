"""What the outbox relies on, one check each; a check raises an AssertionError that says what is wrong."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
import traceback
from typing import TYPE_CHECKING, Final
from unittest import SkipTest

from reprieve.app.pipeline.rules import check_name
from reprieve.core.delivery import Capability, Found, Phase
from reprieve.errors import UsageError
from reprieve.testing.sending.rig import (
    BRIEF,
    PATIENCE,
    Trouble,
    ask,
    expect,
    in_time,
    listening,
    outgoing,
    set_up,
    token_of,
    try_send,
    with_sender,
)

if TYPE_CHECKING:
    from reprieve.ports.sending import Sender
    from reprieve.testing.sending.rig import Provider, Rig, Try

_LONGEST_ID: Final = 1000
_FEW_BEATS: Final = 2
"""Of twenty that an event loop has time for that is not held up."""


def check_record(provider: Provider) -> None:
    """Its name is stable, and its capability can be meant."""
    with set_up(provider) as rig:
        first, second = rig.sender(), rig.sender()
        try:
            check_name("sender", first.name)
        except UsageError as error:
            raise AssertionError(str(error)) from None
        expect(first.name == second.name, "two senders to one provider have different names: rows would miss theirs")
        can = first.capability
        expect(isinstance(can, Capability), f"its capability is a {type(can).__name__}, not a Capability")
        expect(can == second.capability, "two senders to one provider have different capabilities")
        expect(math.isfinite(can.send_timeout) and can.send_timeout > 0, "send_timeout is not above 0 seconds")
        expect(math.isfinite(can.lag) and can.lag >= 0, "lag is not 0 or more seconds")
        expect(can.key_window is None or can.key_window > 0, "key_window is neither None nor above 0 seconds")
        expect(can.retention is None or can.retention > can.lag, "retention is over before lag: nothing is ever found")


def check_methods(provider: Provider) -> None:
    """`send`, `look_up` and `close` are coroutine functions, `address` is none."""
    with set_up(provider) as rig:
        sender = rig.sender()
        for name in ("send", "look_up", "close"):
            expect(inspect.iscoroutinefunction(getattr(sender, name, None)), f"{name} is not an `async def`")
        address = getattr(sender, "address", None)
        expect(callable(address) and not inspect.iscoroutinefunction(address), "address is not a plain function")


def check_address(provider: Provider) -> None:
    """One normal form, that of a URI; a UsageError for everything else."""
    with set_up(provider) as rig:
        sender = rig.sender()
        normal = sender.address(rig.recipient)
        expect(":" in normal, f"{normal!r} has no channel before it: two channels would suppress each other")
        expect(sender.address(normal) == normal, f"the normal form of {normal!r} is another one")
        for stranger in ("", "somebody", "x-no-such-channel:somebody", f"{normal}\r\nX-Injected: 1", f"{normal}\x00"):
            try:
                taken = sender.address(stranger)
            except UsageError:
                continue
            except Exception as error:
                raise AssertionError(f"{stranger!r} is refused by {type(error).__name__}, not UsageError") from error
            raise AssertionError(f"{stranger!r} is taken for a recipient: {taken!r}")


def check_send(provider: Provider) -> None:
    """The message arrives, once, under its token; what comes back is an id."""

    async def run(rig: Rig, sender: Sender) -> None:
        sent = (await try_send(rig, sender, token_of("send"))).need()
        expect(_is_id(sent), f"send returned {sent!r}: an id of the message, in one line, is wanted")
        arrived = rig.arrived(token_of("send"))
        expect(len(arrived) == 1, f"one send, and {len(arrived)} messages arrived under its token")

    with_sender(provider, run)


def check_same_bytes(provider: Provider) -> None:
    """A second try, and one by another sender, are the first to the byte."""

    async def run(rig: Rig, sender: Sender) -> None:
        token = token_of("same bytes")
        (await try_send(rig, sender, token)).need()
        (await try_send(rig, sender, token)).need()
        other = rig.sender()
        try:
            (await try_send(rig, other, token)).need()
        finally:
            await other.close()
        arrived = rig.arrived(token)
        expect(len(arrived) > 0, "nothing arrived under the token")
        expect(len(set(arrived)) == 1, "tries of one message differ: a provider that compares them takes both")

    with_sender(provider, run)


def check_together(provider: Provider) -> None:
    """Several at once, each under its own token."""

    async def run(rig: Rig, sender: Sender) -> None:
        tokens = [token_of(f"together {number}") for number in range(5)]
        tries = await asyncio.gather(*(try_send(rig, sender, token) for token in tokens))
        ids = [each.need() for each in tries]
        expect(len(set(ids)) == len(ids), "two messages have the same id")
        expect(all(len(rig.arrived(token)) == 1 for token in tokens), "not each arrived once under its token")

    with_sender(provider, run)


def check_look_up(provider: Provider) -> None:
    """Found what was sent, absent what was not; a sender that cannot ask says neither."""

    async def run(rig: Rig, sender: Sender) -> None:
        nobody = await ask(rig, sender, token_of("never sent"))
        if not sender.capability.looks_up:
            expect(nobody.found is Found.UNKNOWN, f"it cannot look up, and answers {nobody.found}")
            return
        expect(nobody.found is Found.ABSENT, f"what was never sent is {nobody.found}: it would be held for a person")
        token, since = token_of("look up"), time.time()
        sent = (await try_send(rig, sender, token)).need()
        deadline = time.monotonic() + min(sender.capability.lag, PATIENCE)
        answer = await ask(rig, sender, token, since=since)
        while answer.found is not Found.FOUND and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
            answer = await ask(rig, sender, token, since=since)
        expect(answer.found is Found.FOUND, f"what was sent is {answer.found} when its lag is over")
        expect(answer.notification_id in {None, sent}, "a look-up has another id of the message than its send")

    with_sender(provider, run)


def check_failing_look_up(provider: Provider) -> None:
    """A provider that cannot say leaves it unknown."""

    async def run(rig: Rig, sender: Sender) -> None:
        if not sender.capability.looks_up:
            raise SkipTest("it cannot look up")
        token = token_of("hidden")
        (await try_send(rig, sender, token)).need()
        answer = await ask(rig, sender, token)
        expect(answer.found is Found.UNKNOWN, f"the provider did not say, and the answer is {answer.found}")

    with_sender(provider, run, Trouble.HIDES)


def check_unreachable(provider: Provider) -> None:
    """Nobody there: a send raises, a look-up knows nothing."""

    async def run(rig: Rig, sender: Sender) -> None:
        token = token_of("unreachable")
        tried = await try_send(rig, sender, token, timeout=2.0)
        expect(tried.error is not None, f"nobody is there, and send returned {tried.sent!r}")
        answer = await ask(rig, sender, token)
        expect(answer.found is Found.UNKNOWN, f"nobody is there, and the answer of a look-up is {answer.found}")

    with_sender(provider, run, Trouble.UNREACHABLE)


def check_refusal(provider: Provider) -> None:
    """A provider that says no: send raises."""

    async def run(rig: Rig, sender: Sender) -> None:
        tried = await try_send(rig, sender, token_of("refused"))
        expect(tried.error is not None, f"the provider refused it, and send returned {tried.sent!r}")

    with_sender(provider, run, Trouble.REFUSES)


def check_drop(provider: Provider) -> None:
    """The provider has it and nobody says so: send raises, and the phase is DURING."""

    async def run(rig: Rig, sender: Sender) -> None:
        tried = await try_send(rig, sender, token_of("dropped"))
        expect(tried.error is not None, f"no answer came, and send returned {tried.sent!r}")
        _expect_doubt(tried)

    with_sender(provider, run, Trouble.DROPS)


def check_timeout(provider: Provider) -> None:
    """A provider that never answers is given up in time; meanwhile the event loop is not held up."""

    async def run(rig: Rig, sender: Sender) -> None:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(BRIEF / 20)
                beats += 1

        heart = asyncio.create_task(beat())
        try:
            tried = await try_send(rig, sender, token_of("silent"), timeout=BRIEF)
        finally:
            heart.cancel()
        expect(tried.error is not None, f"no answer came, and send returned {tried.sent!r}")
        expect(beats > _FEW_BEATS, "it holds up the event loop while it waits: use asyncio.to_thread for what blocks")
        _expect_doubt(tried)

    with_sender(provider, run, Trouble.SILENT)


def check_cancellation(provider: Provider) -> None:
    """A send that is cancelled ends as cancelled."""

    async def run(rig: Rig, sender: Sender) -> None:
        token = token_of("cancelled")
        task = asyncio.create_task(sender.send(outgoing(rig, sender, token, [], PATIENCE)))
        waited = time.monotonic()
        while not (rig.arrived(token) or task.done() or time.monotonic() > waited + BRIEF):  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        expect(task.done(), "it goes on after it was cancelled")
        expect(task.cancelled(), "it swallows its cancellation: a worker could not stop")

    with_sender(provider, run, Trouble.SILENT)


def check_close(provider: Provider) -> None:
    """Closed before its first use, closed twice, used again, and used in another event loop."""
    with set_up(provider) as rig:
        sender = rig.sender()

        async def run(name: str) -> None:
            await sender.close()
            (await try_send(rig, sender, token_of(f"{name} 1"))).need()
            await sender.close()
            await sender.close()
            (await try_send(rig, sender, token_of(f"{name} 2"))).need()
            await sender.close()

        for loop in ("one loop", "another loop"):
            in_time(run(loop))


def check_secrets(provider: Provider) -> None:
    """No error and no line of a log holds what `Rig.secrets` names."""
    with set_up(provider) as rig:
        if not rig.secrets:
            raise SkipTest("no secrets are named")
    for trouble in Trouble:
        try:
            with listening() as lines, set_up(provider, trouble) as rig:
                told = [*in_time(_provoke(rig)), *lines]
        except SkipTest:
            continue
        for secret in rig.secrets:
            found = any(secret in text for text in told)
            expect(not found, f"a secret is in an error or a log when the provider is {trouble.value}")


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_ID and value.isprintable() and not value.isspace()


async def _provoke(rig: Rig) -> list[str]:
    """What can be read of everything that goes wrong."""
    sender = rig.sender()
    told = [repr(sender), str(sender)]
    tried = await try_send(rig, sender, token_of("secrets"), timeout=BRIEF)
    if tried.error is not None:
        told += traceback.format_exception(tried.error)
    answer = await ask(rig, sender, token_of("secrets"), timeout=BRIEF)
    told.append(repr(answer))
    await sender.close()
    return told


def _expect_doubt(tried: Try) -> None:
    expect(
        tried.phase is Phase.DURING,
        f"the provider has the message, and the phase is {tried.phase}: it would be sent again, or given up",
    )


CHECKS: Final = (
    check_record, check_methods, check_address, check_send, check_same_bytes, check_together, check_look_up,
    check_failing_look_up, check_unreachable, check_refusal, check_drop, check_timeout, check_cancellation, check_close,
    check_secrets,
)  # fmt: skip
