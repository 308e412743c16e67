"""What the tasks of the workers under test do, and where they write it down."""

import json
import os
import signal
import time

import redis

URL = os.environ["REDIS_URL"]
CLIENT = redis.Redis.from_url(URL)


def write(event, key):
    """Write down an event of a task, with the moment."""
    CLIENT.rpush("events", json.dumps({"event": event, "key": key, "at": time.time()}))


def act(kind, key):
    """Fail in the way that is asked for, or be done."""
    write("start", key)
    fail(kind, key)
    write("done", key)


def fail(kind, key):
    match kind:
        case "transient":
            raise ConnectionResetError(104, "the upstream hung up")
        case "once":
            if CLIENT.incr(f"runs:{key}") == 1:
                raise ConnectionResetError(104, "the upstream hung up")
        case "permanent":
            raise ValueError("password=hunter2-correct-horse is no amount")
        case "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        case "slow":
            time.sleep(0.3)
        case "hang" if not CLIENT.get(f"fixed:{key}"):
            time.sleep(600)
        case "fixed" if not CLIENT.get(f"fixed:{key}"):
            raise ValueError("the data is wrong")
