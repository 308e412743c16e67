"""Dead letters of Redis Streams, and the groups that read them, as operators see and change them.

Every value is redacted. The content of a message is shown only through redaction, except by `export` and
where it is asked for as it is.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import json
import shlex
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.next_steps import NextStep
from reprieve.app.operations.asking import AUDIT, actor_of, reason_of
from reprieve.app.operations.gates import text_of
from reprieve.app.redaction import redact, redact_mapping
from reprieve.core.canary import check_rate
from reprieve.errors import RefusedError, ReprieveError, UnknownNameError, UsageError
from reprieve.streams.closed_dead_letters import (
    REPLAYED,
    AlreadyClosedError,
    ClosedDeadLetter,
    StreamReplay,
    closed_keys,
    discard_dead_letter,
    find_closed,
    host_replay_call,
    parse_closed,
    replay_dead_letter,
)
from reprieve.streams.dead_letters import ORIGINAL_MESSAGE, decode_dead_letter
from reprieve.streams.keys import DEAD_LETTER_SUFFIX, build_keys, dead_letter_stream
from reprieve.streams.operator_errors import readable_errors
from reprieve.streams.pause import GroupPause, pause_group, resume_group
from reprieve.streams.status import read_group_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.dead_letters import StreamDeadLetter
    from reprieve.streams.status import GroupStatus

DEFAULT_RATE: Final = 10.0
"""Replays per second of a bulk replay."""
DEFAULT_MAX_FAILURES: Final = 1
MAX_SHOWN_LENGTH: Final = 4_000
"""Characters of one value of a message that are shown."""
_FIRST_PAGE: Final = 10
_LAST_PAGE: Final = 500
_PAGE_BYTES: Final = 2_000_000
"""Pages grow until they are as large as this. Messages can have any size, and a reply has 5 seconds to come."""
_LOOK_SECONDS: Final = 0.25
"""Between two looks for dead letters that a bulk replay brought back."""
_HOUR: Final = 3600.0
_YEAR_3000: Final = 32_503_680_000.0
"""No time is shown beyond it: an id can be any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeadLetterFilter:
    """Which dead letters of a queue are meant; everything by default."""

    group: str | None = None
    service: str | None = None
    error_class: str | None = None
    category: str | None = None
    since: float | None = None
    """Written to the dead-letter stream at this time or later, in seconds since the epoch."""
    before: float | None = None

    def matches(self, letter: StreamDeadLetter) -> bool:
        """Whether a dead letter is meant; the times are not looked at."""
        wanted = (
            (self.group, letter.group),
            (self.service, letter.service),
            (self.error_class, letter.error_class),
            (self.category, letter.category),
        )
        return all(asked is None or asked == found for asked, found in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeadLetterSummary:
    """A dead letter in a list."""

    dead_letter_id: str
    queue: str
    group: str
    message_id: str
    key: str
    service: str
    error: str
    error_class: str
    category: str
    reason: str
    attempts: int
    replays: int
    at: float
    """When it was added to the dead-letter stream."""
    size: int
    """Bytes of `original_message`."""
    has_content: bool
    """Whether the message can be read, and so be replayed."""
    next: NextStep
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeadLetterDetail:
    """A dead letter with its context and its message."""

    row: StreamDeadLetterSummary
    message: Any
    """The message, redacted: a mapping, or pairs where a name occurs twice; None if it cannot be read."""
    context: Mapping[str, object]
    """The rest of `error_context`, redacted."""
    events: Sequence[Mapping[str, object]]
    """The last failures of the message, over all of its replays."""
    raw: str | None = None
    """`original_message` as it is, where it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDeadLetter:
    """Why nothing was done about one of several dead letters."""

    dead_letter_id: str
    why: str
    closed: ClosedDeadLetter | None = None
    """What became of it, if it was replayed or discarded before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamActResult:
    """What was done about several dead letters."""

    replayed: tuple[StreamReplay, ...] = ()
    discarded: tuple[str, ...] = ()
    refused: tuple[RefusedDeadLetter, ...] = ()


@dataclass(slots=True, kw_only=True)
class StreamBulkReplay:
    """The progress of a bulk replay, and its result."""

    meant: int = 0
    replayed: int = 0
    refused: list[RefusedDeadLetter] = field(default_factory=list)
    skipped: int = 0
    """Dead letters of integrations, which replay them themselves."""
    closed_meanwhile: int = 0
    """Dead letters that another operator replayed or discarded while this ran."""
    failed_again: int = 0
    """Replayed messages that are dead letters again."""
    stopped: str = ""
    """Why it ended early; empty if it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDeadLetterStats:
    """Figures about the dead letters of one queue."""

    queue: str
    depth: int
    oldest_at: float | None
    by_error_class: Mapping[str, int]
    by_category: Mapping[str, int]
    by_group: Mapping[str, int]
    failed_again: int
    """Those whose message was replayed before."""
    bytes: int
    window: float
    inflow_last_hour: int
    inflow_per_hour: float
    replayed: int
    """Within the window, as are those that were discarded."""
    discarded: int


# --- look ---


async def list_dead_letters(
    redis: RedisConnection,
    queues: Sequence[str],
    wanted: StreamDeadLetterFilter = StreamDeadLetterFilter(),  # noqa: B008 - frozen
    *,
    oldest: bool = False,
    after: str | None = None,
    limit: int = 20,
) -> list[StreamDeadLetterSummary]:
    """Return a page of dead letters of these queues, the newest first. The last one's cursor goes on."""
    if limit < 1:
        raise UsageError(f"limit must be at least 1, not {limit}")
    cursor = None if after is None else _Cursor.parse(after)
    pages = []
    for queue in queues:
        found: list[tuple[tuple[int, int, str], StreamDeadLetterSummary]] = []
        async for letter, size in read_letters(redis, queue, wanted, newest_first=not oldest, after=cursor):
            found.append((_order(letter.dead_letter_id, queue), _summary(letter, queue, size)))
            if len(found) == limit:
                break
        pages.append(found)
    merged = heapq.merge(*pages, key=lambda each: each[0], reverse=not oldest)
    return [row for _, row in merged][:limit]


async def show_dead_letter(
    redis: RedisConnection, queue: str, dead_letter_id: str, *, raw: bool = False
) -> StreamDeadLetterDetail | ClosedDeadLetter:
    """Return one dead letter, or the record of one that was replayed or discarded."""
    letter, entry = await _find(redis, queue, dead_letter_id)
    if letter is None:
        closed = await _closed(redis, queue, dead_letter_id)
        if closed is None:
            raise UnknownNameError(f"dead letter of {queue}", dead_letter_id)
        return closed
    text = entry.get(ORIGINAL_MESSAGE.encode(), b"")
    history = {name: value for name, value in letter.history.items() if name != "events"}
    context: dict[object, object] = {"history": history}
    context |= {name: value for name, value in letter.context.items() if name not in _SHOWN_ELSEWHERE}
    events = letter.history.get("events")
    return StreamDeadLetterDetail(
        row=_summary(letter, queue, len(text)),
        message=None if letter.original is None else redact_message(letter.original),
        context=redact_mapping(context),
        events=[redact_mapping(each) for each in events if isinstance(each, dict)] if isinstance(events, list) else [],
        raw=text.decode(errors="backslashreplace") if raw else None,
    )


_SHOWN_ELSEWHERE: Final = frozenset(
    {
        "error",
        "timestamp",
        "service",
        "attempts",
        "error_class",
        "category",
        "reason",
        "history",
    }
)


async def export_dead_letters(
    redis: RedisConnection,
    queues: Sequence[str],
    wanted: StreamDeadLetterFilter = StreamDeadLetterFilter(),  # noqa: B008 - frozen
) -> AsyncIterator[dict[str, object]]:
    """Yield every dead letter, the oldest first, with `original_message` byte for byte; the rest is redacted.

    `original_message` is the JSON text of the dead-letter stream. A text that is not UTF-8, which another
    program wrote, is `{"base64": ...}`.
    """
    for queue in queues:
        async for letter, entry in _scan(redis, queue, wanted, newest_first=False):
            yield {
                "dead_letter_id": letter.dead_letter_id,
                "queue": queue,
                "group": redact(letter.group),
                "message_id": redact(letter.message_id),
                "key": redact(letter.key),
                "original_message": _exported(entry.get(ORIGINAL_MESSAGE.encode())),
                "error_context": redact_mapping(dict(letter.context.items())),
            }


async def compute_stats(redis: RedisConnection, queue: str, *, window: float = 86_400.0) -> StreamDeadLetterStats:
    """Return the figures of a queue. All of its dead letters are read, page by page."""
    classes, categories, groups = Counter[str](), Counter[str](), Counter[str]()
    depth = size = again = last_hour = recent = replayed = discarded = 0
    oldest: float | None = None
    with readable_errors(redis.address, queue):
        now = await _server_time(redis)
    async for letter, length in read_letters(redis, queue, newest_first=False):
        at = time_of(letter.dead_letter_id)
        oldest = at if oldest is None else oldest
        depth, size, again = depth + 1, size + length, again + bool(letter.replays)
        last_hour, recent = last_hour + (at >= now - _HOUR), recent + (at >= now - window)
        classes[redact(letter.error_class)] += 1
        categories[redact(letter.category)] += 1
        groups[redact(letter.group)] += 1
    for dead_letter_id, closed in await _closed_since(redis, queue, now - max(window, _HOUR)):
        at = time_of(dead_letter_id)
        last_hour, recent = last_hour + (at >= now - _HOUR), recent + (at >= now - window)
        if closed.at >= now - window:
            replayed, discarded = replayed + (closed.outcome == REPLAYED), discarded + (closed.outcome != REPLAYED)
    return StreamDeadLetterStats(
        queue=queue,
        depth=depth,
        oldest_at=oldest,
        by_error_class=dict(classes.most_common()),
        by_category=dict(categories.most_common()),
        by_group=dict(groups.most_common()),
        failed_again=again,
        bytes=size,
        window=window,
        inflow_last_hour=last_hour,
        inflow_per_hour=recent * _HOUR / window,
        replayed=replayed,
        discarded=discarded,
    )


async def count_dead_letters(redis: RedisConnection, queue: str, wanted: StreamDeadLetterFilter) -> int:
    """Return how many dead letters of a queue are meant."""
    number = 0
    async for _ in read_letters(redis, queue, wanted, newest_first=False):
        number += 1
    return number


# --- change ---


async def replay_dead_letters(
    redis: RedisConnection, queue: str, dead_letter_ids: Sequence[str], *, actor: str, all_groups: bool = False
) -> StreamActResult:
    """Give dead letters back to their groups, each once. One that is refused does not keep others from it."""
    who = actor_of(actor)
    replayed, refused = [], []
    for dead_letter_id in dict.fromkeys(dead_letter_ids):
        try:
            done = await _replay(redis, queue, dead_letter_id, who, all_groups=all_groups)
        except (RefusedError, UnknownNameError) as error:
            refused.append(_refused(dead_letter_id, error))
        else:
            replayed.append(done)
    return StreamActResult(replayed=tuple(replayed), refused=tuple(refused))


async def discard_dead_letters(
    redis: RedisConnection, queue: str, dead_letter_ids: Sequence[str], *, actor: str, reason: str
) -> StreamActResult:
    """Take dead letters away for good; who, when and why is kept."""
    who, why = actor_of(actor), text_of("the reason", reason)
    discarded, refused = [], []
    for dead_letter_id in dict.fromkeys(dead_letter_ids):
        try:
            letter, _ = await _find(redis, queue, dead_letter_id)
            with readable_errors(redis.address, queue):
                await discard_dead_letter(
                    redis,
                    queue,
                    dead_letter_id,
                    actor=who,
                    reason=why,
                    error_class="" if letter is None else redact(letter.error_class),
                )
        except (RefusedError, UnknownNameError) as error:
            refused.append(_refused(dead_letter_id, error))
        else:
            AUDIT.info("%s discarded dead letter %s of %s: %s", who, dead_letter_id, queue, why)
            discarded.append(dead_letter_id)
    return StreamActResult(discarded=tuple(discarded), refused=tuple(refused))


async def replay_in_bulk(
    redis: RedisConnection,
    queue: str,
    wanted: StreamDeadLetterFilter = StreamDeadLetterFilter(),  # noqa: B008 - frozen
    *,
    actor: str,
    rate: float = DEFAULT_RATE,
    max_failures: int = DEFAULT_MAX_FAILURES,
    all_groups: bool = False,
    result: StreamBulkReplay | None = None,
) -> StreamBulkReplay:
    """Replay the dead letters that there are now, the oldest first, at most `rate` per second.

    It stops when `max_failures` of the replayed messages are dead letters again. What was not replayed stays
    a dead letter, so that the same call goes on where this one ended, also after a crash. `result` is filled
    on the way.
    """
    who, pace = actor_of(actor), check_rate(rate) or DEFAULT_RATE
    if max_failures < 1:
        raise UsageError(f"max_failures must be at least 1, not {max_failures}")
    run = _BulkRun(redis, queue, max_failures, StreamBulkReplay() if result is None else result)
    last = await run.start()
    if last is None:
        return run.result
    run.result.meant = await count_dead_letters(redis, queue, wanted)
    clock = asyncio.get_running_loop().time
    due = clock()
    async for letter, _ in read_letters(redis, queue, wanted, newest_first=False, last=last):
        if letter.integration:
            run.result.skipped += 1
            continue
        await asyncio.sleep(max(0.0, due - clock()))
        if await run.has_failed(now=clock()):
            break
        try:
            await _replay(redis, queue, letter.dead_letter_id, who, all_groups=all_groups)
            run.note_replay(letter.dead_letter_id)
        except AlreadyClosedError:
            run.result.closed_meanwhile += 1
        except (RefusedError, UnknownNameError) as error:
            run.result.refused.append(_refused(letter.dead_letter_id, error))
        due = max(due + 1 / pace, clock())
    await run.has_failed(now=clock(), at_once=True)
    return run.result


async def pause_stream_group(redis: RedisConnection, queue: str, group: str, *, actor: str, reason: str = "") -> bool:
    """Pause a group: its consumers read no more within 2 seconds. False if it was paused before."""
    who, why = actor_of(actor), reason_of(reason)
    await require_group(redis, queue, group)
    with readable_errors(redis.address, queue):
        pause = GroupPause(reason=why, actor=who, at=await _server_time(redis))
        changed = await pause_group(redis, build_keys(queue, group), pause)
    if changed:
        AUDIT.info("%s paused the group %s of %s: %s", who, group, queue, why)
    return changed


async def resume_stream_group(redis: RedisConnection, queue: str, group: str, *, actor: str) -> bool:
    """Let a paused group go on. False if it was not paused."""
    who = actor_of(actor)
    with readable_errors(redis.address, queue):
        changed = await resume_group(redis, build_keys(queue, group))
    if changed:
        AUDIT.info("%s resumed the group %s of %s", who, group, queue)
    else:
        await require_group(redis, queue, group)
    return changed


async def read_queue_status(redis: RedisConnection, queue: str, groups: Sequence[str] = ()) -> list[GroupStatus]:
    """Return how groups of a queue stand; all of its groups by default."""
    known = await list_groups(redis, require_queue(queue))
    if not known:
        raise UnknownNameError("queue with a group", queue)
    found = []
    for group in groups or known:
        with readable_errors(redis.address, queue):
            status = await read_group_status(redis, build_keys(queue, group), group)
        pause = status.paused
        if pause is not None:  # another program may have written it
            pause = replace(pause, reason=redact(str(pause.reason)), actor=redact(str(pause.actor)))
        found.append(replace(status, paused=pause))
    return found


async def list_groups(redis: RedisConnection, queue: str) -> list[str]:
    """Return the names of a queue's groups; none for a queue that does not exist."""
    with readable_errors(redis.address, queue):
        if not await redis.call("EXISTS", queue):
            return []
        rows = await redis.call("XINFO", "GROUPS", queue)
    return [row[row.index(b"name") + 1].decode(errors="replace") for row in rows]


async def require_group(redis: RedisConnection, queue: str, group: str) -> None:
    """Refuse a group that the queue does not have."""
    known = await list_groups(redis, queue)
    if group not in known:
        raise UnknownNameError(f"group of {queue}", group, tuple(known))


# --- inside ---


@dataclass(frozen=True, slots=True)
class _Cursor:
    """A place in the order of several queues: time, number, name of the queue."""

    entry_id: str
    queue: str

    @classmethod
    def parse(cls, text: str) -> _Cursor:
        entry_id, _, queue = text.partition("@")
        return cls(require_entry_id(entry_id), queue)


class _BulkRun:
    """What a bulk replay knows while it runs."""

    def __init__(self, redis: RedisConnection, queue: str, max_failures: int, result: StreamBulkReplay) -> None:
        self._redis, self._queue, self._max = redis, queue, max_failures
        self._ids: set[str] = set()
        self._seen = "0-0"
        self._looked = float("-inf")
        self.result = result

    async def start(self) -> str | None:
        """Return the newest dead letter: what comes later failed meanwhile, and is not replayed again."""
        with readable_errors(self._redis.address, self._queue):
            newest = await self._redis.call("XREVRANGE", dead_letter_stream(self._queue), "+", "-", "COUNT", 1)
        if not newest:
            return None
        self._seen = newest[0][0].decode()
        return self._seen

    def note_replay(self, dead_letter_id: str) -> None:
        self._ids.add(dead_letter_id)
        self.result.replayed += 1

    async def has_failed(self, *, now: float, at_once: bool = False) -> bool:
        """Look, now and then, whether so many have failed again that the bulk replay stops."""
        if not self._ids or (not at_once and now < self._looked + _LOOK_SECONDS):
            return bool(self.result.stopped)
        self._looked = now
        error = ""
        async for letter, _ in read_letters(
            self._redis, self._queue, newest_first=False, after=_Cursor(self._seen, "")
        ):
            self._seen = letter.dead_letter_id
            if letter.history.get("replayed_from") in self._ids:
                self.result.failed_again += 1
                error = error or redact(letter.error)
        if self.result.failed_again >= self._max and not self.result.stopped:
            self.result.stopped = f"{self.result.failed_again} of the replayed messages failed again: {error}"
        return bool(self.result.stopped)


async def read_letters(
    redis: RedisConnection,
    queue: str,
    wanted: StreamDeadLetterFilter = StreamDeadLetterFilter(),  # noqa: B008 - frozen
    *,
    newest_first: bool,
    after: _Cursor | None = None,
    last: str | None = None,
) -> AsyncIterator[tuple[StreamDeadLetter, int]]:
    """Yield the dead letters that a filter finds, each with the size of its message in bytes."""
    async for letter, entry in _scan(redis, queue, wanted, newest_first=newest_first, after=after, last=last):
        yield letter, len(entry.get(ORIGINAL_MESSAGE.encode(), b""))


async def _scan(
    redis: RedisConnection,
    queue: str,
    wanted: StreamDeadLetterFilter,
    *,
    newest_first: bool,
    after: _Cursor | None = None,
    last: str | None = None,
) -> AsyncIterator[tuple[StreamDeadLetter, dict[bytes, bytes]]]:
    stream = dead_letter_stream(require_queue(queue))
    low = "-" if wanted.since is None else f"{int(wanted.since * 1000)}-0"
    high = last or "+"
    if wanted.before is not None:
        before = f"{max(0, int(wanted.before * 1000) - 1)}-{2**64 - 1}"
        high = before if last is None else min(before, last, key=lambda each: _order(each, ""))
    if after is not None:
        # Of another queue, the entry with the same id may not have been listed yet.
        includes = after.queue and (queue < after.queue if newest_first else queue > after.queue)
        place = after.entry_id if includes else f"({after.entry_id}"
        low, high = (low, place) if newest_first else (place, high)
    count = _FIRST_PAGE
    while True:
        command = ("XREVRANGE", stream, high, low) if newest_first else ("XRANGE", stream, low, high)
        with readable_errors(redis.address, queue):
            page = await redis.call(*command, "COUNT", count)
        for entry_id, fields in page:
            letter = decode_dead_letter(queue, entry_id, fields)
            if wanted.matches(letter):
                yield letter, dict(zip(fields[::2], fields[1::2], strict=True))
        if len(page) < count:
            return
        size = sum(len(value) for _, fields in page for value in fields)
        count = min(2 * count, _LAST_PAGE) if size < _PAGE_BYTES else max(1, count // 4)
        place = f"({page[-1][0].decode()}"
        low, high = (low, place) if newest_first else (place, high)


async def _find(
    redis: RedisConnection, queue: str, dead_letter_id: str
) -> tuple[StreamDeadLetter | None, dict[bytes, bytes]]:
    entry_id = require_entry_id(dead_letter_id)
    require_queue(queue)
    with readable_errors(redis.address, queue):
        found = await redis.call("XRANGE", dead_letter_stream(queue), entry_id, entry_id)
    if not found:
        return None, {}
    fields = found[0][1]
    return decode_dead_letter(queue, found[0][0], fields), dict(zip(fields[::2], fields[1::2], strict=True))


async def _closed(redis: RedisConnection, queue: str, dead_letter_id: str) -> ClosedDeadLetter | None:
    with readable_errors(redis.address, queue):
        return await find_closed(redis, queue, dead_letter_id)


async def _closed_since(redis: RedisConnection, queue: str, since: float) -> list[tuple[str, ClosedDeadLetter]]:
    records, times = closed_keys(queue)
    with readable_errors(redis.address, queue):
        ids = await redis.call("ZRANGEBYSCORE", times, int(since * 1000), "+inf")
        texts = await redis.call("HMGET", records, *ids) if ids else []
    return [(each.decode(), parse_closed(text)) for each, text in zip(ids, texts, strict=True) if text is not None]


async def _replay(
    redis: RedisConnection, queue: str, dead_letter_id: str, actor: str, *, all_groups: bool
) -> StreamReplay:
    letter, _ = await _find(redis, queue, dead_letter_id)
    if letter is None:
        closed = await _closed(redis, queue, dead_letter_id)
        if closed is None:
            raise UnknownNameError(f"dead letter of {queue}", dead_letter_id)
        raise AlreadyClosedError(queue, dead_letter_id, closed)
    if not letter.group:  # another program wrote it; a queue with one group leaves no doubt
        groups = await list_groups(redis, queue)
        letter = replace(letter, group=groups[0]) if len(groups) == 1 else letter
    with readable_errors(redis.address, queue):
        done = await replay_dead_letter(redis, queue, letter, actor=actor, all_groups=all_groups)
    AUDIT.info("%s replayed dead letter %s of %s as message %s", actor, dead_letter_id, queue, done.message_id)
    return done


def _refused(dead_letter_id: str, error: ReprieveError) -> RefusedDeadLetter:
    return RefusedDeadLetter(
        dead_letter_id=dead_letter_id,
        why=str(error),
        closed=error.closed if isinstance(error, AlreadyClosedError) else None,
    )


async def _server_time(redis: RedisConnection) -> float:
    seconds, microseconds = await redis.call("TIME")
    return int(seconds) + int(microseconds) / 1e6


def require_queue(name: str) -> str:
    """Return the name of a queue; refuse the name of its dead-letter stream."""
    if name.endswith(DEAD_LETTER_SUFFIX):
        raise UsageError(f"{name!r} is a dead-letter stream: name its queue, {name.removesuffix(DEAD_LETTER_SUFFIX)!r}")
    return name


def require_entry_id(text: str) -> str:
    """Return the id of an entry in full; refuse what cannot be one."""
    time, dash, number = text.strip().partition("-")
    if not (time.isdecimal() and time.isascii()) or (dash and not (number.isdecimal() and number.isascii())):
        raise UsageError(
            f"{text!r} is no id of a dead letter, such as 1795030522774-0; `reprieve streams list` shows them"
        )
    whole = int(time), int(number or 0)
    if max(whole) >= 2**64:
        raise UsageError(f"{text!r} is no id of a dead letter: its numbers have 64 bits")
    return f"{whole[0]}-{whole[1]}"


def _order(dead_letter_id: str, queue: str) -> tuple[int, int, str]:
    time, _, number = dead_letter_id.partition("-")
    return int(time), int(number), queue


def time_of(dead_letter_id: str) -> float:
    """Return when an entry was added, in seconds since the epoch."""
    return min(int(dead_letter_id.partition("-")[0]) / 1000, _YEAR_3000)


def _summary(letter: StreamDeadLetter, queue: str, size: int) -> StreamDeadLetterSummary:
    return StreamDeadLetterSummary(
        dead_letter_id=letter.dead_letter_id,
        queue=queue,
        group=redact(letter.group),
        message_id=redact(letter.message_id),
        key=redact(letter.key),
        service=redact(letter.service),
        error=redact(letter.error),
        error_class=redact(letter.error_class),
        category=redact(letter.category),
        reason=redact(letter.reason),
        attempts=letter.attempts,
        replays=letter.replays,
        at=time_of(letter.dead_letter_id),
        size=size,
        has_content=bool(letter.original),
        next=_next_step(letter, queue),
        cursor=f"{letter.dead_letter_id}@{queue}",
    )


def _next_step(letter: StreamDeadLetter, queue: str) -> NextStep:
    where = f"{shlex.quote(queue)} {letter.dead_letter_id}"
    if letter.integration:
        host, call = redact(letter.integration.title()), host_replay_call(letter, queue)
        if call is not None:
            return NextStep(what=f"replay it in your program, through {host}, once its cause is fixed", command=call)
        what = f"correct the message, which {host} could not read, send it by hand, and discard the dead letter"
        return NextStep(what=what, command=f"reprieve streams discard {where} --reason '...'")
    if not letter.original:
        what = "discard it: its content is gone, so it cannot be replayed"
        return NextStep(what=what, command=f"reprieve streams discard {where} --reason '...'")
    hint = "it failed again after a replay: see what the last one changed" if letter.replays else None
    retryable = letter.context.get("retryable") is True
    what = "replay it once its upstream works" if retryable else "replay it once its cause is fixed"
    return NextStep(what=what, command=f"reprieve streams replay {where}", hint=hint)


def redact_message(fields: Sequence[bytes]) -> dict[str, object] | list[list[object]]:
    """Return the fields of a message for people, redacted; a list of pairs where a name occurs twice."""
    pairs = [(_text(fields[index]), fields[index + 1]) for index in range(0, len(fields), 2)]
    shown = [next(iter(redact_mapping({name: _opened(value)}).items())) for name, value in pairs]
    cut = [(name, _cut(value)) for name, value in shown]
    if len({name for name, _ in pairs}) == len(pairs) == len(dict(cut)):
        return dict(cut)
    return [[name, value] for name, value in cut]


def _opened(value: bytes) -> object:
    """What a field holds: values where it is a JSON object or list, else its text."""
    text = _text(value)
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"<{len(value):,} bytes that are no text>"


def _cut(value: object) -> object:
    """A redacted value that is not too long for a screen."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= MAX_SHOWN_LENGTH:
        return value
    return f"{text[:MAX_SHOWN_LENGTH]}... [{len(text) - MAX_SHOWN_LENGTH:,} characters cut]"


def _exported(text: bytes | None) -> object:
    if text is None:
        return None
    try:
        return text.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(text).decode()}
