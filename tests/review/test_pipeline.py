"""The three stages, on the spot: what is fetched, asked and told, and what is not done twice."""

import asyncio
import mailbox
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reprieve.review.changes import change_of, repository_at, submit
from reprieve.review.pipeline import make
from reprieve.review.settings import load
from reprieve.senders import Maildir
from reprieve.testing import inline
from reprieve.testing.sample import Commit, commit, make_repository


def review(pipeline, parts, shop, *places, **options):
    """Run these commits one after another; how each ended."""
    folder, commits = shop

    async def main():
        async with inline() as app:
            ended = []
            for place in places:
                change = await change_of(parts.git, repository_at(str(folder)), commits[place])
                made = await submit(app, pipeline, change, **options)
                await app.run(pipeline, change, idempotency_key=made.idempotency_key)
                ended.append(app.outcome(made.job_id, pipeline=pipeline))
            return ended, app.clock.slept

    return asyncio.run(main())


def mail(folder="mail"):
    """Who got what: subjects by recipient."""
    return {
        box.name: sorted(str(each["subject"]) for each in mailbox.Maildir(box, create=False))
        for box in Path(folder).iterdir()
    }


def test_a_commit_is_fetched_criticized_and_its_owners_and_author_are_told_once(reviewing, critic, shop):
    model = critic(findings=[{"file": "shop/cart.py", "line": 2, "comment": "Shared by all carts."}], severity="high")
    pipeline, parts = reviewing(model)
    (ended,), _ = review(pipeline, parts, shop, 1)
    told = ended.raise_for_status().result
    assert (told.sent, len(told.report.findings), told.report.severity) == (("mailto:bo@shop.example",), 1, "high")
    assert mail() == {"bo@shop.example": ["Review of Carts know their total: 1 finding, high"]}
    assert "+    def __init__(self, items=[]):" in model.asked[0]


@pytest.mark.spec("REV-2.1")
def test_the_same_content_again_is_the_same_version_and_tells_nobody_again(reviewing, critic, shop):
    pipeline, parts = reviewing(critic())
    (first, second), _ = review(pipeline, parts, shop, 1, 1)
    assert first.job.job_id == second.job.job_id
    assert {who: len(subjects) for who, subjects in mail().items()} == {"bo@shop.example": 1}


def test_new_content_is_the_next_version_and_ends_an_older_one_that_has_told_nobody(reviewing, critic, tmp_path):
    pipeline, parts = reviewing(critic())
    folder = tmp_path / "shop"
    make_repository(folder, (Commit("Ada", "one", {"a.py": "1\n"}),))
    subprocess.run(["git", "branch", "base"], cwd=folder, check=True)

    async def main():
        async with inline() as app:

            async def ask():
                change = await change_of(parts.git, repository_at(str(folder)), "base...main")
                return await submit(app, pipeline, change), change

            commit(folder, Commit("Ada", "two", {"a.py": "2\n"}), 1)
            first, _ = await ask()
            again, _ = await ask()
            commit(folder, Commit("Bo", "three", {"a.py": "3\n"}), 2)
            second, change = await ask()
            await app.run(pipeline, change, idempotency_key=second.idempotency_key)
            return first, again, second, app.outcome(first.job_id), app.outcome(second.job_id, pipeline=pipeline)

    first, again, second, older, newer = asyncio.run(main())
    assert (first.version, again.version, again.duplicate, second.version) == (1, 1, True, 2)
    assert second.superseded == (first.job_id,)
    assert older.status == "cancelled"
    assert sorted(newer.raise_for_status().result.sent) == ["mailto:ada@shop.example", "mailto:bo@shop.example"]


def test_one_channel_that_fails_keeps_nobody_else_from_being_told(reviewing, critic, shop):
    pipeline, parts = reviewing(
        critic(),
        webhook={"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
        notify={"recipients": ["https://hook.invalid/x"]},
    )
    (ended,), _ = review(pipeline, parts, shop, 1)
    assert ended.status == "dead_letter"
    assert ended.dead_letter.stage == "notify"
    assert {each.stage for each in ended.attempts} == {"notify"}
    assert list(mail()) == ["bo@shop.example"]


def test_a_change_without_anything_to_read_asks_no_model_and_says_so(reviewing, critic, tmp_path):
    model = critic()
    pipeline, parts = reviewing(model)
    history = (
        Commit("Ada", "one", {"a.py": "1\n"}),
        Commit("Ada", "locked", {"uv.lock": "x\n" * 50, "logo.png": "\0\1"}),
    )
    folder = tmp_path / "locked"
    (ended,), _ = review(pipeline, parts, (folder, make_repository(folder, history)), 1)
    assert ended.raise_for_status().result.report.findings == ()
    assert model.asked == []
    (message,) = mailbox.Maildir("mail/ada@shop.example", create=False)
    text = message.get_payload()[0].get_payload(decode=True).decode()
    assert "There is nothing to review" in text
    assert "1 binary, 1 generated" in text


class Late(Maildir):
    """A sender that breaks when a recipient is written down, and not before."""

    broken = False

    def address(self, recipient):
        if self.broken:
            raise RuntimeError("no more addresses today")
        return super().address(recipient)


@pytest.mark.spec("REV-3.2")
def test_everybody_is_written_down_before_anybody_is_told_whoever_tells_them(reviewing, critic, shop):
    model = critic()
    _, parts = reviewing(model)
    late = Late("mail", name="late")
    ask = model.ask

    async def last(*given, **said):
        late.broken = True
        return await ask(*given, **said)

    model.ask = last
    told = {"recipients": ["mailto:boss@shop.example", "maildir:archive"], "owners": False, "authors": False}
    parts = replace(parts, routes={"mailto": Maildir("mail"), "maildir": late})
    (ended,), _ = review(make(load(notify=told, folder=Path("state")), parts), parts, shop, 1)
    assert (ended.status, ended.job.stage) == ("dead_letter", "notify")
    assert not Path("mail").exists()
