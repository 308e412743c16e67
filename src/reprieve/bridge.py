"""From a stream into the engine: each message of a queue becomes a job.

A message is acknowledged only after the transaction that stores its job. Its key makes the job one, however often
the message is delivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from reprieve.core.backoff import Backoff, Jitter
from reprieve.core.failure import ErrorClass
from reprieve.core.policy import MOST_ATTEMPTS, Policy
from reprieve.errors import PayloadError, Permanent, SubmitError
from reprieve.streams.consumer import Consumer, ConsumerOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.app.application import App
    from reprieve.app.pipeline import Pipeline
    from reprieve.ports.alerting import Sink
    from reprieve.streams.message import StreamMessage

KEY_PREFIX: Final = "stream:"
"""The beginning of an idempotency key that is made from the id of a message."""
_CONCURRENCY: Final = 100
_POLICY: Final = Policy(
    name="bridge",
    max_attempts=MOST_ATTEMPTS,
    backoff=Backoff(initial=1.0, maximum=30.0, jitter=Jitter.full()),
)
"""While the database is away, messages wait: an outage makes no dead letters."""


def build_bridge(  # noqa: PLR0913 - a table of settings, by keyword
    app: App,
    pipeline: Pipeline,
    queue: str,
    *,
    group: str,
    body: str | None = None,
    key_field: str | None = None,
    concurrency: int = _CONCURRENCY,
    shutdown_timeout: float = 30.0,
    sinks: Callable[[], Sequence[Sink]] = tuple,
) -> Consumer[[object, StreamMessage], Any]:
    """Build a consumer that submits each message of a queue to a pipeline of an open application.

    Args:
        app: an open application, which stores the jobs.
        pipeline: what the jobs are of; the payload is the message.
        queue: the stream to read.
        group: the consumer group to read it as.
        body: the field that holds the payload as JSON; all fields as a mapping if none is named.
        key_field: the field of the payload whose text is the idempotency key; `stream:QUEUE:ID` if none is named.
        concurrency: how many messages are submitted at a time; the engine stores them in few transactions.
        shutdown_timeout: seconds that messages in submission have when the bridge is stopped.
        sinks: what alerts of the group are sent to.
    """

    async def submit(content: object, message: StreamMessage) -> None:
        key = f"{KEY_PREFIX}{message.key}" if key_field is None else _key_in(content, key_field)
        try:
            made = await app.submit(pipeline, content, idempotency_key=key)
        except (PayloadError, SubmitError) as error:
            raise Permanent(str(error), error_class=ErrorClass.SCHEMA_INVALID) from error
        if made.mismatch:
            raise Permanent(
                f"job {made.job_id} has the same idempotency key and another payload: correct the key, or discard this"
            )

    options = ConsumerOptions(
        body=body,
        concurrency=concurrency,
        prefetch=2 * concurrency,
        shutdown_timeout=shutdown_timeout,
        idempotent=True,
    )
    return Consumer(
        submit, queue, group=group, profile=_POLICY, service=f"bridge to {pipeline.name}", options=options, sinks=sinks
    )


def _key_in(content: object, key_field: str) -> str:
    """Return the idempotency key that a payload holds."""
    if not isinstance(content, Mapping):
        raise Permanent(
            f"the payload is no object, so it has no field {key_field!r} for the key",
            error_class=ErrorClass.SCHEMA_INVALID,
        )
    key = content.get(key_field)
    if isinstance(key, bool) or not isinstance(key, str | int) or key == "":
        raise Permanent(
            f"the field {key_field!r} holds no key: a text or a whole number", error_class=ErrorClass.SCHEMA_INVALID
        )
    return str(key)
