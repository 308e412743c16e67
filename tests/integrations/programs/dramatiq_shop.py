"""A Dramatiq application whose failures Reprieve decides about."""

import dramatiq
import recorded

from reprieve import Backoff
from reprieve.app.profiles import resolve
from reprieve.integrations.dramatiq import ReprieveRedisBroker

PROFILE = resolve("orchestrator").override(backoff=Backoff(initial=0.3, multiplier=2.0))
# Messages of a dead worker come back after a second, not after a minute.
broker = ReprieveRedisBroker(
    url=recorded.URL, profile=PROFILE, service="shop", heartbeat_timeout=1000, maintenance_chance=1_000_000
)
dramatiq.set_broker(broker)


@dramatiq.actor
def work(kind, key):
    """Do what is asked for."""
    recorded.act(kind, key)
