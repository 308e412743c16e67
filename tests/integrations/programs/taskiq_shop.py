"""A Taskiq application whose failures Reprieve decides about."""

import recorded
from taskiq_redis import RedisStreamBroker

from reprieve import Backoff
from reprieve.app.profiles import resolve
from reprieve.integrations.taskiq import ReprieveMiddleware

PROFILE = resolve("orchestrator").override(backoff=Backoff(initial=0.3, multiplier=2.0))
failures = ReprieveMiddleware(recorded.URL, profile=PROFILE, service="shop")
# Messages of a dead worker come back after a second, not after ten minutes.
broker = RedisStreamBroker(
    recorded.URL, consumer_id="0", idle_timeout=1000, xread_block=200, unacknowledged_lock_timeout=5
).with_middlewares(failures)


@broker.task
def work(kind: str, key: str) -> None:
    """Do what is asked for."""
    recorded.act(kind, key)
