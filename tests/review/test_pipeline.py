"""The three stages, on the spot: what is fetched, asked and told, and what is not done twice."""

import asyncio
import mailbox
from pathlib import Path

import pytest

from reprieve.review.changes import change_of, repository_at, submit
from reprieve.testing import inline


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
    assert (told.sent, told.findings, told.severity) == (("mailto:bo@shop.example",), 1, "high")
    assert mail() == {"bo@shop.example": ["Review of Carts know their total: 1 finding, high"]}
    assert "+    def __init__(self, items=[]):" in model.asked[0]


@pytest.mark.spec("REV-2.1")
def test_the_same_content_again_is_the_same_version_and_tells_nobody_again(reviewing, critic, shop):
    pipeline, parts = reviewing(critic())
    (first, second), _ = review(pipeline, parts, shop, 1, 1)
    assert first.job.job_id == second.job.job_id
    assert {who: len(subjects) for who, subjects in mail().items()} == {"bo@shop.example": 1}
