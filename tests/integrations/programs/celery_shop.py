"""A Celery application whose failures Reprieve decides about."""

import recorded
from celery import Celery

from reprieve import Backoff
from reprieve.app.profiles import resolve
from reprieve.integrations.celery import install

app = Celery("shop", broker=recorded.URL)
app.conf.update(
    worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True, task_ignore_result=True,
    broker_transport_options={"visibility_timeout": 3600},
)  # fmt: skip
PROFILE = resolve("orchestrator").override(backoff=Backoff(initial=0.3, multiplier=2.0))
failures = install(app, dead_letters=recorded.URL, profile=PROFILE, service="shop")


@app.task(time_limit=1)
def limited(kind, key):
    """Do what is asked for, within a second."""
    recorded.act(kind, key)


@app.task
def work(kind, key):
    """Do what is asked for."""
    recorded.act(kind, key)
