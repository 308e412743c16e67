"""A consumer group that a test moves by hand through the scripts, so that messages fail and are
dead-lettered.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from reprieve.app.judging import classify
from reprieve.core.policy import Cause
from reprieve.streams.connection import RedisConnection, parse_address
from reprieve.streams.dead_letters import build_error_context, encode_dead_letter
from reprieve.streams.history import MessageHistory, read_history
from reprieve.streams.keys import WAITING_CONSUMER, build_keys
from reprieve.streams.message import StreamMessage
from reprieve.streams.scripts import CLAIM_DUE, DEAD_LETTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.redis_servers import RedisServer

QUEUE = "engineering:queue"
GROUP = "workers"
CONSUMER = "reprieve:host:1:abcdef"
_OPEN: list[StreamGroup] = []


async def close_groups() -> None:
    """Close the connections of all groups that a test made."""
    while _OPEN:
        await _OPEN.pop().redis.close()


class StreamGroup:
    """One group of one queue: adds messages, reads them, dead-letters them."""

    def __init__(self, server: RedisServer, queue: str = QUEUE, group: str = GROUP) -> None:
        self.redis = RedisConnection(parse_address(server.url))
        self.queue, self.group = queue, group
        self.keys = build_keys(queue, group)
        _OPEN.append(self)

    async def create(self) -> StreamGroup:
        """Create the group at the beginning of its queue."""
        with suppress(ResponseError):
            await self.redis.call("XGROUP", "CREATE", self.queue, self.group, "0", "MKSTREAM")
        return self

    async def add(self, *fields: bytes | str) -> str:
        """Add a message."""
        return (await self.redis.call("XADD", self.queue, "*", *fields)).decode()

    async def read(self, count: int = 1) -> list[StreamMessage]:
        """Read new messages. One that was replayed as a new entry comes with its history."""
        reply = await self.redis.call(
            "XREADGROUP", "GROUP", self.group, CONSUMER, "COUNT", count, "STREAMS", self.queue, ">"
        )
        found = []
        for message_id, fields in reply[0][1] if reply else ():
            text = await self.redis.call("HGET", self.keys.state, message_id)
            history = None if text is None else read_history(text)
            found.append(StreamMessage(self.queue, self.group, message_id, fields, history=history))
        return found

    async def claim(self, count: int = 10) -> list[StreamMessage]:
        """Claim messages that wait and are due."""
        keys = self.keys
        claimed, *_ = await self.redis.run(
            CLAIM_DUE,
            (keys.queue, keys.dead_letters, keys.waiting, keys.state, keys.suspects, keys.paused),
            self.group,
            CONSUMER,
            WAITING_CONSUMER,
            count,
            0,
            '{"attempts":',
            "}",
        )
        return [
            StreamMessage(self.queue, self.group, message_id, fields, deliveries, read_history(history))
            for message_id, fields, deliveries, history, _ in claimed
        ]

    async def dead_letter(self, message: StreamMessage, error: BaseException) -> str:
        """Dead-letter a message that is held; return the id of the dead letter."""
        failure = classify(error, now=time.time())
        before = message.history or MessageHistory()
        history = before.with_failure(
            Cause.HANDLER,
            at=time.time(),
            started=time.time(),
            error_class=str(failure.error_class),
            error=failure.message,
        )
        context = build_error_context(
            failure,
            at=time.time(),
            service="langgraph",
            attempts=history.handler,
            reason="permanent",
            origin=Cause.HANDLER,
            history=history,
            consumer=CONSUMER,
        )
        keys = self.keys
        dead = await self.redis.run(
            DEAD_LETTER,
            (keys.queue, keys.dead_letters, keys.state, keys.paused, keys.replayed),
            self.group,
            CONSUMER,
            message.message_id,
            message.deliveries,
            *encode_dead_letter(message, context),
            "",
        )
        assert dead, "the message is not held"
        return dead.decode()

    async def fail(self, *fields: bytes | str, error: BaseException | None = None) -> str:
        """Add a message, read it and dead-letter it; return the id of the dead letter."""
        await self.create()
        await self.add(*(fields or ("project", "p-1")))
        (message,) = await self.read()
        return await self.dead_letter(message, ValueError("Invalid project_id") if error is None else error)

    async def acknowledge(self, messages: Sequence[StreamMessage]) -> int:
        """Acknowledge messages."""
        return await self.redis.call("XACK", self.queue, self.group, *(each.message_id for each in messages))

    async def pending(self) -> list[Any]:
        """What is pending: id, consumer, idle, deliveries."""
        return await self.redis.call("XPENDING", self.queue, self.group, "-", "+", 100)

    async def dead_letters(self) -> list[Any]:
        """The entries of the dead-letter stream."""
        return await self.redis.call("XRANGE", self.keys.dead_letters, "-", "+")
