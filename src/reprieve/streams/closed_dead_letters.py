"""Replay and discard, the two ways in which a dead letter leaves `{queue}:dlq`, and the record of each.

    {queue}:dlq:closed      hash: id of the dead letter -> JSON: outcome, actor, reason, at, message_id, ...
    {queue}:dlq:closed_at   sorted set: id of the dead letter by the server's time in ms when it was closed

The last 10,000 records are kept. They answer a second replay, and they count in the statistics.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from reprieve.app.redaction import redact
from reprieve.errors import RefusedError, UnknownNameError
from reprieve.streams.history import MessageHistory
from reprieve.streams.keys import WAITING_CONSUMER, build_keys, dead_letter_stream
from reprieve.streams.scripts import load_script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.dead_letters import StreamDeadLetter

REPLAY: Final = load_script("replay")
DISCARD: Final = load_script("discard")
MAX_CLOSED: Final = 10_000
_MAX_DELIVERIES: Final = 2**31
REPLAYED: Final = "replayed"
DISCARDED: Final = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedDeadLetter:
    """The record of a dead letter that was replayed or discarded; sanitized."""

    outcome: str
    """`replayed` or `discarded`."""
    actor: str
    reason: str = ""
    at: float = 0.0
    """The server's time."""
    message_id: str = ""
    """Of a replay: the entry that the group gets."""
    error_class: str = ""
    group: str = ""

    def __str__(self) -> str:
        became = f" as message {self.message_id}" if self.message_id else ""
        return f"by {self.actor}{became}{f': {self.reason}' if self.reason else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReplay:
    """A replay that was carried out."""

    dead_letter_id: str
    message_id: str
    is_new_entry: bool
    """The original entry was gone, so the message was added to the queue anew."""


_TEXTS: Final = ("outcome", "actor", "reason", "message_id", "error_class", "group")


class AlreadyClosedError(RefusedError):
    """The dead letter was replayed or discarded before; nothing was changed."""

    def __init__(self, queue: str, dead_letter_id: str, closed: ClosedDeadLetter) -> None:
        """Say what became of it."""
        self.closed = closed
        super().__init__(f"dead letter {dead_letter_id} of {queue} was {closed.outcome} already, {closed}")


def closed_keys(queue: str) -> tuple[str, str]:
    """Return the keys of the records: the hash, and the sorted set."""
    dead_letters = dead_letter_stream(queue)
    return f"{dead_letters}:closed", f"{dead_letters}:closed_at"


async def replay_dead_letter(
    redis: RedisConnection, queue: str, letter: StreamDeadLetter, *, actor: str, all_groups: bool = False
) -> StreamReplay:
    """Give a dead letter back to its group; raise RefusedError if that cannot be, and change nothing then.

    While the original entry exists, it is claimed for the group's waiting consumer, so that no other group
    gets it. Otherwise the message is added to the queue anew. The handler's key and the history stay.
    """
    if letter.integration:
        raise RefusedError(
            f"dead letter {letter.dead_letter_id} of {queue} is not replayed here: {describe_host_replay(letter, queue)}"
        )
    if not letter.original:
        raise RefusedError(
            f"dead letter {letter.dead_letter_id} of {queue} has no content that can be read: its message was trimmed "
            "before it was handled, or another program wrote it; it can only be discarded"
        )
    group = letter.group
    keys = build_keys(queue, group or "none")
    record = ClosedDeadLetter(outcome=REPLAYED, actor=actor, error_class=letter.error_class, group=group)
    reply = await redis.run(
        REPLAY,
        (keys.queue, keys.dead_letters, *closed_keys(queue), keys.waiting, keys.state, keys.replayed),
        letter.dead_letter_id,
        group,
        WAITING_CONSUMER,
        letter.message_id if letter.queue == queue else "",
        min(max(letter.deliveries, 0), _MAX_DELIVERIES),
        history_of_replay(letter).to_json(),
        json.dumps(asdict(record)),
        1 if all_groups else 0,
        MAX_CLOSED,
        *letter.original,
    )
    outcome = reply[0].decode()
    if outcome in ("claimed", "added"):
        return StreamReplay(
            dead_letter_id=letter.dead_letter_id, message_id=reply[1].decode(), is_new_entry=outcome == "added"
        )
    raise _refusal(queue, letter.dead_letter_id, group, outcome, reply[1:])


_HOST_REPLAYS: Final = {"dramatiq": "broker.failures.replay", "taskiq": "await failures.replay"}


def host_replay_call(letter: StreamDeadLetter, queue: str) -> str | None:
    """Return the Python call that replays a dead letter of an integration; None if its message cannot be read."""
    if not {b"task", b"message"} & set((letter.original or [])[::2]):
        return None
    call = _HOST_REPLAYS.get(letter.integration, "failures.replay")
    return f"{call}({queue!r}, {letter.dead_letter_id!r})"


def describe_host_replay(letter: StreamDeadLetter, queue: str) -> str:
    """Return what to do with a dead letter of an integration, in a sentence."""
    host, call = redact(letter.integration.title()), host_replay_call(letter, queue)
    if call is None:
        return f"{host} could not read its message; correct the message, send it by hand, and discard the dead letter"
    return f"it is a task of {host}; replay it in your program with {call}"


async def discard_dead_letter(
    redis: RedisConnection, queue: str, dead_letter_id: str, *, actor: str, reason: str, error_class: str = ""
) -> None:
    """Take a dead letter away for good and record why; raise RefusedError if it was closed before."""
    record = ClosedDeadLetter(outcome=DISCARDED, actor=actor, reason=reason, error_class=error_class)
    reply = await redis.run(
        DISCARD,
        (dead_letter_stream(queue), *closed_keys(queue)),
        dead_letter_id,
        json.dumps(asdict(record)),
        MAX_CLOSED,
    )
    outcome = reply[0].decode()
    if outcome != DISCARDED:
        raise _refusal(queue, dead_letter_id, "", outcome, reply[1:])


async def find_closed(redis: RedisConnection, queue: str, dead_letter_id: str) -> ClosedDeadLetter | None:
    """Return the record of a dead letter that was closed; None if there is none."""
    text = await redis.call("HGET", closed_keys(queue)[0], dead_letter_id)
    return None if text is None else parse_closed(text)


def parse_closed(text: bytes) -> ClosedDeadLetter:
    """Read a record. What is not as this program writes it is left out."""
    try:
        stored = json.loads(text)
    except ValueError:
        stored = None
    known = stored if isinstance(stored, dict) else {}
    texts = {name: known[name] for name in _TEXTS if isinstance(known.get(name), str)}
    at = known.get("at")
    return ClosedDeadLetter(
        **({"outcome": "closed", "actor": "another program"} | texts), at=at if isinstance(at, int | float) else 0.0
    )


def history_of_replay(letter: StreamDeadLetter) -> MessageHistory:
    """Return the history of a replayed message: fresh budgets, the failures so far, one more replay."""
    first, events = letter.history.get("first_failure_at"), letter.history.get("events")
    prefix = f"{letter.queue}:"
    original_id = letter.key.removeprefix(prefix) if letter.key.startswith(prefix) else ""
    return MessageHistory(
        first_failure_at=first if isinstance(first, int | float) else None,
        last_error_class=letter.error_class,
        events=tuple(each for each in events if isinstance(each, dict)) if isinstance(events, list) else (),
        replays=letter.replays + 1,
        replayed_from=letter.dead_letter_id,
        original_id=original_id or letter.message_id,
    )


_REFUSALS: Final = {
    "pending": "its message {detail} in the group {group!r}, which will handle it; discard the dead letter if it is not "
    "needed",
    "undelivered": "the group {group!r} has been set back and will read the message by itself; discard the dead letter "
    "if it is not needed",
    "no_group": "its queue has no group {group!r} any more; start its consumer, which creates the group and reads the "
    "whole queue",
    "other_groups": "its original entry is gone, and a new one would also reach {detail}; --all-groups does it all the "
    "same",
    "too_wide": "its original entry is gone, and its {detail} names and values are too many for a script; export it, "
    "add it with XADD and discard the dead letter",
}


def _refusal(queue: str, dead_letter_id: str, group: str, outcome: str, details: Sequence[Any]) -> Exception:
    texts = [each.decode(errors="replace") if isinstance(each, bytes) else f"{each:,}" for each in details]
    match outcome:
        case "closed":
            return AlreadyClosedError(queue, dead_letter_id, parse_closed(details[0]))
        case "missing":
            return UnknownNameError(f"dead letter of {queue}", dead_letter_id)
        case "wrong_type":
            return wrong_type(texts[0])
        case _:
            detail = _held_by(texts[0]) if outcome == "pending" else ", ".join(texts)
            why = _REFUSALS[outcome].format(detail=detail, group=group)
            return RefusedError(f"dead letter {dead_letter_id} of {queue} is not replayed: {why}")


def _held_by(consumer: str) -> str:
    return "waits" if consumer == WAITING_CONSUMER else f"is held by {consumer!r}"


def wrong_type(key: str) -> RefusedError:
    """Return the error for a key that another program uses."""
    return RefusedError(f"the key {key!r} is not what Reprieve makes of it: another program uses that name")
