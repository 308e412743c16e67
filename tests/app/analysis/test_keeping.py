"""What is known of signatures, once it is pruned or erased: what is served stays so, what is erased was never there."""

import asyncio
import logging

import pytest

import reprieve
from reprieve.core.analysis import AnalysisStatus, ReviewEvent, ReviewState
from reprieve.models import Reply as ModelReply
from reprieve.ports.intents import Rule
from reprieve.testing import replies

SKIPPED, ANALYZED, REVIEW = AnalysisStatus.SKIPPED, AnalysisStatus.ANALYZED, AnalysisStatus.NEEDS_REVIEW
GOOD = replies.openai.completion('{"kind": "article"}')
BAD = replies.openai.completion('{"kind": "nonsense"}')
DAY = 86_400.0
WHO = "people.example/jane-roe"


@pytest.fixture
def waiting(lab):
    """With one signature that waits for a person: review 1."""
    lab.upstream.next(BAD, BAD)
    lab.upstream.always(GOOD)
    assert lab.analyze(WHO, "https://people.example/jane-roe").status is REVIEW
    return lab


def reviewed(lab, task):
    """Do something about reviews; what came of it."""
    return lab.run(lambda app, _: task(app.operations.reviews))


def verify(lab):
    return reviewed(lab, lambda reviews: reviews.verify(1, {"kind": "product"}, actor="ada", note="looked at it"))


def prune(lab, older_than=DAY, **options):
    return reviewed(lab, lambda reviews: reviews.prune(older_than, **({"actor": "kim"} | options)))


# --- pruning


@pytest.mark.spec("LLM-8.3")
def test_a_verified_answer_outlives_what_it_was_decided_by_and_so_does_who_decided(waiting, caplog):
    verify(waiting)
    assert prune(waiting).reviews == 0, "it is not old enough"
    waiting.clock.advance(2 * DAY)
    caplog.clear()
    with caplog.at_level(logging.INFO, "reprieve.operations"):
        assert prune(waiting).reviews == 1
    assert caplog.messages == ["kim pruned 1 reviews closed over 86400 s before"]
    shown = reviewed(waiting, lambda reviews: reviews.show(1))
    assert (shown.samples, shown.answers, shown.schema, shown.is_pruned) == (None, None, None, True)
    assert (shown.answer, shown.review.closed_by) == (b'{"kind": "product"}', "ada")
    assert [(entry.event, entry.actor) for entry in shown.history] == [("ask", "reprieve"), ("verify", "ada")]
    asked = len(waiting.asked)
    found = waiting.analyze(WHO)
    assert (found.status, found.value.kind, found.is_human_verified) == (ANALYZED, "product", True)
    assert len(waiting.asked) == asked


@pytest.mark.parametrize("decided", ["verified", "rejected"])
def test_a_decision_whose_material_is_gone_is_not_taken_back_by_whatever_way(waiting, decided):
    """It would wait for a person who has nothing to look at, and an answer would be held to no schema."""
    if decided == "verified":
        verify(waiting)
    else:
        reviewed(waiting, lambda reviews: reviews.reject(1, actor="ada", reason="gone"))
    waiting.clock.advance(2 * DAY)
    prune(waiting)
    with pytest.raises(reprieve.RefusedError, match="review 1 was pruned: nothing is left to decide it anew by"):
        reviewed(waiting, lambda reviews: reviews.undo(1, actor="bob", reason="a mistake"))

    async def asked_before_it_was_pruned(app, _):
        now = await app.journal.store.now()
        rule = Rule(review_id=1, event=ReviewEvent.UNDO, actor="bob", note="a mistake", now=now)
        return await app.journal.ask(rule)

    answer = waiting.run(asked_before_it_was_pruned)
    assert (answer.state, answer.why) == (ReviewState(decided), "its signature has changed since: look at it again")
    assert waiting.analyze(WHO).status is (ANALYZED if decided == "verified" else SKIPPED)


def test_what_waits_keeps_everything_however_old_also_what_waits_again(waiting):
    waiting.clock.advance(400 * DAY)
    assert prune(waiting, 0.0).reviews == 0
    verify(waiting)
    reviewed(waiting, lambda reviews: reviews.undo(1, actor="bob", reason="a mistake"))
    waiting.clock.advance(400 * DAY)
    assert prune(waiting, 0.0).reviews == 0
    shown = reviewed(waiting, lambda reviews: reviews.show(1))
    assert shown.samples == b'["https://people.example/jane-roe"]'
    assert verify(waiting).review.state is ReviewState.VERIFIED


def test_a_dry_run_changes_nothing_and_leaves_no_line_in_the_log(waiting, caplog):
    verify(waiting)
    waiting.clock.advance(2 * DAY)
    told = []
    caplog.clear()
    with caplog.at_level(logging.INFO, "reprieve.operations"):
        assert prune(waiting, dry=True, tell=told.append).reviews == 1
    assert (caplog.messages, [each.reviews for each in told]) == ([], [1])
    assert reviewed(waiting, lambda reviews: reviews.show(1)).samples is not None


@pytest.mark.parametrize("given", [{"older_than": -1.0}, {"older_than": float("nan")}, {"actor": " "}])
def test_a_pruning_that_cannot_be_meant_is_refused(lab, given):
    with pytest.raises(reprieve.UsageError):
        prune(lab, **({"older_than": DAY} | given))


# --- erasing


def erase(lab, *names):
    return reviewed(lab, lambda reviews: reviews.erase(names, actor="kim"))


def test_an_erased_signature_is_new_to_whoever_asks_about_it(waiting, caplog):
    verify(waiting)
    with caplog.at_level(logging.INFO):
        assert erase(waiting, WHO, "nobody", WHO) == (WHO,)
    assert "kim erased 1 signatures" in caplog.messages
    assert WHO not in caplog.text
    assert reviewed(waiting, lambda reviews: reviews.history(WHO)) == []
    asked = len(waiting.asked)
    found = waiting.analyze(WHO)
    assert (found.status, found.value.kind, found.cached, found.is_human_verified) == (
        ANALYZED,
        "article",
        False,
        False,
    )
    assert len(waiting.asked) == asked + 1


def test_who_was_about_to_decide_what_is_erased_hears_that_it_is_gone(waiting):
    reviewed(waiting, lambda reviews: reviews.claim(1, actor="ada"))
    assert erase(waiting, WHO) == (WHO,)
    with pytest.raises(reprieve.UnknownNameError, match="no review is named '1'"):
        verify(waiting)


class Slow:
    """A model that answers when it is let go, and counts how often it was asked."""

    name = "slow"

    def __init__(self):
        self.asked, self.let_go = 0, asyncio.Event()

    async def ask(self, prompt, *, schema=None, timeout=60.0):  # noqa: ASYNC109 - as the port has it
        self.asked += 1
        await self.let_go.wait()
        return ModelReply(text='{"kind": "article"}', model="slow")

    async def close(self):
        pass


async def being_asked(app):
    """A caller who waits for a model that has been asked."""
    model = Slow()
    caller = asyncio.ensure_future(app.analysis(model, prompt="x", schema={"type": "object"}).analyze(WHO))
    while not model.asked:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.01)
    return model, caller


def test_a_signature_that_is_being_asked_about_is_erased_once_that_is_over(lab):
    async def main(app, _):
        model, caller = await being_asked(app)
        with pytest.raises(reprieve.RefusedError, match=f"'{WHO}' is being asked about: try again"):
            await app.operations.reviews.erase([WHO], actor="kim")
        model.let_go.set()
        found = await caller
        return model.asked, found.status, await app.operations.reviews.erase([WHO], actor="kim")

    assert lab.run(main) == (1, ANALYZED, (WHO,))


def test_who_was_silent_for_longer_than_its_lease_and_finds_the_signature_erased_asks_anew(lab):
    async def main(app, _):
        model, caller = await being_asked(app)
        lab.clock.advance(DAY)
        assert await app.operations.reviews.erase([WHO], actor="kim") == (WHO,)
        model.let_go.set()
        found = await caller
        return model.asked, found.status

    assert lab.run(main) == (2, ANALYZED)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("abc", "a list of signatures"),
        ([""], "not empty"),
        (["a\0b"], "a database can take"),
        ([7], "a signature is a text"),
    ],
)
def test_what_cannot_be_a_list_of_signatures_is_refused(lab, given, problem):
    with pytest.raises(reprieve.UsageError, match=problem):
        reviewed(lab, lambda reviews: reviews.erase(given, actor="kim"))
