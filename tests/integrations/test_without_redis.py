"""Tasks are neither lost nor stopped while the Redis of their dead letters cannot be reached."""

import asyncio
import logging

import celery
import dramatiq
import pytest
import redis
import taskiq
from billiard.einfo import ExceptionInfo
from billiard.exceptions import TimeLimitExceeded as HardLimitExceeded
from celery.app.trace import build_tracer
from celery.exceptions import Reject
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Shutdown, TimeLimitExceeded
from taskiq.receiver import Receiver

from reprieve.core.policy import Policy
from reprieve.errors import UsageError
from reprieve.integrations import celery as celery_integration
from reprieve.integrations import dramatiq as dramatiq_integration
from reprieve.integrations.taskiq import ReprieveMiddleware

UNREACHABLE = "redis://127.0.0.1:1/0"


@pytest.fixture
def actor():
    """An actor on a broker in memory, and the middleware."""
    broker = StubBroker()
    failures = dramatiq_integration.install(broker, dead_letters=UNREACHABLE)

    @dramatiq.actor(broker=broker)
    def work(): ...

    yield work
    broker.close()
    assert failures in broker.middleware


def proxy(actor, **options):
    return dramatiq.broker.MessageProxy(actor.message_with_options(args=(), **options))


def processed(actor, exception, **options):
    """What a message leads to that raises this: itself, and what was enqueued because of it."""
    message = proxy(actor, **options)
    actor.broker.emit_before("process_message", message)
    actor.broker.emit_after("process_message", message, exception=exception)
    found = [each for queue in actor.broker.queues.values() for each in queue.queue]
    return message, [dramatiq.Message.decode(each) for each in found]


def test_a_dramatiq_message_whose_dead_letter_cannot_be_written_is_tried_again_later(actor, caplog):
    with caplog.at_level(logging.WARNING, "reprieve.integrations"):
        message, (again,) = processed(actor, ValueError("bug"))
    assert again.options["eta"] > 0
    assert again.options["retries"] == 1
    assert not message.failed
    said = [record.getMessage() for record in caplog.records]
    assert any("runs without being counted" in each for each in said)
    assert any("its dead letter cannot be written" in each for each in said)


def test_a_dramatiq_message_that_a_shutdown_interrupts_keeps_its_attempts(actor):
    _, (again,) = processed(actor, Shutdown(), retries=2)
    assert again.options["retries"] == 2


def test_a_dramatiq_message_that_exceeds_its_time_limit_is_retried(actor):
    _, (again,) = processed(actor, TimeLimitExceeded())
    assert again.options["retries"] == 1


def test_a_celery_task_whose_dead_letter_cannot_be_written_has_failed_where_it_cannot_wait(caplog):
    app = celery.Celery("shop", broker="memory://", set_as_current=False)
    celery_integration.install(app, dead_letters=UNREACHABLE)

    @app.task
    def work():
        raise ValueError("bug")

    result = work.apply()
    assert (result.state, type(result.result)) == ("FAILURE", ValueError)
    assert any("its dead letter cannot be written" in record.getMessage() for record in caplog.records)
    with pytest.raises(ValueError, match="bug"):
        work()
    with pytest.raises(UsageError, match="before the first task"):
        celery_integration.install(app, dead_letters=UNREACHABLE)


def test_an_eager_celery_task_is_retried_until_its_budget_is_spent():
    app = celery.Celery("shop", broker="memory://", set_as_current=False)
    celery_integration.install(app, dead_letters=UNREACHABLE)
    runs = []

    @app.task
    def work():
        runs.append(1)
        raise ConnectionResetError(104, "reset")

    work.apply()
    assert len(runs) == 4


def test_a_budget_above_the_retries_of_celery_is_kept_and_those_of_a_task_are_its_own():
    app = celery.Celery("shop", broker="memory://", set_as_current=False)
    celery_integration.install(app, dead_letters=UNREACHABLE, profile=Policy(max_attempts=7))
    runs = []

    @app.task(bind=True)
    def work(self, own):
        runs.append(1)
        if own:
            raise self.retry(exc=ValueError("bug"), countdown=0)
        raise ConnectionResetError(104, "reset")

    work.apply((False,))
    assert len(runs) == 7
    runs.clear()
    work.apply((True,))
    assert len(runs) == 4


class Sent:
    """A message of Celery as a worker has it, and what became of it."""

    def __init__(self, app, task):
        self.body, self.content_type, self.content_encoding = b"[[], {}, {}]", "application/json", "utf-8"
        self.headers = {"task": task.name, "id": "t-1", "retries": 0}
        self.properties, self.delivery_info, self.payload = {}, {"routing_key": "celery"}, [[], {}, {}]
        self.ended = []
        self.request = celery_integration.ReprieveRequest(
            self, app=app, task=task, hostname="h", on_ack=self.ack, on_reject=self.reject,
            body=self.body, headers=self.headers, decoded=False, connection_errors=(ConnectionError,),
        )  # fmt: skip

    def ack(self, *_):
        self.ended.append("ack")

    def reject(self, _log, _errors, requeue):
        self.ended.append(("reject", requeue))


@pytest.fixture
def celery_app():
    """An application whose broker and dead letters cannot be reached."""
    app = celery.Celery("shop", broker=UNREACHABLE, set_as_current=False)
    app.conf.update(task_publish_retry=False, broker_transport_options={"max_retries": 0})
    celery_integration.install(app, dead_letters=UNREACHABLE)
    return app


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), ValueError("bug")], ids=["retry", "dead letter"])
def test_a_celery_task_whose_retry_cannot_be_sent_is_requeued(celery_app, error):
    @celery_app.task(shared=False)
    def work():
        raise error

    traced = build_tracer(work.name, work, app=celery_app)("t-1", (), {}, {"id": "t-1", "delivery_info": {}})
    assert isinstance(traced.info.retval, Reject)
    assert traced.info.retval.requeue


def timed_out():
    try:
        raise HardLimitExceeded(1)
    except HardLimitExceeded:
        return ExceptionInfo()


def test_a_celery_task_beyond_its_hard_limit_is_killed_and_requeued_when_its_dead_letter_cannot_be_written(celery_app):
    @celery_app.task(shared=False)
    def work(): ...

    sent = Sent(celery_app, work)
    # As billiard does before it kills the process.
    sent.request.on_failure(timed_out())
    sent.request.on_timeout(soft=False, timeout=1)
    assert sent.ended == [("reject", True)]


def test_a_celery_task_beyond_its_hard_limit_is_killed_when_its_result_cannot_be_stored(celery_app, monkeypatch):
    @celery_app.task(shared=False)
    def work(): ...

    sent = Sent(celery_app, work)
    monkeypatch.setattr(celery_app.reprieve_failures, "dead_letter_killed", lambda *_: None)
    monkeypatch.setattr(work.backend, "mark_as_failure", lambda *_, **__: 1 / 0)
    sent.request.on_timeout(soft=False, timeout=1)


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "reset"), ValueError("bug"), asyncio.CancelledError()],
    ids=["retry", "dead letter", "shutdown"],
)  # fmt: skip
def test_a_taskiq_task_whose_retry_or_dead_letter_cannot_be_written_is_left_unacknowledged(error):
    ended = []

    async def main():
        failures = ReprieveMiddleware(UNREACHABLE)
        broker = taskiq.InMemoryBroker().with_middlewares(failures)

        @broker.task
        async def work():
            raise error

        message = broker.formatter.dumps(work.kicker()._prepare_message()).message
        ackable = taskiq.AckableMessage(data=message, ack=lambda: ended.append("ack"))
        failures._listen_to_broker = lambda: listened(ackable)
        async for each in broker.listen():
            with pytest.raises(redis.exceptions.ConnectionError):
                await Receiver(broker, run_startup=False).callback(each)
        assert ended == []
        assert failures._idle.is_set()

    asyncio.run(main())


async def listened(*messages):
    """What a broker delivers."""
    for each in messages:
        yield each


def test_taskiq_goes_on_listening_when_the_dead_letter_of_an_unreadable_message_cannot_be_written():
    acknowledged = []

    async def main():
        failures = ReprieveMiddleware(UNREACHABLE)
        broker = taskiq.InMemoryBroker().with_middlewares(failures)
        work = broker.task(listened)
        good = broker.formatter.dumps(work.kicker()._prepare_message()).message
        unreadable = taskiq.AckableMessage(data=b"{ no json", ack=lambda: acknowledged.append(1))
        failures._listen_to_broker = lambda: listened(unreadable, good)
        return [each async for each in broker.listen()], good

    delivered, good = asyncio.run(main())
    assert (delivered, acknowledged) == ([good], [])
