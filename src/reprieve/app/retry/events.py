"""What a hook is told, and how one that fails is kept from doing harm."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure


class Moment(StrEnum):
    """When a hook is called; a call that succeeds at once calls none."""

    RETRYING = "retrying"
    """An attempt failed and another follows; told before the wait."""
    GAVE_UP = "gave_up"
    """The exception is about to be raised to the caller."""
    RECOVERED = "recovered"
    """An attempt succeeded after at least one had failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent:
    """One turn of a retried call; holds nothing secret, and never the arguments."""

    moment: Moment
    function: str
    stage: str
    attempt: int
    """The attempt that just ended, from 1."""
    elapsed: float
    """Seconds since the first attempt began."""
    failure: Failure
    """The latest one; when recovered, the one that was overcome."""
    decision: Decision | None
    """None where a retry below had already given up, so that there was nothing to decide."""
    reason: str


Hook = Callable[[RetryEvent], object]
"""Called with each event; what it returns is ignored, except that a coroutine function's work is awaited."""


def tell(hooks: tuple[Hook, ...], event: RetryEvent) -> None:
    """Call every hook in turn; one that fails is logged and changes nothing."""
    for hook in hooks:
        try:
            returned = hook(event)
            if inspect.iscoroutine(returned):
                returned.close()
                raise TypeError("it returned a coroutine, which nobody awaits in a plain function")  # noqa: TRY301 - reported like any other failure of the hook
        except Exception as error:  # noqa: BLE001 - a hook must not change the outcome, whatever it raises
            _report(hook, error)


async def tell_async(hooks: tuple[Hook, ...], event: RetryEvent) -> None:
    """Call every hook in turn and await what is awaitable; one that fails is logged and changes nothing."""
    for hook in hooks:
        try:
            returned = hook(event)
            if inspect.isawaitable(returned):
                await returned
        except Exception as error:  # noqa: BLE001 - a hook must not change the outcome, whatever it raises
            _report(hook, error)


def _report(hook: Hook, error: Exception) -> None:
    """Log a hook's failure, sanitized."""
    import logging  # noqa: PLC0415 - `import reprieve` does not pay for what hardly ever happens

    from reprieve.app.judging import classify  # noqa: PLC0415 - the same

    try:
        said = classify(error).message
    except Exception:  # noqa: BLE001 - a cancelled future's exception passes through `classify`; here it is a hook's failure
        said = ""
    name = getattr(hook, "__qualname__", type(hook).__qualname__)
    logging.getLogger("reprieve.retry").error(
        "retry hook %s failed and was ignored: %s: %s", name, type(error).__qualname__, said
    )
