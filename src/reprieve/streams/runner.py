"""One running consumer: reads, hands messages to its lanes, and writes what became of them.

Two tasks share two connections. The reader's pipeline acknowledges what is done and reads what is new, in one round
trip for a whole batch. The controller claims retries that are due, writes failures, and looks after the group. No
state of a message is kept that Redis does not have: whatever ends this process, the group goes on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError

from reprieve.app.redaction import redact, redact_exception
from reprieve.core.breaker_state import release_calls, renew_admission
from reprieve.streams.connection import RedisConnection
from reprieve.streams.failure_writer import FailureWriter, Turn, breaker_change, load_rules, lost_run_ruling
from reprieve.streams.group_alerts import GroupAlerts
from reprieve.streams.group_breaker import GroupBreaker
from reprieve.streams.heartbeat import BEATS_PER_LEASE, Heartbeat
from reprieve.streams.history import read_history
from reprieve.streams.keys import CONSUMER_PREFIX, WAITING_CONSUMER
from reprieve.streams.lanes import CancelReason, FailedRun, Handler, Lanes
from reprieve.streams.message import StreamMessage
from reprieve.streams.pause import parse_pause
from reprieve.streams.scripts import (
    ACKNOWLEDGE,
    CLAIM_DUE,
    CLAIM_SUSPECT,
    RELEASE,
    RESCUE,
    RESTORE_DUE_TIMES,
    TRIM,
)
from reprieve.streams.start_checks import check_server, ensure_group

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from reprieve.core.breaker_state import BreakerLimits
    from reprieve.core.policy import Profile
    from reprieve.ports.alerting import Sink
    from reprieve.streams.connection import RedisAddress
    from reprieve.streams.failure_writer import Ruling
    from reprieve.streams.keys import StreamKeys

_LOG: Final = logging.getLogger("reprieve.streams")
_HOST: Final = socket.gethostname()
_MAX_BLOCK_MS: Final = 1000
"""The longest blocking read. It bounds how late a pause is noticed, and stays far below a command's timeout."""
_QUICK_TURN_SECONDS: Final = 0.05
"""The batch grows while a turn takes less, so that a consumer never holds much more than it can handle at once."""
_FIRST_BACKOFF_SECONDS: Final = 0.05
_MAX_BACKOFF_SECONDS: Final = 5.0
_STEADY_SECONDS: Final = 1.0
"""A task that ran for so long begins with the shortest backoff again."""
_RECENT: Final = 5000
"""Acknowledged ids that are remembered, twice: the last ones and those before."""
_RESCUE_BATCH: Final = 100
_RESCUE_MARGIN_SECONDS: Final = 0.02
_POLL_SECONDS: Final = 1.0
_REPLICA_TIMEOUT_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a consumer runs; `Consumer` checks them."""

    concurrency: int
    prefetch: int
    lease: float
    timeout: float
    shutdown_timeout: float
    trims: bool
    wait_replicas: int
    adopt_idle: float
    breaker: BreakerLimits | None
    idempotent: bool


@dataclass(slots=True)
class RunCounts:
    """What a consumer did so far."""

    handled: int = 0
    scheduled: int = 0
    dead_lettered: int = 0
    lost: int = 0
    """Messages that others had taken over by the time they were acknowledged or decided about."""
    rescued: int = 0
    replicas_missed: int = 0
    """Batches of acknowledgements that too few replicas confirmed in time."""


def new_consumer_name() -> str:
    """Return a name that no other process has: a new process is a new consumer."""
    return f"{CONSUMER_PREFIX}{_HOST}:{os.getpid()}:{secrets.token_hex(4)}"


class ConsumerRunner:
    """One consumer of a group, from its start to its end."""

    def __init__(  # noqa: PLR0913 - what it works with, by keyword
        self,
        address: RedisAddress,
        keys: StreamKeys,
        *,
        group: str,
        service: str,
        handler: Handler,
        threads: bool,
        profile: Profile,
        options: RunOptions,
        sinks: Sequence[Sink],
    ) -> None:
        self.name = new_consumer_name()
        self.counts = RunCounts()
        self._keys, self._group, self._service, self._options = keys, group, service, options
        self._profile, self._threads = profile, threads
        self._reading, self._writing = RedisConnection(address), RedisConnection(address)
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lanes = Lanes(handler, options.concurrency, self._notify)
        self._heartbeat = Heartbeat(address, keys, self.name, options.lease, self._is_alive)
        self._breaker = GroupBreaker(self._writing, keys, options.breaker) if options.breaker is not None else None
        self._alerts = GroupAlerts(
            self._writing, keys, group=group, rules=profile.alerts, sinks=sinks, now=self._server_now
        )
        self._failures = FailureWriter(
            self._writing,
            keys,
            group=group,
            consumer=self.name,
            service=service,
            profile=profile,
            idempotent=options.idempotent,
            alerts=self._alerts,
        )
        self._stopping = asyncio.Event()
        self._paused = self._blocked = self._needs_sweep = self._judges = False
        self._sweeps_again = False
        """Whether handlers without a lease were still running at the last sweep, which kept their messages."""
        self._read_lock = asyncio.Lock()
        self._batch = options.concurrency
        self._unacknowledged: list[bytes] = []
        self._with_history: list[StreamMessage] = []
        """Handled messages whose history a script forgets with the acknowledgement."""
        self._rulings: list[Ruling] = []
        self._admitted: set[bytes] = set()
        self._admitted_successes = self._successes_told = 0
        self._recent: set[bytes] = set()
        self._older: set[bytes] = set()
        self._due_at = self._rescue_at = self._poll_at = 0.0
        self._suspects, self._suspects_at = 0, 0.0
        self._read_last = self._reading_blocks = self._reader_waits = False
        self._alone = False
        self._cursor = "-"
        self._turn_at = self._progress_at = self._gates_seen_at = time.monotonic()
        self._until_idle = False

    # --- life ---

    async def run(self, stop: asyncio.Event, *, until_idle: bool = False) -> None:
        """Consume until `stop` is set, or until nothing is left to do."""
        self._until_idle = until_idle
        try:
            await self._start()
        except BaseException:
            await self._close()
            raise
        tasks = [
            asyncio.create_task(self._keep(self._read), name="reprieve-reader"),
            asyncio.create_task(self._keep(self._control), name="reprieve-controller"),
            asyncio.create_task(self._keep(self._tell), name="reprieve-notifier"),
            asyncio.create_task(stop.wait(), name="reprieve-stop"),
            asyncio.create_task(self._stopping.wait(), name="reprieve-idle"),
        ]
        try:
            await asyncio.wait(tasks[3:], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._stop(tasks)

    async def _start(self) -> None:
        await asyncio.to_thread(load_rules, self._profile)
        await check_server(self._writing, self._keys, wants_replicas=self._options.wait_replicas)
        await ensure_group(self._writing, self._keys.queue, self._group)
        await self._see_gates()
        await asyncio.to_thread(self._heartbeat.beat)
        self._heartbeat.start()
        self._lanes.start(threads=self._threads)
        _LOG.info("%s: consumer %s of group %s", self._keys.queue, self.name, self._group)

    async def _see_gates(self) -> None:
        """Look for a pause and an outage before the first read and the first claim."""
        paused, breaker = await self._writing.pipeline([("GET", self._keys.paused), ("GET", self._keys.breaker)])
        pause = parse_pause(paused)
        if pause is not None:
            self._paused = True
            _LOG.warning("%s: paused: %s", self._keys.queue, redact(str(pause.reason)) or "by an operator")
        if self._breaker is not None:
            self._breaker.see(breaker)
            self._blocked = self._breaker.is_gated

    async def _stop(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Give back what has not started, let the rest end, write what came of it, and leave the group."""
        self._stopping.set()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        deadline = time.monotonic() + self._options.shutdown_timeout
        self._lanes.drop_queue()
        with suppress(RedisError, OSError):
            await self._release()
        while self._lanes.held and time.monotonic() < deadline:
            await self._wait(self._news, min(0.1, deadline - time.monotonic()))
            self._lanes.cancel_overdue(time.monotonic())
            with suppress(RedisError, OSError):
                await self._write_results()
        self._lanes.cancel_all(CancelReason.STOP)
        await asyncio.sleep(0)
        for _ in range(100):  # a handler may need a moment to be cancelled
            if not self._lanes.held:
                break
            await asyncio.sleep(0.01)
        await self._lanes.close()
        try:
            await self._write_results()
            await asyncio.to_thread(self._heartbeat.stop)  # a beat after the release would add the consumer again
            await self._release(leave=True)
        except (RedisError, OSError) as error:
            _LOG.warning("%s: left without a word, the lease runs out: %s", self.name, redact(str(error)))
        finally:
            await self._close()

    async def _close(self) -> None:
        await asyncio.to_thread(self._heartbeat.stop)
        await self._reading.close()
        await self._writing.close()
        await self._alerts.close()

    async def _keep(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task for as long as the consumer runs, whatever it raises."""
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            began = time.monotonic()
            try:
                await work()
            except (RedisError, OSError) as error:
                self._needs_sweep = True
                if time.monotonic() - began > _STEADY_SECONDS:
                    backoff = _FIRST_BACKOFF_SECONDS
                _LOG.warning("%s: Redis: %s; again in %.1f s", self.name, redact(str(error)), backoff)
            except asyncio.CancelledError:
                if self._stopping.is_set():
                    raise
                _LOG.warning("%s: a background task was cancelled from inside", self.name)
            except Exception as error:  # noqa: BLE001 - a task that ends silently looks like an idle consumer
                self._needs_sweep = True
                _LOG.error("%s: a background task failed:\n%s", self.name, redact_exception(error))
            await asyncio.sleep(backoff * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)

    def _is_alive(self) -> bool:
        """Whether the event loop turns: asked by the heartbeat's thread."""
        return time.monotonic() - self._progress_at < self._options.timeout + self._options.lease

    def _notify(self) -> None:
        if self._threads:
            self._loop.call_soon_threadsafe(self._set_news)
        else:
            self._set_news()

    def _set_news(self) -> None:
        self._news.set()
        self._room.set()

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until a message ends, or for so long."""
        self._lanes.asks_for_news = True
        if seconds > 0 and not event.is_set():
            handle = self._loop.call_later(seconds, event.set)
            try:
                await event.wait()
            finally:
                handle.cancel()
        else:
            await asyncio.sleep(0)
        event.clear()
        self._progress_at = time.monotonic()

    def _server_now(self) -> float:
        return self._breaker.now() if self._breaker is not None else time.time()

    # --- reading ---

    async def _read(self) -> None:
        while True:
            room = self._reader_room()
            if room < 1:
                self._reader_waits = True
                await self._wait(self._room, _POLL_SECONDS)
                self._reader_waits = False
                continue
            if self._turn_at and not self._lanes.queue:
                self._adapt(time.monotonic() - self._turn_at)
            async with self._read_lock:
                await self._read_batch(room)

    def _reader_room(self) -> int:
        """How many new messages fit in: none while something keeps the consumer from reading."""
        if self._paused or self._blocked or self._needs_sweep or self._alone or self._drains():
            return 0
        if not self._heartbeat.has_lease or self._lanes.failed or self._judges:
            return 0  # failures are written first: they may open the breaker, and they must not pile up
        held, due = self._lanes.held, self._due_at <= time.monotonic()
        if due and self._batch == 1 and self._read_last:
            return 0
        # While retries are due they get half of the room, so that neither they nor new messages starve.
        limit = max(1, self._batch // 2) if due else self._batch
        wants = held < self._options.concurrency or held <= limit // 2
        return limit - held if wants else 0

    def _adapt(self, seconds: float) -> None:
        if seconds < _QUICK_TURN_SECONDS:
            self._batch = min(self._options.prefetch, self._batch + max(self._options.concurrency, 10))
        else:
            self._batch = max(self._options.concurrency, self._batch // 2)
        self._turn_at = 0.0

    async def _read_batch(self, room: int) -> None:
        queue, group = self._keys.queue, self._group
        done = self._take_done()
        commands: list[tuple[Any, ...]] = []
        if done:
            commands.append(("XACK", queue, group, *done))
            if self._options.wait_replicas:
                commands.append(("WAIT", self._options.wait_replicas, _REPLICA_TIMEOUT_MS))
        block = () if self._lanes.queue else ("BLOCK", self._block_ms())
        commands.append(("XREADGROUP", "GROUP", group, self.name, "COUNT", room, *block, "STREAMS", queue, ">"))
        commands.append(("EXISTS", self._keys.paused, self._keys.breaker, self._keys.replayed))
        self._reading_blocks = bool(block)  # what ends during the read is then acknowledged by the controller
        self._lanes.asks_for_news = True
        try:
            replies = await self._reading.pipeline(commands, raises=False)
            self._raise_first(replies)
        except BaseException:
            self._unacknowledged += done
            raise
        finally:
            self._reading_blocks = False
            self._progress_at = time.monotonic()
        if done:
            self._count_done(done, replies[0])
            if self._options.wait_replicas and replies[1] < self._options.wait_replicas:
                self.counts.replicas_missed += 1
        read, gates = replies[-2], replies[-1]
        messages = [StreamMessage(queue, group, each[0], each[1]) for each in read[0][1]] if read else []
        if self._recent and messages:
            messages = self._without_recent(messages)
        self._gates_seen_at = time.monotonic()
        if gates or self._paused or self._blocked:
            messages = await self._through_gates(messages)
        if messages:
            self._turn_at, self._read_last = time.monotonic(), True
            self._lanes.put(messages)
            await asyncio.sleep(0)
        elif self._until_idle and not read:
            await self._stop_if_idle()

    def _block_ms(self) -> int:
        return max(1, min(_MAX_BLOCK_MS, round(1000 * self._options.lease / BEATS_PER_LEASE)))

    def _raise_first(self, replies: Sequence[Any]) -> None:
        for reply in replies:
            if isinstance(reply, Exception):
                if str(reply).startswith(("NOGROUP", "UNBLOCKED")):
                    self._rescue_at = 0.0  # the stream or its group is gone: the controller makes it again
                raise reply

    def _without_recent(self, messages: list[StreamMessage]) -> list[StreamMessage]:
        """Acknowledge again what this process has handled: a failover or a disk had lost the acknowledgement."""
        again = [each for each in messages if each.message_id in self._recent or each.message_id in self._older]
        if not again:
            return messages
        self._unacknowledged += [each.message_id for each in again]
        return [each for each in messages if each not in again]

    async def _through_gates(self, messages: list[StreamMessage]) -> list[StreamMessage]:
        """Look at what is rarely there: a pause, a breaker, replayed messages. Give back what may not run now."""
        paused, breaker, replayed = await self._reading.pipeline(
            [
                ("EXISTS", self._keys.paused),
                ("GET", self._keys.breaker),
                ("EXISTS", self._keys.replayed),
            ]
        )
        # The controller alone ends a pause: this reply may be older than a pause that it has written meanwhile.
        self._paused = self._paused or bool(paused)
        if self._breaker is not None:
            self._breaker.see(breaker)
            self._blocked = self._breaker.is_gated
        if replayed and messages:
            await self._read_replayed(self._reading, messages)
        if not (self._paused or self._blocked):
            return messages
        self._news.set()
        if messages:
            await self._failures.schedule([(each, 0, "") for each in messages])
        return []

    async def _read_replayed(self, connection: RedisConnection, messages: Sequence[StreamMessage]) -> None:
        """Read the histories of replayed messages, which hold their keys, before they run for the first time."""
        ids = [each.message_id for each in messages]
        flags = await connection.call("SMISMEMBER", self._keys.replayed, *ids)
        found = [each for each, flag in zip(messages, flags, strict=True) if flag]
        if found:
            await self._failures.read_histories(found)
            await connection.call("SREM", self._keys.replayed, *[each.message_id for each in found])

    # --- acknowledging ---

    def _take_done(self) -> list[bytes]:
        """Return the ids to be acknowledged by XACK alone; those with a history are kept for a script."""
        done, ids = self._lanes.done, self._unacknowledged
        self._unacknowledged = []
        taken = 0
        with_history = []
        while done:
            message = done.popleft()
            taken += 1
            if message.history is not None or message.deliveries > 1:
                with_history.append(message)
            else:
                ids.append(message.message_id)
            if self._admitted and message.message_id in self._admitted:
                self._admitted.discard(message.message_id)
                self._admitted_successes += 1
        self._lanes.taken += taken
        self.counts.handled += taken
        if with_history:
            self._with_history.extend(with_history)
            self._news.set()
        return ids

    def _count_done(self, ids: list[bytes], acknowledged: int) -> None:
        if acknowledged < len(ids):
            self.counts.lost += len(ids) - acknowledged  # others took them over, or the reply had been lost
            return
        self._recent.update(ids)
        if len(self._recent) > _RECENT:
            self._older, self._recent = self._recent, set()

    async def _acknowledge(self) -> None:
        """Acknowledge what the reader does not: what has a history, and what ends while a read blocks."""
        if self._reading_blocks or self._reader_waits or self._stopping.is_set():
            ids = self._take_done()
            if ids:
                try:
                    self._count_done(ids, await self._writing.call("XACK", self._keys.queue, self._group, *ids))
                except BaseException:
                    self._unacknowledged += ids
                    raise
        if self._with_history:
            messages = list(self._with_history)
            keys = [self._keys.queue, self._keys.state, self._keys.replayed]
            acknowledged = await self._writing.run(ACKNOWLEDGE, keys, self._group, *[m.message_id for m in messages])
            self.counts.lost += len(messages) - acknowledged
            del self._with_history[: len(messages)]

    # --- controlling ---

    async def _control(self) -> None:
        while True:
            await self._tend()
            await self._wait(self._news, self._seconds_to_next_timer())

    async def _tend(self) -> None:
        now = time.monotonic()
        self._lanes.cancel_overdue(now)
        if not self._heartbeat.has_lease:
            self._lose_lease()
            return
        if self._needs_sweep or (self._sweeps_again and not self._lanes.has_lost_runs):
            await self._sweep()
        await self._write_results()
        if now >= self._rescue_at:
            await self._look_after_group()
        if self._lanes.queue and now - self._gates_seen_at > _POLL_SECONDS:
            await self._look_for_pause()
        if self._paused or self._blocked:
            await self._poll_gates()
        elif not self._needs_sweep:
            await self._claim()

    def _seconds_to_next_timer(self) -> float:
        now = time.monotonic()
        times = [self._rescue_at, now + min(_POLL_SECONDS, self._options.timeout / 4)]
        if self._paused or self._blocked:
            times.append(self._poll_at)
        elif self._lanes.held < self._batch:
            times.append(self._due_at)
        if self._lanes.failed or self._rulings or not self._heartbeat.has_lease:
            times.append(now + _FIRST_BACKOFF_SECONDS)
        return max(0.0, min(times) - now)

    def _lose_lease(self) -> None:
        """Others take over what this consumer holds: cancel it. What is done stays to be acknowledged."""
        dropped = len(self._lanes.drop_queue()) + self._lanes.cancel_all(CancelReason.LOST_LEASE)
        if not dropped:
            return
        _LOG.error("%s: the lease is lost, %d messages are dropped", self.name, dropped)
        self.counts.lost += dropped
        self._alone, self._needs_sweep = False, True

    async def _sweep(self) -> None:
        """Find what is pending under this consumer without its knowledge: the reply of a read was lost."""
        async with self._read_lock:
            await ensure_group(self._writing, self._keys.queue, self._group)
            sweeps_again = self._lanes.has_lost_runs  # before the release: a handler can end while it runs
            await self._release()
            self._needs_sweep, self._sweeps_again = False, sweeps_again
        self._due_at = self._rescue_at = 0.0
        self._room.set()

    async def _release(self, *, leave: bool = False) -> None:
        known = [each.message_id for each in self._lanes.known()]
        known += [each.message.message_id for each in self._rulings]
        known += [each.message_id for each in self._with_history] + self._unacknowledged
        keys = [self._keys.queue, self._keys.waiting, self._keys.consumers]
        more = True
        while more:
            _, more = await self._writing.run(
                RELEASE, keys, self._group, self.name, WAITING_CONSUMER, int(leave), *known
            )

    async def _write_results(self) -> None:
        runs: list[FailedRun] = []
        self._judges = self._judges or bool(self._lanes.failed)
        while self._lanes.failed:
            runs.append(self._lanes.failed.popleft())
        if runs:
            try:
                self._rulings += await self._failures.rule(runs)
            except BaseException:
                self._lanes.failed.extendleft(reversed(runs))
                raise
        await self._acknowledge()
        rulings = list(self._rulings)
        if any(each.pauses for each in rulings):
            self._paused, self._poll_at = True, 0.0  # no handler starts from here on; the next poll reads the truth
            await self._give_back_queue()
        if rulings:
            result = await self._failures.write(rulings)
            del self._rulings[: len(rulings)]
            self.counts.scheduled += result.scheduled
            self.counts.dead_lettered += result.dead_lettered
            self.counts.lost += result.lost
            if result.next_due is not None:
                self._due_at = min(self._due_at, time.monotonic() + result.next_due)
        await self._tell_breaker(rulings)
        if self._judges and not self._rulings:
            self._judges = False
            self._room.set()
        if self._alone and not self._lanes.held:
            self._alone, self._due_at = False, 0.0
            self._room.set()
        await self._alerts.flush()  # on every turn: an error keeps the alerts, but their rulings are written

    async def _tell_breaker(self, rulings: Sequence[Ruling]) -> None:
        breaker, successes = self._breaker, self._lanes.successes
        if breaker is None or not (rulings or (breaker.has_streak and successes > self._successes_told)):
            return
        turn = Turn(
            rulings=rulings,
            successes_before=self._successes_told,
            successes=successes,
            admitted=frozenset(self._admitted),
            admitted_successes=self._admitted_successes,
        )
        limits = self._options.breaker
        if limits is None:
            return
        profile = self._profile
        await breaker.update(lambda state, now: breaker_change(state, limits, turn, now=now, profile=profile))
        self._successes_told, self._admitted_successes = successes, self._admitted_successes - turn.admitted_successes
        self._admitted -= {each.message.message_id for each in rulings}
        was_blocked, self._blocked = self._blocked, breaker.is_gated
        if self._blocked and not was_blocked:
            _LOG.warning("%s: %s again and again: calls are held back", self._keys.queue, breaker.state.error_class)
            await self._give_back_queue()
        if was_blocked and not self._blocked:
            _LOG.info("%s: calls go on", self._keys.queue)
            self._due_at = 0.0
            self._room.set()
        self._poll_at = 0.0

    async def _give_back_queue(self) -> None:
        """Give back what has not started; it costs no attempt."""
        dropped = self._lanes.drop_queue()
        if dropped:
            try:
                await self._failures.schedule([(each, 0, "") for each in dropped])
            except BaseException:
                self._needs_sweep = True
                raise

    # --- claiming ---

    def _drains(self) -> bool:
        """Whether to let what runs end, so that a suspect can run alone; an idle consumer takes it first."""
        patience = self._options.lease / BEATS_PER_LEASE
        return bool(self._suspects) and (not self._lanes.held or time.monotonic() - self._suspects_at > patience)

    async def _claim(self) -> None:
        if self._alone:
            return
        if self._drains():
            if not self._lanes.held:
                async with self._read_lock:
                    await self._claim_suspect()
            return
        now = time.monotonic()
        want = min(max(1, self._batch // 2), self._batch - self._lanes.held)
        if now < self._due_at or want < 1:
            return
        messages, wait = await self._claim_due(want)
        patience = self._options.lease / BEATS_PER_LEASE
        self._due_at = time.monotonic() + (patience if wait < 0 else min(patience, wait / 1000))
        if messages:
            self._read_last = False
            self._lanes.put(messages)
        self._room.set()

    async def _claim_due(self, want: int, *, fewest_attempts: bool = False) -> tuple[list[StreamMessage], int]:
        keys = self._keys
        head, tail = self._failures.trimmed_context()
        claimed, wait, suspects, trimmed, error, paused = await self._writing.run(
            CLAIM_DUE,
            [keys.queue, keys.dead_letters, keys.waiting, keys.state, keys.suspects, keys.paused],
            self._group,
            self.name,
            WAITING_CONSUMER,
            want,
            int(fewest_attempts),
            head,
            tail,
        )
        if paused:
            self._paused, self._poll_at = True, 0.0
            return [], -1
        if suspects and not self._suspects:
            self._suspects_at = time.monotonic()
        self._suspects = suspects
        await self._failures.report_trimmed(trimmed, error)
        return [self._claimed(each) for each in claimed], wait

    def _claimed(self, row: Sequence[Any]) -> StreamMessage:
        message_id, fields, deliveries, text, lost_lease, *counters = row
        crash, out_of_memory = counters or (0, 0)
        history = read_history(text, lost_lease=lost_lease, crash=crash, out_of_memory=out_of_memory)
        return StreamMessage(self._keys.queue, self._group, message_id, fields, deliveries, history)

    async def _claim_suspect(self) -> StreamMessage | None:
        """Claim a suspect and run it alone, or dead-letter it where a budget is spent."""
        keys = self._keys
        row = await self._writing.run(
            CLAIM_SUSPECT,
            [keys.queue, keys.suspects, keys.waiting, keys.state, keys.paused],
            self._group,
            self.name,
            WAITING_CONSUMER,
        )
        if row is None:  # there is none, or the group is paused, which the next claim of a retry finds out
            self._suspects, self._due_at = 0, 0.0
            self._room.set()
            return None
        message = self._claimed(row)
        now, rand = time.time(), random.random()  # noqa: S311 - jitter
        ruling = lost_run_ruling(message, self._profile, service=self._service, now=now, rand=rand)
        if ruling is not None:
            self._rulings.append(ruling)
            await self._write_results()
            return None
        self._alone = True
        self._lanes.put([message])
        return message

    # --- gates ---

    async def _poll_gates(self) -> None:
        """Look whether the pause or the outage is over, and make the calls that the breaker admits."""
        if time.monotonic() < self._poll_at:
            return
        paused, breaker = await self._writing.pipeline([("EXISTS", self._keys.paused), ("GET", self._keys.breaker)])
        was_paused, self._paused = self._paused, bool(paused)
        if self._breaker is not None:
            self._breaker.see(breaker)
            self._blocked = self._breaker.is_gated
        if self._paused:
            await self._give_back_queue()
            if self._until_idle and not self._lanes.held:
                _LOG.warning("%s: the group is paused, so nothing more is done", self._keys.queue)
                self._stopping.set()
        elif self._blocked and self._breaker is not None:
            wait = self._breaker.seconds_until_call()
            if wait <= 0.0 and not self._needs_sweep:
                await self._call_admitted(self._breaker)
                wait = self._breaker.seconds_until_call()
            self._poll_at = time.monotonic() + min(_POLL_SECONDS, max(wait, _FIRST_BACKOFF_SECONDS))
            return
        else:
            self._due_at = 0.0
            self._room.set()
            if was_paused:
                _LOG.info("%s: the group was resumed", self._keys.queue)
        self._poll_at = time.monotonic() + min(_POLL_SECONDS, self._options.lease / BEATS_PER_LEASE)

    async def _look_for_pause(self) -> None:
        """Notice a pause although the consumer reads nothing, because its queue is full."""
        self._paused = self._paused or bool(await self._writing.call("EXISTS", self._keys.paused))
        self._gates_seen_at = time.monotonic()
        if self._paused:
            self._poll_at = 0.0

    async def _call_admitted(self, breaker: GroupBreaker) -> None:
        room = self._options.concurrency - self._lanes.held
        admitted = await breaker.admit(room) if room > 0 else 0
        if not admitted:
            return
        # A message that never failed has the fewest attempts to lose. Suspects come last.
        queue, group = self._keys.queue, self._group
        read, paused = await self._writing.pipeline(
            [
                ("XREADGROUP", "GROUP", group, self.name, "COUNT", admitted, "STREAMS", queue, ">"),
                ("EXISTS", self._keys.paused),
            ]
        )
        messages = [StreamMessage(queue, group, each[0], each[1]) for each in read[0][1]] if read else []
        if paused:
            self._paused = True
            if messages:
                await self._failures.schedule([(each, 0, "") for each in messages])
                messages = []
        elif messages:
            await self._read_replayed(self._writing, messages)
        if not paused and len(messages) < admitted:
            more, _ = await self._claim_due(admitted - len(messages), fewest_attempts=True)
            messages += more
        self._admitted.update(each.message_id for each in messages)
        if messages:
            self._lanes.put(messages)
        elif self._suspects and not self._lanes.held and not self._paused:
            suspect = await self._claim_suspect()
            if suspect is not None:
                self._admitted.add(suspect.message_id)
                messages = [suspect]
        unused = admitted - len(messages)
        if unused:
            await breaker.update(lambda state, now: release_calls(state, now=now, count=unused))
            self._poll_at = time.monotonic() + _POLL_SECONDS

    # --- the group ---

    async def _look_after_group(self) -> None:
        """Rescue what lost consumers held, restore lost due times, trim, resolve alerts."""
        keys, options = self._keys, self._options
        moved, deleted, held_back, scheduled, next_end = await self._writing.run(
            RESCUE,
            [keys.queue, keys.waiting, keys.suspects, keys.state, keys.consumers, keys.rescue_hold, keys.lost],
            self._group,
            self.name,
            WAITING_CONSUMER,
            CONSUMER_PREFIX,
            round(1000 * options.lease),
            _RESCUE_BATCH,
            round(1000 * options.adopt_idle),
        )
        if moved or deleted:
            self.counts.rescued += moved
            _LOG.warning("%s: %d messages of lost consumers were taken over", keys.queue, moved)
            self._due_at = 0.0
        while True:
            restored, cursor = await self._writing.run(
                RESTORE_DUE_TIMES,
                [keys.queue, keys.waiting, keys.suspects],
                self._group,
                WAITING_CONSUMER,
                self._cursor,
            )
            self._cursor = cursor.decode()
            if restored:
                self._due_at = 0.0
                _LOG.warning("%s: %d messages waited without a due time", keys.queue, restored)
            if self._cursor == "-" or held_back <= scheduled:
                break
        if options.trims:
            await self._writing.run(TRIM, [keys.queue])
        await self._alerts.resolve()
        if self._admitted and self._breaker is not None and options.breaker is not None and self._lanes.held:
            limits = options.breaker
            await self._breaker.update(lambda state, now: renew_admission(state, limits, now=now))
        wait = options.lease / BEATS_PER_LEASE * random.uniform(0.8, 1.2)  # noqa: S311 - spread over consumers
        wait = min(wait, next_end / 1000 + _RESCUE_MARGIN_SECONDS)  # a lease that runs out is noticed at once
        self._rescue_at = time.monotonic() + (0.0 if moved >= _RESCUE_BATCH else wait)

    async def _tell(self) -> None:
        """Tell the sinks what is due."""
        while True:
            if self._alerts.has_sinks:
                await self._alerts.notify()
            await asyncio.sleep(_POLL_SECONDS)

    async def _stop_if_idle(self) -> None:
        """Stop if no message of the group is new or pending."""
        if self._lanes.held or self._lanes.failed or self._lanes.done or self._judges or self._with_history:
            return
        summary = await self._reading.call("XPENDING", self._keys.queue, self._group)
        if not summary[0]:
            self._stopping.set()
