"""Celery: tasks retried as a profile decides, dead-lettered with evidence, and replayed by Celery's own send.

app = Celery("shop", broker="redis://localhost/0")
failures = install(app, dead_letters="redis://localhost/0", service="shop")

@app.task
def charge(order_id): ...

failures.replay("celery", "1795030522774-0")
"""

from __future__ import annotations

import json
from time import time
from typing import TYPE_CHECKING, Any, Final

from reprieve.core.timeouts import OperationTimeout, TimeoutAction
from reprieve.errors import UsageError
from reprieve.integrations.tasks import (
    DEFAULT_PROFILE,
    LOG,
    NOT_REPLAYABLE,
    HostTask,
    TaskRecorder,
    build_policy,
    original_fields,
)

try:
    import celery
    from celery.exceptions import Ignore, Reject, Retry, TimeLimitExceeded
    from celery.worker import state as worker_state
    from celery.worker.consumer import Consumer
    from celery.worker.request import Request
    from kombu import serialization
    from kombu.exceptions import KombuError
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] not in {"celery", "kombu"}:
        raise
    raise UsageError("this integration needs Celery: pip install 'reprieve[celery,redis]'") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reprieve.app.profiles import ProfileLike

INTEGRATION: Final = "celery"
RETRY_WITHOUT_REDIS_SECONDS: Final = 30.0
"""When a dead letter cannot be written, the task is tried again after so long."""
_DEFAULT_VISIBILITY_SECONDS: Final = 3600.0
_STARTED, _REPLAYS, _REPLAYED_FROM = "reprieve_started", "reprieve_replays", "reprieve_replayed_from"
_dumps: Callable[..., tuple[str, str, str | bytes]] = serialization.dumps
_loads: Callable[..., Any] = serialization.loads
_UNREADABLE: Final = (KombuError, ValueError, TypeError, LookupError)
_MAX_RETRIES: Final = 1_000_000_000
"""The profile has the budget: Celery's own limit must not end a task before it."""
_ENDED_BY_CELERY: Final = (Ignore, Reject, Retry)


def install(
    app: celery.Celery, *, dead_letters: str, profile: ProfileLike = DEFAULT_PROFILE, service: str = ""
) -> CeleryFailures:
    """Let a profile decide about the failures of an application's tasks, from before the first is declared.

    `dead_letters` is the address of a Redis. A task has its own profile with `@app.task(profile="...")`, and
    is repeated after conflicts with `idempotent=True`.
    """
    if "Task" in app.__dict__:
        raise UsageError("install comes before the first task of the application is declared")
    policy = build_policy(profile, service or app.main or "")
    failures = CeleryFailures(app, TaskRecorder(dead_letters, policy))
    app.task_cls = ReprieveTask
    app.conf.worker_consumer = f"{__name__}:ReprieveConsumer"
    app.reprieve_failures = failures
    return failures


class CeleryFailures:
    """What is done about the failures of one application."""

    def __init__(self, app: celery.Celery, recorder: TaskRecorder) -> None:
        self.app, self.recorder = app, recorder

    def run(self, task: ReprieveTask, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - its own result
        """Run a task that a worker has, and decide about its failure."""
        # Only a message that comes again can have killed a worker: no other costs a round trip.
        again = bool((task.request.delivery_info or {}).get("redelivered"))
        if again:
            self._count_start(task)
        try:
            return task.run(*args, **kwargs)
        except _ENDED_BY_CELERY:
            raise
        except Exception as exc:
            self._decide(task, exc)
            raise
        finally:
            if again:
                self._forget(task)

    def replay(self, queue: str, dead_letter_id: str) -> str | None:
        """Send a dead letter's task again through Celery, and remove the dead letter.

        Returns the task's id, or None where another replay has it. The task has its whole budget again. A crash
        in between leaves the dead letter, and the task can be sent twice.
        """
        letter = self.recorder.begin_replay(queue, dead_letter_id)
        if letter is None:
            return None
        try:
            fields = original_fields(letter, INTEGRATION)
            sent = self._send(fields, replays=letter.replays + 1, replayed_from=dead_letter_id)
        except BaseException:
            self.recorder.cancel_replay(queue, dead_letter_id)
            raise
        self.recorder.finish_replay(queue, dead_letter_id)
        return sent

    def dead_letter_unreadable(self, message: Any, exc: Exception, name: str = "") -> None:  # noqa: ANN401 - kombu's message
        """Keep a message that cannot be made into a call of a task."""
        headers = _headers(message)
        fields = _body_fields(message) | {"headers": json.dumps(headers, default=str).encode()}
        task = self._message_task(message, name or str(headers.get("task") or "unknown"), fields)
        self.recorder.dead_letter(task, self.recorder.policy.decide_unreadable(exc, task))

    def dead_letter_killed(self, message: Any, name: str, seconds: float) -> None:  # noqa: ANN401 - kombu's message
        """Keep a task whose process was killed at its hard time limit."""
        info = message.delivery_info or {}
        fields = _body_fields(message) | {
            "task": name.encode(),
            "id": str(_headers(message).get("id")).encode(),
            "exchange": str(info.get("exchange") or "").encode(),
            "routing_key": str(info.get("routing_key") or "").encode(),
        }
        task = self._message_task(message, name, fields)
        limit = OperationTimeout(name=f"{name} (hard time limit)", seconds=seconds, action=TimeoutAction.KILL)
        found = self.recorder.policy.decide_failure(limit.error("its process was killed"), task)
        self.recorder.dead_letter(task, found)

    def _message_task(self, message: Any, name: str, fields: dict[str, bytes]) -> HostTask:  # noqa: ANN401 - the same
        """The task of a message that no worker process has."""
        headers, info = _headers(message), message.delivery_info or {}
        return HostTask(
            integration=INTEGRATION,
            queue=str(info.get("routing_key") or self.app.conf.task_default_queue),
            name=name,
            id=str(headers.get("id") or (message.properties or {}).get("correlation_id") or ""),
            fields=fields,
            attempt=int(headers.get("retries") or 0) + 1,
            replays=int(headers.get(_REPLAYS) or 0),
            replayed_from=str(headers.get(_REPLAYED_FROM) or ""),
        )

    def _count_start(self, task: ReprieveTask) -> None:
        host = self.host_task(task)
        try:
            if self.recorder.count_first_start(host):
                return
            found = self.recorder.policy.decide_crash(host, self.recorder.starts(host), profile=task.profile)
            if found is None:
                self.recorder.count_start(host)
                return
        except Exception as error:  # noqa: BLE001 - whatever is wrong with Redis, the task runs
            LOG.warning("%s runs without being counted: %s", host, type(error).__name__)
            return
        try:
            self.recorder.dead_letter(host, found)
        except Exception as error:
            LOG.critical("%s: its dead letter cannot be written: %s", host, type(error).__name__)
            raise Reject("its dead letter cannot be written", requeue=True) from error
        raise Reject(found.failure.message, requeue=False)

    def _forget(self, task: ReprieveTask) -> None:
        try:
            self.recorder.forget(self.host_task(task))
        except Exception as error:  # noqa: BLE001 - the task has ended, and its result counts
            LOG.warning("the starts of %s stay counted: %s", task.request.id, type(error).__name__)

    def _decide(self, task: ReprieveTask, exc: Exception) -> None:
        """Raise Celery's Retry, or write the dead letter and return."""
        host = self.host_task(task)
        policy, idempotent = self.recorder.policy, bool(task.idempotent)
        found = policy.decide_failure(exc, host, profile=task.profile, idempotent=idempotent)
        if found.delay is not None:
            self._retry(task, host, exc, found.delay)
        try:
            self.recorder.dead_letter(host, found)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with Redis, the task must not be lost
            LOG.critical("%s: its dead letter cannot be written: %s", host, type(error).__name__)
            if task.request.is_eager:
                return  # an eager retry does not wait: it would never end
            self._retry(task, host, exc, RETRY_WITHOUT_REDIS_SECONDS)

    def _retry(self, task: ReprieveTask, host: HostTask, exc: Exception, delay: float) -> None:
        # A countdown waits in a worker's memory, unacknowledged: after the visibility timeout it comes twice.
        options: Mapping[str, Any] = self.app.conf.broker_transport_options or {}
        longest = float(options.get("visibility_timeout", _DEFAULT_VISIBILITY_SECONDS)) / 2
        headers = dict(task.request.headers or {}) | {_STARTED: host.started or time()}
        raise task.retry(exc=exc, countdown=min(delay, longest), max_retries=_MAX_RETRIES, headers=headers, throw=False)

    def host_task(self, task: ReprieveTask) -> HostTask:
        """The task that a worker runs now."""
        request = task.request
        headers, info = request.headers or {}, request.delivery_info or {}
        serializer = task.serializer or self.app.conf.task_serializer
        content_type, encoding, body = _dumps((request.args, request.kwargs), serializer=serializer)
        return HostTask(
            integration=INTEGRATION,
            queue=str(info.get("routing_key") or self.app.conf.task_default_queue),
            name=task.name,
            id=str(request.id),
            fields={
                "task": task.name.encode(),
                "id": str(request.id).encode(),
                "body": body.encode() if isinstance(body, str) else body,
                "content_type": content_type.encode(),
                "content_encoding": encoding.encode(),
                "exchange": str(info.get("exchange") or "").encode(),
                "routing_key": str(info.get("routing_key") or "").encode(),
            },
            attempt=request.retries + 1,
            started=headers.get(_STARTED),
            replays=int(headers.get(_REPLAYS, 0)),
            replayed_from=str(headers.get(_REPLAYED_FROM, "")),
        )

    def _send(self, fields: dict[str, bytes], *, replays: int, replayed_from: str) -> str:
        if "task" not in fields:
            raise UsageError(NOT_REPLAYABLE)
        content_type = fields["content_type"].decode()
        encoding = fields["content_encoding"].decode()
        # A message of Celery has a third part, which holds callbacks: a replay has none.
        args, kwargs, *_ = _loads(fields["body"], content_type, encoding, accept={content_type})
        exchange, routing_key = fields["exchange"].decode(), fields["routing_key"].decode()
        where: dict[str, Any] = {"queue": routing_key or None}
        if exchange:
            where = {"exchange": exchange, "routing_key": routing_key}
        sent = self.app.send_task(
            fields["task"].decode(),
            args=args,
            kwargs=kwargs,
            task_id=fields["id"].decode(),
            headers={_REPLAYS: replays, _REPLAYED_FROM: replayed_from},
            **where,
        )
        return str(sent.id)


def _headers(message: Any) -> dict[str, Any]:  # noqa: ANN401 - kombu's message
    return message.headers if isinstance(message.headers, dict) else {}


def _body_fields(message: Any) -> dict[str, bytes]:  # noqa: ANN401 - the same
    """The body as it came, and how it is encoded."""
    return {
        "body": message.body.encode() if isinstance(message.body, str) else bytes(message.body or b""),
        "content_type": str(message.content_type or "").encode(),
        "content_encoding": str(message.content_encoding or "").encode(),
    }


class ReprieveRequest(Request):  # type: ignore[misc]  # Celery is untyped
    """A request in a worker's main process, which sees what its worker processes cannot tell."""

    _is_kept = False
    """Whether a task that is killed at its hard time limit was dead-lettered or requeued."""

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - as Celery has it
        """Keep a message whose body no worker process could read.

        Celery calls this with `return_ok` for failures of the task itself, which are decided on by then.
        """
        # A process pool hands exceptions over in a wrapper.
        exc = getattr(exc_info.exception, "exc", exc_info.exception)
        if isinstance(exc, TimeLimitExceeded):
            self._keep_killed(float(exc.args[0]))
        if not return_ok and isinstance(exc, _UNREADABLE):
            self.task.app.reprieve_failures.dead_letter_unreadable(self.message, exc, self.task.name)
        return super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:  # noqa: FBT001 - as Celery has it
        """Keep a task that is killed at its hard time limit: Celery acknowledges it.

        Celery kills the process after this returns, so nothing is raised.
        """
        if not soft:
            self._keep_killed(timeout)
        try:
            super().on_timeout(soft, timeout)
        except Exception as error:  # noqa: BLE001 - the result backend may be the same Redis
            LOG.critical("%s %s: its timeout cannot be reported: %s", self.name, self.id, type(error).__name__)

    def _keep_killed(self, seconds: float) -> None:
        """Write the dead letter once, or requeue the message. A process pool reports a failure, then a timeout."""
        if self._is_kept or worker_state.should_terminate:
            return
        self._is_kept = True
        try:
            self.task.app.reprieve_failures.dead_letter_killed(self.message, self.task.name, seconds)
        except Exception as error:  # noqa: BLE001 - the process must be killed, whatever is wrong with Redis
            LOG.critical("%s %s: its dead letter cannot be written: %s", self.name, self.id, type(error).__name__)
            self._end_killed(kept=False)
        else:
            self._end_killed(kept=True)

    def _end_killed(self, *, kept: bool) -> None:
        """Acknowledge the message, or have the broker deliver it again; later calls change nothing."""
        try:
            if kept:
                self.acknowledge()
            else:
                self.reject(requeue=True)
        except Exception as error:  # noqa: BLE001 - it stays unacknowledged, and the broker delivers it again
            LOG.warning("%s %s cannot be requeued: %s", self.name, self.id, type(error).__name__)
            self.acknowledged = True


class ReprieveTask(celery.Task):  # type: ignore[misc]  # Celery is untyped
    """A task whose failures a profile decides about. It is acknowledged when it has ended, not before."""

    abstract = True
    acks_late = True
    reject_on_worker_lost = True
    Request = ReprieveRequest
    profile: ProfileLike | None = None
    idempotent = False

    def retry(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as Celery has it
        """Send the task again. Celery drops a task whose retry cannot be sent: this one is requeued."""
        try:
            return super().retry(*args, **kwargs)
        except Reject as error:
            LOG.critical("%s %s: its retry cannot be sent: %s", self.name, self.request.id, type(error.reason).__name__)
            raise Reject(error.reason, requeue=True) from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the task's own
        """Run in a worker with decisions about failures; a direct call is a plain call."""
        failures: CeleryFailures | None = getattr(self.app, "reprieve_failures", None)
        if failures is None or self.request.called_directly:
            return super().__call__(*args, **kwargs)
        return failures.run(self, args, kwargs)


class ReprieveConsumer(Consumer):  # type: ignore[misc]  # Celery is untyped
    """A consumer that dead-letters messages that are no task of the application, before Celery drops them."""

    def on_decode_error(self, message: Any, exc: Exception) -> None:  # noqa: ANN401 - kombu's message
        """The body cannot be decoded. Celery's log line would show it, so it is not called."""
        self.app.reprieve_failures.dead_letter_unreadable(message, exc)
        message.ack()

    def on_unknown_message(self, body: Any, message: Any) -> None:  # noqa: ANN401 - the same
        """It is no message of Celery's."""
        self._keep(message, UsageError("this is no message of a Celery task"))
        super().on_unknown_message(body, message)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ANN401 - the same
        """It names a task that this worker does not have."""
        self._keep(message, UsageError(f"no task is named {exc}"))
        super().on_unknown_task(body, message, exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ANN401 - the same
        """Its headers do not fit."""
        self._keep(message, exc)
        super().on_invalid_task(body, message, exc)

    def _keep(self, message: Any, exc: Exception) -> None:  # noqa: ANN401 - the same
        keep: Callable[[Any, Exception], None] = self.app.reprieve_failures.dead_letter_unreadable
        keep(message, exc)
