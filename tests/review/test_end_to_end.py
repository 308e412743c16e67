"""Ten commits (twenty in a campaign), the embedded model, a real mail server, failures, killed workers."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

import reprieve
from reprieve.core.lifecycle import DeliveryStatus, JobStatus
from reprieve.faces.cli.review import load
from reprieve.ports.deliveries import DeliveryFilter
from reprieve.ports.reader import JobFilter
from reprieve.review.parts import parts_of
from reprieve.review.pipeline import make
from reprieve.review.reviewing import Wanted, changes_of, submit_all
from reprieve.testing.sample import Commit, make_repository
from support import effort

COMMITS = effort.size(10, 20)
LONG = 600.0
PROMPT = "Is this right?\n$diff\nSay it in a few words."


@pytest.fixture(scope="module")
def orchard(tmp_path_factory):
    """A repository with small commits, whose owner is another than most authors."""
    folder = tmp_path_factory.mktemp("orchard") / "orchard"
    history = [
        Commit(
            ("Ada", "Bo", "Cy")[number % 3],
            f"Tree {number}",
            {f"tree{number}.py": f"def pick():\n    return {number} / 0\n"},
        )
        for number in range(COMMITS)
    ]
    history[0] = Commit("Ada", "Tree 0", {**history[0].files, "CODEOWNERS": "*.py bo@shop.example\n"})
    return folder, make_repository(folder, tuple(history))


def expected(number):
    """Who is told about a commit."""
    return {"bo@shop.example", ("ada@shop.example", "bo@shop.example", "cy@shop.example")[number % 3]}


class Orchard:
    """The service in processes of its own, and what it has to show for itself."""

    def __init__(self, url, folder, shop, mail, monkeypatch):
        self.folder, self.mail, (self.repository, self.commits) = folder, mail, shop
        (folder / "prompt.txt").write_text(PROMPT)
        variables = {
            "DATABASE": url, "CHAOS": "8", "REPOSITORY": str(self.repository), "FOLDER": str(folder / "state"),
            "MODEL__NAME": "local", "NOTIFY__OWNERS": "true", "NOTIFY__AUTHORS": "true",
            "MODEL__PROMPT": str(folder / "prompt.txt"), "MODEL__ANSWER_TOKENS": "120", "MODEL__CHARACTERS": "24",
            "MAIL__HOST": mail.host, "MAIL__PORT": str(mail.smtp_port), "MAIL__SECURITY": "none", "MAIL__JOURNAL": mail.username,
            "MAIL__JOURNAL_PASSWORD": mail.password, "MAIL__JOURNAL_PORT": str(mail.imap_port), "MAIL__JOURNAL_SECURITY": "none",
            "MAIL__JOURNAL_COPY": "false", "MAIL__JOURNAL_LAG": "0",
        }  # fmt: skip
        for name, value in variables.items():
            monkeypatch.setenv(f"REPRIEVE_REVIEW_{name}", value)
        monkeypatch.delenv("REPRIEVE_URL", raising=False)
        monkeypatch.chdir(folder)
        self.settings = load(None, None)
        self.process = None

    def start(self):
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "reprieve", "serve", "--lease", "2s", "--concurrency", "4"]
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, env=os.environ.copy())

    def end(self, number=signal.SIGKILL):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def ask(self, task):
        async def main():
            async with reprieve.connect(self.settings.database) as app:
                return await task(app)

        return asyncio.run(main())

    def submit(self, *names, version=None):
        parts = parts_of(self.settings)
        pipeline = make(self.settings, parts)

        async def task(app):
            changes = await changes_of(parts, Wanted(names=names, repository=str(self.repository), version=version))
            return [each.made for each in await submit_all(app, pipeline, changes, version=version)]

        return self.ask(task)

    def counts(self):
        return self.ask(lambda app: app.operations.jobs.progress()).counts

    def until(self, true, what):
        deadline = time.monotonic() + LONG
        while not true(counts := self.counts()):
            assert self.process is None or self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, f"{what}: {counts}\n{(self.folder / 'log').read_text()[-3000:]}"
            time.sleep(0.2)
        return counts

    def settled(self):
        return self.until(
            lambda counts: sum(n for s, n in counts.items() if s.over) == sum(counts.values()), "all are over"
        )

    def letters(self):
        async def task(app):
            jobs = await app.operations.jobs.list(JobFilter(status=JobStatus.DEAD_LETTER, limit=100))
            return [await app.operations.jobs.show(job.job_id) for job in jobs]

        return self.ask(task)

    def mails(self):
        """How many of each: (recipient, subject)."""
        found = self.mail.messages()
        assert len({each["message-id"] for each in found}) == len(found)
        return Counter((str(each["to"]), str(each["subject"]).partition(":")[0]) for each in found)


@pytest.fixture
def service(store_url, tmp_path, orchard, mail_server, monkeypatch):
    mail_server.empty()  # which others used before
    made = Orchard(store_url, tmp_path, orchard, mail_server, monkeypatch)
    yield made
    made.end()


@pytest.mark.campaign
@pytest.mark.timeout(effort.size(600, 3600))
@pytest.mark.spec("REV-9.1", "REV-2.1", "REV-2.2", "REV-5.1", "CRIT-5.4")
def test_everybody_is_told_once_for_each_version_whatever_breaks(service):
    assert not any(made.duplicate for made in service.submit(*service.commits))
    for done in (COMMITS // 6, COMMITS // 2):
        service.start()
        service.until(lambda counts, done=done: counts[JobStatus.SUCCEEDED] >= done, f"{done} have succeeded")
        service.end()
    service.start()
    counts = service.settled()
    letters = service.letters()
    assert counts[JobStatus.DEAD_LETTER] == len(letters) > 0
    assert "fetch" in {letter.dead_letter.stage for letter in letters} <= {"fetch", "llm"}

    _replay(service, letters)
    counts = service.settled()
    assert counts[JobStatus.SUCCEEDED] == COMMITS
    once = Counter({(who, f"Review of Tree {number}"): 1 for number in range(COMMITS) for who in expected(number)})
    assert service.mails() == once
    _check_outbox(service, len(once))

    assert all(made.duplicate for made in service.submit(*service.commits))
    twice = service.submit(service.commits[1], version=2)
    assert not twice[0].duplicate
    service.settled()
    assert service.mails() == once + Counter({(who, "Review of Tree 1"): 1 for who in expected(1)})
    service.end(signal.SIGTERM)


def _replay(service, letters):
    """From the stage that failed: what was done before it is not done again."""
    done = {each.job.job_id: [(run.stage, run.finished_at) for run in each.stages] for each in letters}

    async def task(app):
        await app.operations.dead_letters.replay(
            [each.dead_letter.letter_id for each in letters],
            actor="kim",
            cause="transient",
            evidence="over",
            safe="told once",
        )

    service.ask(task)
    service.settled()
    for job_id, stages in done.items():
        after = service.ask(lambda app, job_id=job_id: app.operations.jobs.show(job_id))
        assert [(run.stage, run.finished_at) for run in after.stages][: len(stages)] == stages


def _check_outbox(service, number):
    """The rows say the same as the mailbox, and the killed and troubled sends left none in doubt."""
    rows = service.ask(lambda app: app.operations.deliveries.list(DeliveryFilter(limit=1000)))
    assert len(rows) == number
    assert {row.status for row in rows} == {DeliveryStatus.SENT}
    attempts = service.ask(lambda app: app.operations.jobs.list(JobFilter(limit=100)))
    assert all(job.version == 1 for job in attempts)
