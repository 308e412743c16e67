"""Waiting for jobs to end: one poll for all who wait, the more often the shorter they have waited."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from reprieve.app.pipeline.values import ANY
from reprieve.core.backoff import shown
from reprieve.core.lifecycle import JobStatus
from reprieve.errors import JobFailedError, JobTimeoutError, StoreUnavailableError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from reprieve.app.looking import Looks
    from reprieve.app.pipeline import Pipeline
    from reprieve.ports.reader import Ending, Reader

_FIRST_POLL: Final = 0.01
_LONGEST_POLL: Final = 0.5


class Waiter:
    """Looks for all jobs that somebody waits for, in one query."""

    def __init__(self, reader: Reader, looks: Looks) -> None:
        self._reader, self._look_up = reader, looks
        self._poll = _FIRST_POLL
        self._closed = False
        self._waiting: dict[int, list[asyncio.Future[Ending]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Stop looking; who waits is told."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._fail(StoreUnavailableError("the application was closed"))

    async def result(self, job_id: int, *, timeout: float | None, pipeline: Pipeline | None) -> Any:  # noqa: ANN401, ASYNC109 - the job's own result; the job is not cancelled
        """What the job's last stage returned."""
        if isinstance(job_id, bool) or not isinstance(job_id, int):
            raise UsageError(f"a job is waited for by its id, a whole number, not {shown(job_id)}")
        self._require_open()
        for ending in await self._look_up(self._reader.endings, [job_id]):
            return value_of(ending, pipeline)
        if await self._look_up(self._reader.job, job_id) is None:
            raise UnknownNameError("job", str(job_id))
        self._require_open()
        future: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, []).append(future)
        self._poll = _FIRST_POLL
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look(), name="reprieve-waiter")
        try:
            ending = await asyncio.wait_for(future, timeout)
        except TimeoutError:
            view = await self._look_up(self._reader.job, job_id)
            status = "gone" if view is None else view.status
            raise JobTimeoutError(f"job {job_id} is not over after {timeout:g} s: it is {status}", job_id=job_id, status=status) from None  # fmt: skip
        finally:
            self._forget(job_id, future)
        return value_of(ending, pipeline)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError("the application was closed")

    def _forget(self, job_id: int, future: asyncio.Future[Ending]) -> None:
        futures = self._waiting.get(job_id, [])
        if future in futures:
            futures.remove(future)
        if not futures:
            self._waiting.pop(job_id, None)

    async def _look(self) -> None:
        while self._waiting:
            try:
                for ending in await self._look_up(self._reader.endings, list(self._waiting)):
                    self._poll = _FIRST_POLL
                    for future in self._waiting.pop(ending.job_id, []):
                        if not future.done():
                            future.set_result(ending)
            except StoreUnavailableError:
                pass  # it may be back at the next look
            except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
                self._fail(error)
            await asyncio.sleep(self._poll)
            self._poll = min(1.5 * self._poll, _LONGEST_POLL)

    def _fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in [future for futures in waiting.values() for future in futures]:
            if not future.done():
                future.set_exception(error)


def value_of(ending: Ending, pipeline: Pipeline | None) -> Any:  # noqa: ANN401 - the job's own result
    """What a job that has succeeded left, of its own type where the pipeline is known; else `JobFailedError`."""
    if ending.status is not JobStatus.SUCCEEDED:
        why = (
            f"{ending.error_class}: {ending.message}" if ending.error_class else ending.reason or "no reason was given"
        )
        problem = f"job {ending.job_id} ended as {ending.status} at {ending.stage}: {why}"
        raise JobFailedError(problem, job_id=ending.job_id, status=ending.status)
    if ending.result is None:
        return None
    # A step of a caller's own loop is no stage, and its result is plain JSON.
    if pipeline is not None and (pipeline.find(ending.stage) is not None or ending.result_type != ANY):
        return pipeline.decode_result(ending.stage, ending.result, ending.result_type or "")
    import json  # noqa: PLC0415 - only for those who do not know the pipeline

    return json.loads(ending.result)
