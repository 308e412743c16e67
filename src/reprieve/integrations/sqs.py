"""Amazon SQS: messages for `handle`, received and ended through a client of boto3.

    queue = SqsQueue(boto3.client("sqs"), url, dead_letter_url=dead_letter_url)
    while True:
        for message in await queue.receive():
            async with handle(message) as item:
                await charge(item.parse(Order))

    await queue.replay()

SQS counts deliveries, and nothing else: a crash takes an attempt like a failure does. A dead letter has the
body of its message, so that SQS can move it back itself; its attributes say why it is there.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any, Final

from reprieve.streams.dead_letters import ERROR_CONTEXT, ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_VISIBILITY_SECONDS: Final = 43_200
"""SQS hides a message for twelve hours at most."""
DEFAULT_MAX_MESSAGE_BYTES: Final = 262_144
"""What the queue of dead letters takes, unless it is told otherwise. A larger body has the next limit."""
_MAX_MESSAGE_BYTES: Final = 1_048_576
_MAX_BATCH: Final = 10
_BYTES_PER_ATTRIBUTE: Final = len("String")
_KEPT_CONTEXT: Final = ("error", "timestamp", "service", "attempts")
_MAX_ERROR: Final = 200


class SqsQueue:
    """A queue and the queue of its dead letters, which must have no redrive policy between them.

    `max_message_bytes` is the `MaximumMessageSize` of the queue of dead letters. Attributes count towards it,
    so the evidence of a large message is cut.
    """

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - boto3 has no types
        url: str,
        *,
        dead_letter_url: str,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    ) -> None:
        self.client, self.url, self.dead_letter_url = client, url, dead_letter_url
        self.max_message_bytes = max_message_bytes

    @property
    def name(self) -> str:
        """The last part of its URL."""
        return self.url.rpartition("/")[2]

    async def receive(self, *, limit: int = _MAX_BATCH, wait_seconds: int = 20) -> list[SqsMessage]:
        """Wait for messages. One that does not end within the visibility timeout is delivered again."""
        found = await self.call(
            self.client.receive_message,
            QueueUrl=self.url,
            MaxNumberOfMessages=min(limit, _MAX_BATCH),
            WaitTimeSeconds=wait_seconds,
            MessageSystemAttributeNames=["ApproximateReceiveCount", "MessageGroupId"],
        )
        return [SqsMessage(self, each) for each in found.get("Messages", [])]

    async def replay(self, *, limit: int = _MAX_BATCH) -> int:
        """Send dead letters to the queue again, and remove them; return how many there were.

        A crash in between leaves the dead letter, and its message can be sent twice.
        """
        found = await self.call(
            self.client.receive_message,
            QueueUrl=self.dead_letter_url,
            MaxNumberOfMessages=min(limit, _MAX_BATCH),
            MessageSystemAttributeNames=["MessageGroupId"],
        )
        letters = found.get("Messages", [])
        for each in letters:
            await self.send(self.url, each, attributes={})
            await self.call(
                self.client.delete_message, QueueUrl=self.dead_letter_url, ReceiptHandle=each["ReceiptHandle"]
            )
        return len(letters)

    async def send(self, url: str, message: Mapping[str, Any], *, attributes: Mapping[str, str]) -> None:
        """Send a message's body, with attributes."""
        fifo: dict[str, str] = {}
        group = message.get("Attributes", {}).get("MessageGroupId")
        if group:
            fifo = {"MessageGroupId": group, "MessageDeduplicationId": message["MessageId"]}
        await self.call(
            self.client.send_message,
            QueueUrl=url,
            MessageBody=message["Body"],
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
            **fifo,
        )

    async def call(self, function: Callable[..., Any], **parameters: Any) -> Any:  # noqa: ANN401 - boto3 has no types
        """Call the client in a thread: boto3 blocks."""
        return await asyncio.to_thread(function, **parameters)


class SqsMessage:
    """One delivery of a message of SQS."""

    integration = "sqs"

    def __init__(self, queue: SqsQueue, received: Mapping[str, Any]) -> None:
        self._queue, self._received = queue, received

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._queue.name

    @property
    def id(self) -> str:
        """The message's id."""
        return str(self._received["MessageId"])

    @property
    def deliveries(self) -> int:
        """How often SQS has delivered it, about."""
        return int(self._received.get("Attributes", {}).get("ApproximateReceiveCount", 1))

    @property
    def body(self) -> bytes:
        """The body."""
        return str(self._received["Body"]).encode()

    async def complete(self) -> None:
        """Delete it."""
        queue, receipt = self._queue, self._received["ReceiptHandle"]
        await queue.call(queue.client.delete_message, QueueUrl=queue.url, ReceiptHandle=receipt)

    async def retry(self, delay: float) -> None:
        """Hide it for so long, in whole seconds: never less than asked for, and at most twelve hours."""
        seconds = min(math.ceil(delay), MAX_VISIBILITY_SECONDS)
        queue, receipt = self._queue, self._received["ReceiptHandle"]
        await queue.call(
            queue.client.change_message_visibility,
            QueueUrl=queue.url,
            ReceiptHandle=receipt,
            VisibilityTimeout=seconds,
        )

    async def dead_letter(self, fields: Mapping[str, str]) -> None:
        """Send it to the queue of dead letters, then delete it. A crash in between can leave two dead letters."""
        size, limit = len(self.body), self._queue.max_message_bytes
        attributes = _fit_attributes(fields, (limit if size <= limit else _MAX_MESSAGE_BYTES) - size)
        await self._queue.send(self._queue.dead_letter_url, self._received, attributes=attributes)
        await self.complete()


def _fit_attributes(fields: Mapping[str, str], room: int) -> dict[str, str]:
    """The attributes of a dead letter, cut to so many bytes: the stack first, the error's words last."""
    attributes = {name: fields[name] for name in (ERROR_CONTEXT, ORIGIN)}
    context: dict[str, Any] = json.loads(fields[ERROR_CONTEXT])
    excess = _size(attributes) - room
    stack = str(context.get("stack") or "")
    if excess > 0 and stack:
        # A character takes at least a byte of the JSON. The end of a stack says where it was raised.
        context["stack"] = stack[excess:]
        attributes[ERROR_CONTEXT] = json.dumps(context)
    if _size(attributes) > room:
        brief = {name: context[name] for name in _KEPT_CONTEXT if name in context}
        attributes[ERROR_CONTEXT] = json.dumps(brief)
    if _size(attributes) > room:
        del attributes[ORIGIN]
        attributes[ERROR_CONTEXT] = json.dumps(brief | {"error": str(brief.get("error", ""))[:_MAX_ERROR]})
    return attributes if _size(attributes) <= room else {}


def _size(attributes: Mapping[str, str]) -> int:
    """What SQS counts: names, types and values."""
    return sum(len(name) + _BYTES_PER_ATTRIBUTE + len(value.encode()) for name, value in attributes.items())
