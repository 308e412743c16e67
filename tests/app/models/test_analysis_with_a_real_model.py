"""The cached analysis with the embedded model, whose output nobody constrains: each signature has an answer that fits, or a person.

A campaign asks about 50 prompts, with room for whole answers; `make test` asks a handful with few tokens.
"""

from __future__ import annotations

import asyncio
import json
import logging

import jsonschema
import pytest
from sqlalchemy import select

import reprieve
from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import metadata
from reprieve.core.analysis import AnalysisStatus
from reprieve.models import LocalModel
from reprieve.ports.reviews import ReviewFilter
from support import effort

NUMBER = effort.size(4, 50)
TOKENS = 80 if NUMBER > 10 else 32
ANALYZED, REVIEW = AnalysisStatus.ANALYZED, AnalysisStatus.NEEDS_REVIEW
SCHEMA = {"type": "integer", "minimum": 0, "maximum": 3000}
PROMPT = "{signature} Answer with one number."
QUESTIONS = ["How many days has a week?", "What is 3 plus 4?", "Which year was it?", "Write a poem.", "Say [7, 8]."]


class Limited:
    """The model that it is given, with few tokens and no chance; all that it answered is kept aside."""

    def __init__(self, model):
        self.model, self.name, self.said = model, model.name, []

    async def ask(self, prompt, **settings):
        fields = {"turns": prompt.turns, "system": prompt.system, "max_tokens": TOKENS, "temperature": 0.0}
        reply = await self.model.ask(type(prompt)(**fields), **settings)
        self.said.append(reply.text)
        return reply

    async def close(self):
        """It is another's to close."""


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def local(runner):
    """One process for both databases."""
    model = LocalModel(structured=False, slots=2, context=2048)
    yield model
    runner.run(model.close())


def rows(url, table):
    database = Database.at(url, writes=False)
    try:
        with database.transaction() as connection:
            return {row.url_signature: row._asdict() for row in connection.execute(select(metadata.tables[table]))}
    finally:
        database.close()


@pytest.mark.campaign
@pytest.mark.spec("LLM-1.5", "LLM-4.3", "LLM-5.1")
def test_every_signature_has_an_answer_that_fits_or_waits_for_a_person(store_url, runner, local):
    names = [f"{number}. {QUESTIONS[number % len(QUESTIONS)]}" for number in range(NUMBER)]
    model = Limited(local)

    async def main():
        async with reprieve.connect(store_url) as app:
            analysis = app.analysis(model, prompt=PROMPT, schema=SCHEMA, timeout=300.0)
            found = await analysis.analyze_many({name: [name] for name in names})
            reviews = await app.operations.reviews.list(ReviewFilter(limit=NUMBER))
            return found, [await app.operations.reviews.show(each.review_id) for each in reviews]

    found, reviews = runner.run(main())
    cached = rows(store_url, "analysis_cache")
    assert sorted(cached) == sorted(found.results) == sorted(names), "none is lost"
    waiting = {detail.review.url_signature: detail for detail in reviews}
    for name, row in cached.items():
        assert row["status"] == found.results[name].status
        if row["status"] == ANALYZED:
            jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(row["answer"]))
            assert name not in waiting
        else:
            assert row["status"] == REVIEW
            check_review(waiting[name], model.said)
    logging.getLogger(__name__).info("of %d: %d in review", NUMBER, len(waiting))


def check_review(detail, said):
    """All that was answered is there, each with what is wrong with it."""
    answers = json.loads(detail.answers)
    assert len(answers) in {1, 2}
    assert all(answer["errors"] for answer in answers)
    assert {answer["text"] for answer in answers} <= set(said)
    assert len(answers) == 2 or answers[0]["finish"] != "complete"
