"""An event loop whose clock jumps to the next timer, so that waits of half an hour take no time."""

import asyncio
import selectors


class _JumpingSelector(selectors.DefaultSelector):
    """Reports a wait as over at once where nothing is ready, and keeps the time that was not waited."""

    skipped = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout is None:
            return ready or super().select(timeout)
        self.skipped += max(timeout, 0.0)
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self):
        return super().time() + self._jumping.skipped


def run_jumping(coroutine):
    """Run a coroutine that waits for timers only: the clock of its loop jumps from one to the next."""
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(coroutine)
