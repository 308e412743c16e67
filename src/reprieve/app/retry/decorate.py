"""The wrappers around a function: little more than `try` until something fails."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from reprieve.app.retry.nesting import place_of_function
from reprieve.app.retry.trial import Trial
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from asyncio import Timeout
    from collections.abc import Awaitable, Callable

    from reprieve.app.retry.settings import Settings

F = TypeVar("F", bound="Callable[..., Any]")


def decorate(function: F, settings: Settings) -> F:
    """Wrap a function, plain or async, keeping its signature."""
    if isinstance(function, staticmethod | classmethod):
        return cast("F", type(function)(decorate(function.__func__, settings)))
    called = _called(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise UsageError(
            f"retry cannot wrap the generator {_name(function)}: half of its values may be out when it fails; "
            "retry the calls inside it, or collect the values in a function"
        )
    if inspect.iscoroutinefunction(called):
        wrap = _wrap_async if settings.timeout is None else _wrap_timed
        return cast("F", wrap(function, settings))
    require_plain(settings, _name(function))
    return cast("F", _wrap_plain(function, settings))


def _called(target: object) -> object:
    """What runs when the target is called: itself, or the `__call__` of an object."""
    if inspect.isclass(target) or not callable(target):
        raise UsageError(f"retry decorates functions, not {target!r}")
    if isinstance(target, functools.partial) or inspect.isroutine(target):
        return target
    return type(target).__call__


def require_plain(settings: Settings, name: str) -> None:
    """Refuse what only async code can keep."""
    if settings.timeout is not None:
        raise UsageError(
            f"{name} is plain code and cannot be stopped from outside, so timeout= would be a lie: make it "
            "async, give its client a timeout, or set deadline= to bound the retries"
        )
    for hook in settings.hooks:
        if inspect.iscoroutinefunction(hook):
            raise UsageError(f"{name} is plain code and cannot await the async hook {_name(hook)}")


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _wrap_plain(function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    monotonic, place = settings.clock.monotonic, place_of_function(function)

    @functools.wraps(function)
    def retried(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature is the wrapped one's
        started = monotonic()
        try:
            return function(*args, **kwargs)
        except Exception as error:
            trial = Trial(settings, place, started)
            if not trial.survives(error):
                raise
        # Outside the handler, so that the next exception does not carry this one as its context.
        while True:
            trial.wait()
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                if not trial.survives(error):
                    raise
            else:
                trial.recovered()
                return result

    return retried


def _wrap_async(function: Callable[..., Awaitable[Any]], settings: Settings) -> Callable[..., Awaitable[Any]]:
    monotonic, place = settings.clock.monotonic, place_of_function(function)

    @functools.wraps(function)
    async def retried(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature is the wrapped one's
        started = monotonic()
        try:
            return await function(*args, **kwargs)
        except Exception as error:
            trial = Trial(settings, place, started)
            if not await trial.survives_async(error):
                raise
        return await _again(trial, functools.partial(function, *args, **kwargs))

    return retried


def _wrap_timed(function: Callable[..., Awaitable[Any]], settings: Settings) -> Callable[..., Awaitable[Any]]:
    monotonic, place = settings.clock.monotonic, place_of_function(function)

    @functools.wraps(function)
    async def retried(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature is the wrapped one's
        started = monotonic()

        async def attempt() -> Any:  # noqa: ANN401 - the same
            async with limit(settings, started):
                return await function(*args, **kwargs)

        try:
            return await attempt()
        except Exception as error:
            trial = Trial(settings, place, started)
            if not await trial.survives_async(error):
                raise
        return await _again(trial, attempt)

    return retried


async def _again(trial: Trial, attempt: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - what the function returns
    """Try until one attempt succeeds or the trial ends."""
    while True:
        await trial.wait_async()
        try:
            result = await attempt()
        except Exception as error:
            if not await trial.survives_async(error):
                raise
        else:
            await trial.recovered_async()
            return result


def limit(settings: Settings, started: float) -> Timeout:
    """The time that one attempt may take: its timeout, within what is left of the deadline."""
    import asyncio  # noqa: PLC0415 - only async code needs it, and has it loaded

    seconds, deadline = settings.timeout, settings.profile.policy.deadline
    if seconds is not None and deadline is not None:
        seconds = min(seconds, started + deadline - settings.clock.monotonic())
    return asyncio.timeout(seconds)
