"""After which intents workers may find something to do that they did not find before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reprieve.ports import intents as i

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Tells = Callable[[Any, Any], bool]

_TELLS: Final[Mapping[type, Tells]] = {
    # Not a retry, which is always scheduled: the promotion that makes it ready tells of it.
    i.Release: lambda intent, _: intent.run_at is None,
    i.Promote: lambda _, answer: answer.count > 0,
    **dict.fromkeys((i.Wake, i.WakeDelivered), lambda _, answer: answer > 0),
    i.Replay: lambda _, answer: bool(answer.applied),
    i.Launch: lambda _, answer: answer is not None and answer.replayed > 0,
    i.Steer: lambda _, answer: answer,
    i.Rule: lambda intent, answer: intent.continuation is not None and not answer.why,
    **dict.fromkeys((i.Raise, i.Weigh), lambda _, answer: answer.opened),
    **dict.fromkeys((i.Bury, i.SetAside), lambda _, answer: answer in (i.Written.ALERTED, i.Written.ESCALATED)),
    i.Resolve: lambda _, answer: bool(answer.alerts),
    **dict.fromkeys((i.Cancel, i.Pause, i.Resume, i.Close, i.Lost), lambda _, __: True),
}


def is_news(intents: Sequence[i.Intent], answers: Sequence[i.Answer | None]) -> bool:
    """Whether to tell those who wait; of submissions each store tells in its own way."""
    for intent, answer in zip(intents, answers, strict=True):
        tells = _TELLS.get(type(intent))
        if tells is not None and tells(intent, answer):
            return True
    return False
