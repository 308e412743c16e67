"""Steps of a delivery in a worker's process: each is written down as it is passed, and the process can be killed at any.

Who reaches a step at which the process is to die waits there, until all that are expected have: so they all were at that
very step when it died. What a process wrote last about a delivery is where that was at its end.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import reprieve.adapters.maildir.files
import reprieve.adapters.smtp.sender
import reprieve.adapters.webhook.wire
from reprieve.adapters.smtp.connections import Client
from reprieve.adapters.webhook.wire import _Stream
from reprieve.core.lifecycle import DeliveryEvent
from reprieve.ports.intents import Begin, End, Prepare, Written

if TYPE_CHECKING:
    from pathlib import Path

UNSAID = "unsaid"
HELD_AT = {"preparing": "claimed", "beginning": "prepared", "ending": "answered", "look ending": "looked"}
"""Where they wait for each other before they are let go together, so that they are written in one transaction."""
HELD_AT |= {f"{step} {UNSAID}": place for step, place in HELD_AT.items()}

GAVE_WAY = "gave way"
"""Somebody else in this or another process had it."""


class Passed(NamedTuple):
    """A step that something came to."""

    pid: int
    what: str
    """delivery or job."""
    id: int
    who: int
    """Of those in one process that want to do something about it."""
    step: str


class Try(NamedTuple):
    """Somebody who wants to do something about a delivery."""

    delivery: int
    who: int


_try: ContextVar[Try] = ContextVar("try")
_numbers = itertools.count(1)


class Gate:
    """Where deliveries are stopped, in this process."""

    def __init__(self, file: str, *, stops: list[str], expected: int, gathering: float, delay: float) -> None:
        """Take the steps at which to die: when so many are there, or so many seconds after the first.

        In a transaction, it dies so many seconds after that was begun.
        """
        self.stops, self.delay, self._gathering = frozenset(stops), delay, gathering
        self.holds = frozenset(HELD_AT[step] for step in stops if step in HELD_AT)
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._expected = expected
        self._arrived = 0
        self._lock = threading.Lock()
        self._open = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def note(self, what: str, number: int, who: int, step: str) -> None:
        os.write(self._file, json.dumps(Passed(os.getpid(), what, number, who, step)).encode() + b"\n")

    async def reach(self, what: str, number: int, who: int, step: str) -> None:
        """Pass, wait for the others, or wait for the end."""
        self.note(what, number, who, step)
        if step in self.stops:
            self._arrive(die)
            try:
                await asyncio.Event().wait()
            finally:
                self.note(what, number, who, "left")
        if step in self.holds:
            self._arrive(self._let_go)
            await self._open.wait()

    def reach_in_thread(self, step: str) -> None:
        self.note("delivery", *_try.get(), step)
        if step in self.stops:
            self._arrive(die)
            threading.Event().wait()

    def _arrive(self, then: Any) -> None:
        with self._lock:
            self._arrived += 1
            first, last = self._arrived == 1, self._arrived == self._expected
        if first:
            timer = threading.Timer(self._gathering, then)
            timer.daemon = True
            timer.start()
        if last:
            then()

    def _let_go(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)


_gate: list[Gate] = []


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def read(path: Path) -> list[Passed]:
    """All steps, in the order in which they were passed, whichever process it was."""
    return [Passed(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


async def at(step: str) -> None:
    """The delivery of this task is at a step."""
    this = _try.get(None)
    if _gate and this is not None:
        await _gate[0].reach("delivery", *this, step)


async def at_job(step: str, job: int) -> None:
    if _gate:
        await _gate[0].reach("job", job, 0, step)


def install(app: Any, gate: Gate) -> None:
    """Watch the deliveries of this application, whose process is nothing else."""
    _gate[:] = [gate]
    _watch_journal(app.journal, gate)
    reprieve.adapters.smtp.sender.Client = WatchedClient  # type: ignore[misc]
    reprieve.adapters.webhook.wire._Stream = WatchedStream  # type: ignore[misc]
    _watch_files(gate)


# --- what is written down


def _watch_journal(journal: Any, gate: Gate) -> None:
    ask, apply = journal.ask, journal.store.apply
    wanted: dict[int, Try] = {}

    def watched(intent: Any, **options: Any) -> Any:
        around = _around(intent)
        return ask(intent, **options) if around is None else waited_for(intent, *around)

    async def waited_for(intent: Begin | End, before: str, after: str) -> Any:
        if isinstance(intent, Begin):
            _try.set(Try(intent.delivery_id, next(_numbers)))
        await at(before)
        wanted[id(intent)] = _try.get()
        answer = await ask(intent)
        del wanted[id(intent)]
        await at(after if answer is Written.APPLIED else GAVE_WAY)
        return answer

    async def applied(intents: Any, *, again: bool = False) -> Any:
        written = [(each, step) for each in intents if (step := _transaction_of(each)) is not None]
        for each, step in written:
            gate.note(*about(each), step)
        if any(step in gate.stops for _, step in written):
            _die_after(gate.delay)
        answers = await apply(intents, again=again)
        for each, step in written:
            gate.note(*about(each), f"{step} {UNSAID}")
        if any(f"{step} {UNSAID}" in gate.stops for _, step in written):
            die()
        return answers

    def about(intent: Any) -> tuple[str, int, int]:
        return ("job", intent.job_id, 0) if isinstance(intent, Prepare) else ("delivery", *wanted[id(intent)])

    journal.ask, journal.store.apply = watched, applied


def _die_after(seconds: float) -> None:
    if not seconds:
        die()
    timer = threading.Timer(seconds, die)
    timer.daemon = True
    timer.start()


def _around(intent: Any) -> tuple[str, str] | None:
    """The steps before an intent is asked for and after it is answered."""
    match intent:
        case Begin(event=DeliveryEvent.BEGIN):
            return "prepared", "begun"
        case Begin():
            return "to be looked up", "looking"
        case End(event=DeliveryEvent.ACCEPT):
            return "answered", "ended"
        case End(event=DeliveryEvent.FIND | DeliveryEvent.MISS):
            return "looked", "look ended"
        case End():
            return f"came to {intent.event}", "failed"
        case _:
            return None


def _transaction_of(intent: Any) -> str | None:  # noqa: PLR0911 - one for each kind
    """The step that the writing of an intent is."""
    match intent:
        case Prepare():
            return "preparing"
        case Begin(event=DeliveryEvent.BEGIN):
            return "beginning"
        case Begin():
            return "look beginning"
        case End(event=DeliveryEvent.FIND | DeliveryEvent.MISS):
            return "look ending"
        case End(event=DeliveryEvent.ACCEPT):
            return "ending"
        case End():
            return "failing"
        case _:
            return None


# --- what is said to providers


class WatchedClient(Client):
    """The dialogue with a mail server."""

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        answer = await super().connect(*arguments, **options)
        await at("connected")
        return answer

    async def execute_command(self, *words: bytes, **options: Any) -> Any:
        answer = await super().execute_command(*words, **options)
        if words[0] == b"DATA":
            self._watch_message()
        if words[0] in {b"MAIL", b"RCPT", b"DATA"}:
            await at(words[0].decode().lower())
        return answer

    def _watch_message(self) -> None:
        wire, stops = self.protocol, _gate[0].stops
        write, read_response = wire.write, wire.read_response

        def written(data: bytes) -> None:
            # In one piece as the sender has it, unless it is to die in the middle.
            write(data[: len(data) // 2] if "half" in stops else data)

        async def answered(*arguments: Any) -> Any:
            wire.write, wire.read_response = write, read_response
            await at("half" if "half" in stops else "whole")
            return await read_response(*arguments)

        wire.write, wire.read_response = written, answered


class WatchedStream(_Stream):
    """A connection to a receiver of webhooks; questions are let pass."""

    _writes: int | None = None
    """Of the message that is on its way."""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's own signature
        if buffer.startswith(b"POST "):
            self._writes = 0
            await at("connected")
        if self._writes is None or not buffer:
            return await super().write(buffer, timeout)
        self._writes += 1
        if self._writes == 2 and "half" in _gate[0].stops:
            await super().write(buffer[: len(buffer) // 2], timeout)
            await at("half")
        await super().write(buffer, timeout)
        if self._writes == 1:
            await at("headers")
        return None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the same
        if self._writes is not None:
            self._writes = None
            await at("whole")
        return await super().read(max_bytes, timeout)


def _watch_files(gate: Gate) -> None:
    files = reprieve.adapters.maildir.files
    publish, settle = files.publish, files._settle

    def published(folder: Path, written: Path, name: str) -> None:
        gate.reach_in_thread("aside")
        publish(folder, written, name)

    def settled(folder: Path) -> None:
        if folder.name == "new":
            gate.reach_in_thread("moved")
        settle(folder)

    files.publish, files._settle = published, settled
