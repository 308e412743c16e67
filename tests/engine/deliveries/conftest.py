"""Providers that are real, workers that are killed while they tell people, and what all of them have to show for it."""

from __future__ import annotations

import asyncio
import imaplib
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAMS = Path(__file__).parent / "programs"
TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(PROGRAMS), str(TESTS / "app" / "outbox" / "lab")]

import delivery_gates  # noqa: E402 - found only now
from delivery_pipelines import Notice, Places, telling  # noqa: E402 - the same
from post_office import PostOffice, open_office  # noqa: E402 - the same

import reprieve  # noqa: E402 - the same

_MESSAGE_ID = re.compile(rb"<([0-9a-f]{40})@")
NOWHERE = {"stops": [], "expected": 0, "gathering": 0.0, "delay": 0.0}
"""A worker that is not to die by its own hand."""


class Providers:
    """Who takes messages, and how many of each delivery they have."""

    def __init__(self, mail: Any, office: PostOffice, keyed_office: PostOffice, maildir: Path) -> None:
        self._mail, self._office, self._keyed_office, self._maildir = mail, office, keyed_office, maildir
        self.places = Places(
            smtp_port=mail.smtp_port, imap_port=mail.imap_port, username=mail.username, password=mail.password,
            office=office.url(""), keyed_office=keyed_office.url(""), maildir=str(maildir),
        )  # fmt: skip

    def have(self) -> Counter[str]:
        """Messages by token, wherever they are."""
        found = self._mailbox() + Counter(
            each.name.removeprefix("reprieve.").partition(":")[0]
            for part in ("new", "cur")
            for each in self._maildir.glob(f"*/{part}/*")
        )
        for office in (self._office, self._keyed_office):
            with office.lock:
                found += Counter({token: len(messages) for token, messages in office.taken.items()})
        return found

    def _mailbox(self) -> Counter[str]:
        """Read by another client than ours."""
        with imaplib.IMAP4(self._mail.host, self._mail.imap_port, timeout=60) as client:
            client.login(self._mail.username, self._mail.password)
            _, (number,) = client.select("INBOX", readonly=True)
            if number == b"0":
                return Counter()
            _, found = client.fetch("1:*", "(BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])")
        heads = [_MESSAGE_ID.search(item[1]) for item in found if isinstance(item, tuple)]
        return Counter(head[1].decode() for head in heads if head is not None)


class Theatre:
    """Pipelines that tell people by every kind of sender, and workers that die while they do."""

    def __init__(self, lab: Any, providers: Providers) -> None:
        self.lab, self.providers = lab, providers
        self.steps = lab.folder / "steps"
        self.pipelines: list[str] = []
        self._run, self._numbers = uuid4().hex[:8], count(1)

    # --- doing

    def submit(self, pipeline: str, notices: list[tuple[str, int]]) -> list[int]:
        """Jobs: kinds of sender, and how many recipients each has."""
        if pipeline not in self.pipelines:
            self.pipelines.append(pipeline)
        places = self.providers.places
        items = [
            reprieve.Item(
                Notice(kind, [places.recipient(kind, f"r{number}") for number in range(recipients)]),
                subject=f"{self._run}-{next(self._numbers)}", version=1,
            )
            for kind, recipients in notices
        ]  # fmt: skip

        async def main() -> list[int]:
            async with reprieve.connect(self.lab.url) as app:
                return [made.job_id for made in await app.submit_many(telling(pipeline, places), items)]

        return asyncio.run(main())

    def start(self, *pipelines: str, gate: dict[str, Any] = NOWHERE, until_idle: bool = False) -> Any:
        return self.lab.start(
            pipelines=pipelines or self.pipelines, places=asdict(self.providers.places), steps=str(self.steps), gate=gate,
            until_idle=until_idle,
        )  # fmt: skip

    def die_at(
        self, *steps: str, pipelines: list[str], expected: int, gathering: float = 4.0, delay: float = 0.0
    ) -> int:
        """Have a worker die there; its process."""
        gate = {"stops": steps, "expected": expected, "gathering": gathering, "delay": delay}
        process = self.start(*pipelines, gate=gate)
        assert process.wait() == -9, process.said()
        return process.pid

    def trail(self, pid: int, *, by_job: bool) -> dict[int, str]:
        """Where each delivery was when a process died, by its own words; or its job, while that had not begun with it."""
        tries: dict[tuple[str, int, int], str] = {}
        for each in delivery_gates.read(self.steps):
            if each.pid == pid:
                tries.pop((each.what, each.id, each.who), None)
                tries[each.what, each.id, each.who] = each.step
        last = {(what, number): step for (what, number, _), step in tries.items() if step != delivery_gates.GAVE_WAY}
        jobs = {number: step for (what, number), step in last.items() if what == "job" and by_job}
        begun = {number: step for (what, number), step in last.items() if what == "delivery"}
        return {row["id"]: jobs[row["job_id"]] for row in self.lab.rows("deliveries") if row["job_id"] in jobs} | begun

    def recent(self) -> set[int]:
        """The processes that have done something about a delivery not long ago."""
        return {each.pid for each in delivery_gates.read(self.steps)[-50:]}

    def wait_until_due(self, pipelines: str) -> None:
        """Until a sweep looks at all that pipelines whose name begins so have left in doubt."""
        left = [row for row in self.lab.rows("deliveries", status="sending") if f".{pipelines}" in row["sender"]]
        time.sleep(max(0.0, max(row["not_before"] for row in left) - time.time()))

    def recover(self) -> None:
        """One worker that nothing happens to, until nothing is left that it could do."""
        process = self.start(until_idle=True)
        code = process.wait(within=240.0)
        assert code == 0, process.said()

    # --- looking

    def rows(self) -> dict[int, dict[str, Any]]:
        return {row["id"]: row for row in self.lab.rows("deliveries")}

    def log(self) -> dict[int, list[str]]:
        """What was tried for each delivery; what came to nothing is left out: on a busy machine providers are slow to answer."""
        tried = defaultdict(list)
        for row in self.lab.rows("delivery_attempts"):
            if row["answer"] not in {"unknown", "put_off"}:
                tried[row["delivery_id"]].append(f"{row['kind']} {row['answer']}")
        return tried

    def check_jobs(self) -> None:
        """Every job has succeeded, or waits for rows of its own that a person has to settle."""
        rows = self.lab.rows("deliveries")
        held = {row["job_id"] for row in rows if row["status"] == "held"}
        assert self.lab.outcomes() == dict.fromkeys({row["job_id"] for row in rows} - held, "succeeded")
        waiting = {row["job_id"]: (row["state"], row["waits_on"]) for row in self.lab.rows("queue")}
        assert waiting == {job: (3, f"delivery:{job}") for job in held}

    def check_settled(self) -> None:
        """Everybody has been told once, and nobody had to read a stack trace."""
        have, rows = self.providers.have(), self.lab.rows("deliveries")
        assert {row["status"] for row in rows} == {"sent"}
        assert {have[row["token"]] for row in rows} == {1}
        assert set(self.lab.outcomes().values()) == {"succeeded"}
        assert self.lab.count("queue") == 0
        assert self.lab.complain() == []

    def settle(self) -> None:
        """As a person does it who has asked the recipients: confirm what they have, and have the rest sent again."""
        have, held = self.providers.have(), self.lab.rows("deliveries", status="held")

        async def main(operations: Any) -> None:
            for row in held:
                if have[row["token"]]:
                    await operations.deliveries.confirm(row["id"], actor="eve", evidence="has been received")
                else:
                    await operations.deliveries.resend(row["id"], actor="eve", reason="has not been received")

        self.lab.operate(main)
        self.recover()


@pytest.fixture(scope="session")
def nursery(open_nursery: Callable[[Path], Any]) -> Any:
    """Where workers come from that can be killed at any step of a delivery."""
    return open_nursery(PROGRAMS / "delivery_worker.py")


@pytest.fixture
def providers(mail_server: Any, tmp_path: Path) -> Iterator[Providers]:
    mail_server.empty()
    with open_office() as office, open_office(drops_second=True) as keyed_office:
        yield Providers(mail_server, office, keyed_office, tmp_path / "mail")


@pytest.fixture
def theatre(lab: Any, providers: Providers) -> Theatre:
    """Theatres on each of the two databases."""
    return Theatre(lab, providers)
