"""A stream consumer in a test: its handler on given messages, without Redis, a wait or a process.

    run = await run_consumer_inline(handle, [{"project": "a"}, {"project": "b"}])
    assert run.handled == 1
    assert run.dead_letters[0].error_class == "SCHEMA_INVALID"

Delays pass by moving a clock, and are kept in `run.clock.slept`. The decisions are those of a real consumer. What lies
between consumers is left out: crashes, leases, the circuit breaker, alerts, and the pause of a group.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reprieve.core.decide import RetryAt
from reprieve.streams.dead_letters import StreamDeadLetter, build_error_context, decode_dead_letter, encode_dead_letter
from reprieve.streams.failure_writer import rule_on
from reprieve.streams.lanes import FailedRun
from reprieve.streams.message import StreamMessage
from reprieve.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reprieve.core.decide import Decision
    from reprieve.streams.consumer import Consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineRun:
    """What became of the messages."""

    clock: FakeClock
    """Time after all messages; `slept` has every delay before a retry."""
    handled: int = 0
    decisions: tuple[Decision, ...] = ()
    """What was decided about each failure, in order."""
    dead_letters: tuple[StreamDeadLetter, ...] = ()
    """As they would be in `{queue}:dlq`."""
    exceptions: tuple[BaseException, ...] = field(default=(), repr=False)
    """What the handler or the parsing raised, in order."""


async def run_consumer_inline(
    consumer: Consumer[Any, Any], messages: Iterable[Any], *, clock: FakeClock | None = None, rand: float = 0.5
) -> InlineRun:
    """Handle messages one after another, each with all its retries.

    A message is a mapping of fields. Where the consumer has a `body`, anything else is its content: bytes and text as
    they are, a pydantic model or plain values as JSON.
    """
    clock = FakeClock() if clock is None else clock
    handled = 0
    decisions: list[Decision] = []
    letters: list[StreamDeadLetter] = []
    exceptions: list[BaseException] = []
    for number, content in enumerate(messages, start=1):
        fields = _fields(content, consumer.options.body)
        message = StreamMessage(
            consumer.queue, consumer.group, f"{round(1000 * clock.now())}-{number}".encode(), fields
        )
        while True:
            run = await _handle(consumer, message)
            if run is None:
                handled += 1
                break
            exceptions.append(run.error)
            ruling = rule_on(run, consumer.profile, now=clock.now(), rand=rand, idempotent=consumer.options.idempotent)
            decisions.append(ruling.decision)
            if not isinstance(ruling.decision, RetryAt):
                context = build_error_context(
                    ruling.failure,
                    at=clock.now(),
                    service=consumer.service,
                    attempts=ruling.history.count(ruling.origin),
                    reason=ruling.decision.reason.value,
                    origin=ruling.origin,
                    history=ruling.history,
                    consumer="inline",
                    stack=ruling.stack,
                )
                original, error_context, origin = encode_dead_letter(message, context)
                entry = [
                    b"original_message",
                    original.encode(),
                    b"error_context",
                    error_context.encode(),
                    b"origin",
                    origin.encode(),
                ]
                letters.append(decode_dead_letter(consumer.queue, f"0-{len(letters) + 1}".encode(), entry))
                break
            await clock.sleep_async(ruling.decision.delay)
            message = StreamMessage(
                message.queue, message.group, message.message_id, fields, message.deliveries + 1, ruling.history
            )
    return InlineRun(
        clock=clock,
        handled=handled,
        decisions=tuple(decisions),
        dead_letters=tuple(letters),
        exceptions=tuple(exceptions),
    )


async def _handle(consumer: Consumer[Any, Any], message: StreamMessage) -> FailedRun | None:
    try:
        value = consumer.parse(message.fields)
    except Exception as error:  # noqa: BLE001 - whatever a validator raises, as in a real consumer
        return FailedRun(message, error, unparseable=True)
    arguments = (value, message) if consumer.takes_message else (value,)
    try:
        if consumer.is_async:
            await asyncio.wait_for(consumer.function(*arguments), consumer.options.timeout)
        else:
            consumer.function(*arguments)
    except Exception as error:  # noqa: BLE001 - the failure is what is asked about
        return FailedRun(message, error)
    return None


def _fields(content: Any, body: str | None) -> list[bytes]:  # noqa: ANN401 - what a test has
    if body is None or (isinstance(content, dict) and body in content):
        return [_bytes(each) for pair in dict(content).items() for each in pair]
    if hasattr(content, "model_dump_json"):
        content = content.model_dump_json()
    elif not isinstance(content, str | bytes):
        content = json.dumps(content)
    return [body.encode(), _bytes(content)]


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
