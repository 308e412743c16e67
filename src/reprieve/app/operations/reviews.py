"""Reviews: what waits for a person, claimed, verified, rejected, undone; signatures that are asked again; pruning and erasing."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.analysis.questions import named
from reprieve.app.answers import AnswerSchema, UnfitError
from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, reason_of
from reprieve.app.pipeline.values import ANY
from reprieve.core import repair
from reprieve.core.analysis import AnalysisStatus, ReviewEvent
from reprieve.core.backoff import require_number
from reprieve.errors import Misfit, RefusedError, ResultError, UnknownNameError, UsageError
from reprieve.ports.intents import Continuation, Reset, Rule
from reprieve.ports.reviews import ReviewFilter, ReviewsPruned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reprieve.app.operations.asking import OpenJournal
    from reprieve.app.pipeline import Pipeline
    from reprieve.ports.clock import Clock
    from reprieve.ports.reviews import (
        ReviewDetail,
        ReviewEntry,
        ReviewKeeper,
        ReviewReader,
        ReviewView,
        SignatureDetail,
        SignatureView,
    )

_MOST_RESET: Final = 1000
_PRUNED_AT_ONCE: Final = 500
"""Reviews in one transaction."""
_CENTURY: Final = 3_155_760_000.0
_HIGHEST_ID: Final = 2**63 - 1
_DONE: Final = {
    ReviewEvent.CLAIM: "claimed", ReviewEvent.RELEASE: "gave back", ReviewEvent.VERIFY: "verified",
    ReviewEvent.REJECT: "rejected", ReviewEvent.UNDO: "took back what was said of",
}  # fmt: skip


class ReviewOperations:
    """What people can see and do about what waits for them."""

    def __init__(self, reader: ReviewReader, keeper: ReviewKeeper, journal: OpenJournal, *, clock: Clock) -> None:
        self._reader, self._keeper, self._journal, self._clock = reader, keeper, journal, clock

    async def list(self, wanted: ReviewFilter = ReviewFilter()) -> Sequence[ReviewView]:  # noqa: B008 - frozen
        """Those that wait, the oldest first; page on with `after`."""
        if wanted.limit < 1:
            raise UsageError(f"limit must be at least 1, not {wanted.limit}")
        return await asyncio.to_thread(self._reader.reviews, wanted)

    async def show(self, review_id: int) -> ReviewDetail:
        """One, with samples, answers and history as given."""
        found = None
        if 0 < review_id <= _HIGHEST_ID:
            found = await asyncio.to_thread(self._reader.review, review_id)
        if found is None:
            raise UnknownNameError("review", str(review_id))
        return found

    async def signatures(
        self,
        status: AnalysisStatus | None = None,
        *,
        limit: int = 50,
        after: str | None = None,
        error_type: str | None = None,
    ) -> Sequence[SignatureView]:
        """What is known of signatures, without their answers."""
        found = self._reader.signatures
        return await asyncio.to_thread(found, status, limit=limit, after=after, error_type=error_type)

    async def signature(self, signature: str) -> SignatureDetail:
        """All that is known of one, its answer and its history as given."""
        found = await asyncio.to_thread(self._reader.signature, signature)
        if found is None:
            raise UnknownNameError("signature", signature)
        return found

    async def history(self, signature: str) -> Sequence[ReviewEntry]:
        """All that people did about a signature, in order."""
        return await asyncio.to_thread(self._reader.history, signature)

    async def claim(self, review_id: int, *, actor: str, take_over: bool = False, note: str = "") -> ReviewDetail:
        """Say that you are at it; nobody else decides it then, unless they take it over."""
        return await self._rule(review_id, ReviewEvent.CLAIM, actor, note, take_over=take_over)

    async def release(self, review_id: int, *, actor: str, take_over: bool = False, note: str = "") -> ReviewDetail:
        """Give it back to the queue."""
        return await self._rule(review_id, ReviewEvent.RELEASE, actor, note, take_over=take_over)

    async def verify(
        self,
        review_id: int,
        answer: object,
        *,
        actor: str,
        note: str = "",
        take_over: bool = False,
        pipelines: Mapping[str, Pipeline] | None = None,
    ) -> ReviewDetail:
        """Set the answer: of a signature it fits the schema and is never asked of the model again (LLM-8); of a job it is the
        result of its stage, of that stage's type, and the job goes on from the next one, for which its pipeline is needed.
        """  # noqa: D205 - one sentence
        detail = await self.show(review_id)
        if detail.review.job_id is None:
            data, continuation = _fitting(detail, answer), None
        else:
            data, continuation = _result(detail, answer, pipelines)
        return await self._rule(
            review_id, ReviewEvent.VERIFY, actor, note, take_over=take_over, answer=data, continuation=continuation
        )

    async def reject(self, review_id: int, *, actor: str, reason: str, take_over: bool = False) -> ReviewDetail:
        """Say that there is no answer: the signature, or the job, is skipped."""
        if not reason_of(reason):
            raise UsageError("say why it is rejected: it is kept")
        return await self._rule(review_id, ReviewEvent.REJECT, actor, reason, take_over=take_over)

    async def undo(self, review_id: int, *, actor: str, reason: str) -> ReviewDetail:
        """Take back what was verified or rejected: a new entry, and the review is open again."""
        if not reason_of(reason):
            raise UsageError("say why it is taken back: it is kept")
        if (await self.show(review_id)).is_pruned:
            raise RefusedError(
                f"review {review_id} was pruned: nothing is left to decide it anew by. Erase its signature to have it asked anew"
            )
        return await self._rule(review_id, ReviewEvent.UNDO, actor, reason)

    async def reset(self, signatures: Sequence[str], *, actor: str, reason: str) -> tuple[str, ...]:
        """Have skipped signatures asked of the model again; those that were. What is not skipped is left as it is."""
        actor, note = actor_of(actor), _why_again(reason)
        journal = await self._journal()
        done: list[str] = []
        wanted = list(dict.fromkeys(signatures))
        for start in range(0, len(wanted), _MOST_RESET):
            part = tuple(wanted[start : start + _MOST_RESET])
            reset = Reset(signatures=part, actor=actor, note=note, now=await journal.store.now())
            done += (await journal.ask(reset, patience=PATIENCE)).signatures
        AUDIT.info("%s had %d skipped signatures asked again", actor, len(done))
        return tuple(done)

    async def reset_all(self, *, error_type: str, actor: str, reason: str) -> tuple[str, ...]:
        """The same for all that were skipped for this error; not what a person has rejected, which is to be named."""
        _why_again(reason)
        done: list[str] = []
        after = None
        while page := await self.signatures(
            AnalysisStatus.SKIPPED, limit=_MOST_RESET, after=after, error_type=error_type
        ):
            after = page[-1].url_signature
            names = [each.url_signature for each in page if not each.is_human_verified]
            done += await self.reset(names, actor=actor, reason=reason) if names else ()
        return tuple(done)

    async def prune(
        self, older_than: float, *, actor: str, dry: bool = False, tell: Callable[[ReviewsPruned], None] | None = None
    ) -> ReviewsPruned:
        """Take samples, schema and the model's answers out of reviews of signatures that were closed more than so many seconds ago.

        Who decided what, and when, stays, and the answer is served as before; such a decision cannot be undone any more.
        Reviews of jobs go with their jobs. `tell` hears after each transaction what has been done so far.
        """
        actor = actor_of(actor)
        require_number("older_than", older_than, 0.0, _CENTURY)
        before = self._clock.now() - older_than
        total = ReviewsPruned(reviews=0, more=True)
        while total.more:
            done = await asyncio.to_thread(
                self._keeper.prune_reviews, before=before, limit=_PRUNED_AT_ONCE, dry=dry, after=total.after
            )
            total = ReviewsPruned(reviews=total.reviews + done.reviews, more=done.more, after=done.after)
            if tell is not None:
                tell(total)
        if not dry:
            AUDIT.info("%s pruned %d reviews closed over %.0f s before", actor, total.reviews, older_than)
        return total

    async def erase(self, signatures: Sequence[str], *, actor: str) -> tuple[str, ...]:
        """Remove all that is known of signatures, their reviews and history included; those of which something was known.

        All or nothing: refused while one of them is being asked about. Asked again after that, each is new.
        """
        actor = actor_of(actor)
        if isinstance(signatures, str):
            raise UsageError("erasing takes a list of signatures, not one text")
        wanted = [named(each) for each in dict.fromkeys(signatures)]
        now = await (await self._journal()).store.now()
        done = await asyncio.to_thread(self._keeper.erase_signatures, wanted, now=now)
        AUDIT.info("%s erased %d signatures", actor, len(done))
        return tuple(done)

    async def _rule(self, review_id: int, event: ReviewEvent, actor: str, note: str, **more: Any) -> ReviewDetail:  # noqa: ANN401 - the rest of a Rule
        actor, note = actor_of(actor), reason_of(note)
        await self.show(review_id)
        journal = await self._journal()
        rule = Rule(review_id=review_id, event=event, actor=actor, note=note, now=await journal.store.now(), **more)
        answer = await journal.ask(rule, patience=PATIENCE)
        if answer.why:
            raise RefusedError(f"review {review_id}: {answer.why}")
        AUDIT.info("%s %s review %d", actor, _DONE[event], review_id)
        return await self.show(review_id)


def _why_again(reason: str) -> str:
    note = reason_of(reason)
    if not note:
        raise UsageError("say why they are to be asked again: it is kept")
    return note


def _fitting(detail: ReviewDetail, answer: object) -> bytes:
    """The answer as it is kept, if it fits the schema that the model's had to fit."""
    schema = json.loads(detail.schema or b"{}")
    try:
        AnswerSchema.of(schema).check(answer)
    except UnfitError as error:
        lines = "; ".join(repair.told(error.problems))
        raise UsageError(f"the answer does not fit the schema: {lines}") from None
    return json.dumps(answer, ensure_ascii=False).encode()


def _result(
    detail: ReviewDetail, answer: object, pipelines: Mapping[str, Pipeline] | None
) -> tuple[bytes, Continuation]:
    """The answer as the result of the job's stage, and where the job goes on."""
    review = detail.review
    pipeline = (pipelines or {}).get(review.pipeline or "")
    if pipeline is None:
        raise UsageError(f"the answer becomes the result of a stage: say where the pipeline {review.pipeline!r} is")
    stage = pipeline.find(review.stage or "")
    if stage is None:
        raise UsageError(f"the pipeline {pipeline.name!r} has no stage {review.stage!r} any more")
    if stage.result.fingerprint == ANY:
        _fitting(detail, answer)  # the stage says nothing of its form: what the model was held to does
    try:
        codec = stage.result
        data = stage.encode(codec.decode(json.dumps(answer).encode()))
    except (Misfit, ResultError) as error:
        raise UsageError(f"the answer does not fit the result of {stage.name!r}: {error}") from None
    following = pipeline.after(stage)
    on = Continuation(
        stage=stage.name, next_stage=None if following is None else following.name, result_type=codec.fingerprint
    )
    return data, on
