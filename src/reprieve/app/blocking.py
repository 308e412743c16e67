"""The application for plain synchronous code: an event loop in one thread of its own, used from any number of others."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from datetime import datetime, timedelta
    from types import TracebackType
    from typing import Unpack

    from reprieve.app.application import App
    from reprieve.app.pipeline import Pipeline
    from reprieve.app.profiles import ProfileLike
    from reprieve.app.submitting import Submission
    from reprieve.core.decide import Decision

T = TypeVar("T")


class SubmitOptions(TypedDict, total=False):
    """What `App.submit` takes by keyword."""

    idempotency_key: str | None
    subject: str | None
    version: int | Literal["next"] | None
    priority: int
    delay: float | timedelta | None
    run_at: float | datetime | None
    connection: object


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingSubmission:
    """A `Submission` whose result is waited for."""

    job_id: int
    idempotency_key: str
    duplicate: bool
    mismatch: bool
    superseded: tuple[int, ...] = ()
    version: int | None = None
    app: BlockingApp = field(repr=False, compare=False)
    pipeline: Pipeline = field(repr=False, compare=False)

    def result(self, *, timeout: float | None = None) -> Any:  # noqa: ANN401 - the job's own result
        """Wait for it: what the last stage returned."""
        return self.app.wait(self.job_id, timeout=timeout, pipeline=self.pipeline)


class BlockingApp:
    """What an `App` does for its callers, without `await`; used as `with reprieve.connect(url).blocking() as app`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._turn = threading.Lock()
        self._life: _Life | None = None
        self._closed = False

    def __enter__(self) -> Self:
        _refuse_in_event_loop()
        with self._turn:
            if self._closed or self._life is not None:
                raise UsageError("the application is opened once: connect anew")
            self._life = life = _Life(self._app)
        try:
            life.begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits, and let go of everything; may be called twice."""
        with self._turn:
            life, self._life, self._closed = self._life, None, True
        if life is not None:
            life.end()

    def submit(self, pipeline: Pipeline, payload: object, **options: Unpack[SubmitOptions]) -> BlockingSubmission:
        """Create a job, durable when this returns; or find the one that is there. See `App.submit`."""
        asked = self._app.submit(pipeline, payload, **options)
        return self._told(self._call(asked) if options.get("connection") is None else self._call_here(asked))

    def submit_many(
        self, pipeline: Pipeline, items: Iterable[object], *, connection: object = None
    ) -> list[BlockingSubmission]:
        """Create many jobs at once. See `App.submit_many`."""
        asked = self._app.submit_many(pipeline, list(items), connection=connection)
        return [self._told(each) for each in (self._call(asked) if connection is None else self._call_here(asked))]

    def wait(self, job_id: int, *, timeout: float | None = None, pipeline: Pipeline | None = None) -> Any:  # noqa: ANN401 - the job's own result
        """The job's result, once it has succeeded. See `App.wait`."""
        return self._call(self._app.wait(job_id, timeout=timeout, pipeline=pipeline))

    def handle_item_failure(
        self, job: int | str, agent_name: str, step_name: str, error: object, config: ProfileLike | None = None
    ) -> Decision:
        """Decide and write what becomes of a job of a pipeline that no worker runs. See `App.handle_item_failure`."""
        return self._call(self._app.handle_item_failure(job, agent_name, step_name, error, config))

    def complete_item(self, job: int | str, step_name: str, result: object = None) -> None:
        """End a job of a pipeline that no worker runs, as succeeded: its last step is done. See `App.complete_item`."""
        self._call(self._app.complete_item(job, step_name, result))

    def _told(self, submission: Submission) -> BlockingSubmission:
        values = {each.name: getattr(submission, each.name) for each in fields(submission)}
        return BlockingSubmission(**values | {"app": self})

    def _call(self, asked: Coroutine[Any, Any, T]) -> T:
        """What it returns, run in the event loop; whoever is interrupted no longer waits for it."""
        try:
            _refuse_in_event_loop()
            with self._turn:  # so that nothing is begun after the end
                running = self._opened().start(asked)
        except BaseException:
            asked.close()
            raise
        try:
            return running.result()
        except CancelledError:
            raise UsageError("the application was closed while somebody waited here") from None
        except BaseException:
            running.cancel()
            raise

    def _call_here(self, asked: Coroutine[Any, Any, T]) -> T:
        """The same in this very thread, which the caller's own connection may not leave; it waits for nothing else."""
        try:
            _refuse_in_event_loop()
            self._opened()
            asked.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            asked.close()
        raise AssertionError("a blocking connection was awaited")

    def _opened(self) -> _Life:
        if self._life is None:
            raise UsageError("the application is not open: use `with reprieve.connect(url).blocking() as app`")
        return self._life


class _Life:
    """The time for which an application is open, in a thread with an event loop."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._opened: Future[None] = Future()
        self._failure: BaseException | None = None
        # A daemon, so that a program which forgets to close it can end.
        self._thread = threading.Thread(target=self._run, name="reprieve-blocking", daemon=True)

    def begin(self) -> None:
        """Open it; what went wrong there is raised here."""
        self._thread.start()
        self._opened.result()

    def start(self, asked: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there."""
        return asyncio.run_coroutine_threadsafe(asked, self._loop)

    def end(self) -> None:
        """Close it; the same."""
        with suppress(RuntimeError):  # it could not be opened, and the event loop is closed
            self._loop.call_soon_threadsafe(self._finish)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _finish(self) -> None:
        self._stop.set()
        if self._main is not None and not self._opened.done():
            self._main.cancel()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._main = asyncio.current_task()
        try:
            async with self._app:
                self._opened.set_result(None)
                await self._stop.wait()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller's thread is the one to hear of it
            if self._opened.done():
                self._failure = error
            else:
                self._opened.set_exception(error)


def _refuse_in_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("this would block the event loop that runs here: use `async with reprieve.connect(url) as app`")
