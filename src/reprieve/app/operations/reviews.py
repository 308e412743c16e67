"""Reviews: what waits for a person, claimed, verified, rejected, undone; and skipped signatures that are asked again."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.answers import AnswerSchema, UnfitError
from reprieve.app.operations.asking import AUDIT, PATIENCE, actor_of, reason_of
from reprieve.core import repair
from reprieve.core.analysis import ReviewEvent
from reprieve.errors import Misfit, RefusedError, ResultError, UnknownNameError, UsageError
from reprieve.ports.intents import Continuation, Reset, Rule
from reprieve.ports.reviews import ReviewFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.app.operations.asking import OpenJournal
    from reprieve.app.pipeline import Pipeline
    from reprieve.core.analysis import AnalysisStatus
    from reprieve.ports.reviews import ReviewDetail, ReviewEntry, ReviewReader, ReviewView, SignatureView

_MOST_RESET: Final = 1000
_HIGHEST_ID: Final = 2**63 - 1
_DONE: Final = {
    ReviewEvent.CLAIM: "claimed", ReviewEvent.RELEASE: "gave back", ReviewEvent.VERIFY: "verified",
    ReviewEvent.REJECT: "rejected", ReviewEvent.UNDO: "took back what was said of",
}  # fmt: skip


class ReviewOperations:
    """What people can see and do about what waits for them."""

    def __init__(self, reader: ReviewReader, journal: OpenJournal) -> None:
        self._reader, self._journal = reader, journal

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
        self, status: AnalysisStatus | None = None, *, limit: int = 50, after: str | None = None
    ) -> Sequence[SignatureView]:
        """What is known of signatures, without their answers."""
        return await asyncio.to_thread(self._reader.signatures, status, limit=limit, after=after)

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
        return await self._rule(review_id, ReviewEvent.UNDO, actor, reason)

    async def reset(self, signatures: Sequence[str], *, actor: str, reason: str) -> tuple[str, ...]:
        """Have skipped signatures asked of the model again; those that were. What is not skipped is left as it is."""
        actor, note = actor_of(actor), reason_of(reason)
        if not note:
            raise UsageError("say why they are to be asked again: it is kept")
        journal = await self._journal()
        done: list[str] = []
        wanted = list(dict.fromkeys(signatures))
        for start in range(0, len(wanted), _MOST_RESET):
            part = tuple(wanted[start : start + _MOST_RESET])
            reset = Reset(signatures=part, actor=actor, note=note, now=await journal.store.now())
            done += (await journal.ask(reset, patience=PATIENCE)).signatures
        AUDIT.info("%s had %d skipped signatures asked again", actor, len(done))
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
