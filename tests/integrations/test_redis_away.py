"""Tasks survive a Redis that goes away at the moment of their failure."""

import asyncio
import threading
import time
from contextlib import contextmanager

import dramatiq
import pytest

from reprieve import Backoff
from reprieve.app.profiles import resolve
from reprieve.integrations import dramatiq as dramatiq_integration
from support.redis_proxy import redis_proxy

PROFILE = resolve("orchestrator").override(backoff=Backoff(initial=0.05))


class Proxy:
    """A proxy in front of a Redis, for threads."""

    def __init__(self, loop, proxy):
        self._loop, self._proxy, self.url = loop, proxy, proxy.url

    def cut(self):
        self._call(self._proxy.cut)

    def mend(self):
        self._call(self._proxy.mend)

    def _call(self, function):
        async def call():
            function()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result()


@pytest.fixture
def proxy(redis_server):
    started, ended, found = threading.Event(), asyncio.Event(), []

    async def main():
        async with redis_proxy(f"{redis_server.folder}/redis.sock") as opened:
            found.append(Proxy(asyncio.get_running_loop(), opened))
            started.set()
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    started.wait()
    yield found[0]
    found[0]._call(ended.set)
    thread.join()


def wait(what):
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def dramatiq_worker(proxy, act, monkeypatch):
    """A worker of Dramatiq with one actor."""
    monkeypatch.setattr(dramatiq.worker, "POST_PROCESS_MESSAGE_RETRY_DELAY_SECS", 0.05)
    monkeypatch.setattr(dramatiq.worker, "CONSUMER_RESTART_DELAY_SECS", 0.05)
    monkeypatch.setattr(dramatiq_integration, "FIRST_PAUSE_SECONDS", 0.02, raising=False)
    broker = dramatiq_integration.ReprieveRedisBroker(url=proxy.url, profile=PROFILE)
    broker.declare_actor(
        dramatiq.Actor(act, broker=broker, actor_name="act", queue_name="default", priority=0, options={})
    )
    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=1)
    worker.start()
    try:
        yield broker, worker
    finally:
        worker.stop()
        broker.close()


def messages_of(redis_server):
    """How many messages Dramatiq has not acknowledged, delayed or not."""
    return sum(redis_server.call("HLEN", f"dramatiq:default{kind}.msgs") for kind in ("", ".DQ"))


def test_a_dramatiq_message_is_retried_when_redis_is_back(proxy, redis_server, monkeypatch):
    runs, tried = [], threading.Event()

    def act():
        runs.append(1)
        if len(runs) == 1:
            proxy.cut()
            tried.set()
            raise ConnectionResetError(104, "reset")

    with dramatiq_worker(proxy, act, monkeypatch) as (broker, _):
        broker.enqueue(broker.get_actor("act").message())
        assert tried.wait(10)
        time.sleep(0.2)
        proxy.mend()
        wait(lambda: messages_of(redis_server) == 0)
        assert len(runs) == 2


def test_a_dramatiq_message_whose_retry_cannot_be_enqueued_is_not_acknowledged_at_a_shutdown(
    proxy, redis_server, monkeypatch
):
    tried, refused = threading.Event(), threading.Event()

    def act():
        tried.set()
        raise ConnectionResetError(104, "reset")

    with dramatiq_worker(proxy, act, monkeypatch) as (broker, worker):

        def refuse(*_arguments):
            refused.set()
            raise ConnectionError

        message = broker.get_actor("act").message()
        broker.enqueue(message)
        monkeypatch.setattr(broker, "do_enqueue", refuse)
        assert tried.wait(10)
        assert refused.wait(10)
        worker.stop()
        assert messages_of(redis_server) == 1
