"""Errors of Redis as an operator reads them: what is wrong, where, what to do. No message holds a password."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from reprieve.app.redaction import redact, register_secret
from reprieve.core.redact import SHORTEST
from reprieve.errors import RefusedError, StoreAddressError, StoreUnavailableError, UsageError
from reprieve.streams.connection import RedisConnection, is_unavailable, parse_address
from reprieve.streams.keys import build_keys, require_one_slot

try:
    from redis.exceptions import AuthenticationError, ClusterCrossSlotError, RedisError, ResponseError
except ModuleNotFoundError as error:
    raise UsageError("streams need redis-py: pip install 'reprieve[redis]'") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reprieve.streams.connection import RedisAddress

_LOGIN: Final = re.compile("uthentication|invalid username-password")


def connect_redis(url: str) -> RedisConnection:
    """Return a connection to the Redis of a URL; raise UsageError for a URL that is wrong."""
    try:
        address = parse_address(url)
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"this is no address of a Redis: {redact(str(error))}") from None
    for options in (address.options, address.sentinel_options):
        password = options.get("password")
        if isinstance(password, str) and len(password) >= SHORTEST:
            register_secret(password, name="redis")  # no text that is redacted shows it from here on
    return RedisConnection(address)


@contextmanager
def readable_errors(address: RedisAddress, queue: str = "") -> Iterator[None]:
    """Turn what Redis and its client raise into errors that say what to do."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise _explained(error, address, queue) from None
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        # redis-py passes the options of a URL on to its connection class, which knows its own only.
        option = str(error).rpartition(" ")[2]
        raise UsageError(f"the URL of the Redis at {address} has an option that there is not: {option}") from None


def _explained(error: Exception, address: RedisAddress, queue: str) -> Exception:
    text = _text(error)
    first = text.partition(" ")[0]
    where = f"the Redis at {address}"
    if isinstance(error, AuthenticationError) or first in ("NOAUTH", "WRONGPASS") or _LOGIN.search(text):
        # redis-py makes a ConnectionError of it where it logs in.
        return StoreAddressError(f"{where} refused the user or password: {text}")
    if not isinstance(error, ResponseError):
        return StoreUnavailableError(f"{where} does not answer: {text}")
    if queue and isinstance(error, ClusterCrossSlotError):
        return _different_slots(queue, text)
    if is_unavailable(error):
        return StoreUnavailableError(f"{where} cannot serve now: {text}")
    if first == "WRONGTYPE" or "wrong kind of value" in text:
        of_queue = f" of {queue}" if queue else ""
        return RefusedError(f"a key{of_queue} is no stream: another program uses that name ({text})")
    return RefusedError(f"{where} refused the command: {text}")


def _different_slots(queue: str, text: str) -> Exception:
    try:
        require_one_slot(build_keys(queue, "g").all(), queue)
    except UsageError as refused:
        return refused
    return RefusedError(f"the keys of {queue} are in different slots: {text}")


def _text(error: BaseException) -> str:
    return redact(str(error)) or type(error).__name__
