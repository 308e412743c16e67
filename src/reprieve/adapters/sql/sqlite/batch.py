"""A batch of intents, applied in one transaction: grouped by kind, since a statement for many is faster than many for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from reprieve.adapters.sql.alerts import applying as alerts
from reprieve.adapters.sql.analysis import applying as analysis
from reprieve.adapters.sql.dead_letters.applying import apply_on_sqlite
from reprieve.adapters.sql.deliveries import sqlite as deliveries
from reprieve.adapters.sql.sqlite import claiming, finishing, jobs, operating, submitting
from reprieve.ports import intents as i

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    Handler = Callable[[sqlite3.Connection, list[Any], bool], Sequence[i.Answer]]

_HANDLERS: Final[Mapping[Any, Handler]] = {
    # In the order in which a batch is applied: what frees comes before what takes.
    i.Finish: finishing.finish,
    i.Checkpoint: finishing.checkpoint,
    **dict.fromkeys((i.Retry, i.SetAside, i.Await, i.Release, i.Remember, i.Complete, i.Stop), jobs.report),
    i.Cancel: jobs.cancel,
    i.Submit: submitting.submit,
    i.End: deliveries.end,
    i.Correct: deliveries.correct,
    i.Prepare: deliveries.prepare,
    i.Begin: deliveries.begin,
    i.AnalysisIntent: analysis.apply_on_sqlite,
    i.StageIntent: operating.change_stage,
    i.Wake: operating.wake,
    i.WakeDelivered: deliveries.wake,
    i.Register: operating.register,
    i.Renew: operating.renew,
    i.Leave: operating.leave,
    i.Lost: operating.lose,
    # Last of what waits for rows of others: it ends with the counts of groups, which many want.
    i.LetterIntent: apply_on_sqlite,
    i.AlertIntent: alerts.apply_on_sqlite,
    i.Promote: claiming.promote,
    i.Claim: claiming.claim,
}
_TOGETHER: Final = {
    kind: several
    for several in (i.StageIntent, i.LetterIntent, i.AnalysisIntent, i.AlertIntent)
    for kind in get_args(several)
}
"""What is said about stages holds in the order of saying, whatever its kind; so does what is said about dead letters, about signatures and reviews, and about alerts."""


def apply(connection: sqlite3.Connection, intents: Sequence[i.Intent], again: bool) -> Sequence[i.Answer]:  # noqa: FBT001 - handed to a thread by position
    """Apply all or nothing; raises what the driver raises."""
    kinds: dict[Any, list[int]] = {}
    for place, intent in enumerate(intents):
        kinds.setdefault(_TOGETHER.get(type(intent), type(intent)), []).append(place)
    answers: list[i.Answer] = [False] * len(intents)
    connection.execute("BEGIN IMMEDIATE")
    try:
        for kind in sorted(kinds, key=_ORDER.__getitem__):
            places = kinds[kind]
            wanted = intents if len(kinds) == 1 else [intents[place] for place in places]
            for place, answer in zip(places, _HANDLERS[kind](connection, list(wanted), again), strict=True):
                answers[place] = answer
        if alerts.may_be_loud(kinds):
            alerts.raise_on_sqlite(connection, intents, answers, again=again)
        connection.execute("COMMIT")
    except BaseException:
        # Some errors have rolled back already. Nothing of a batch whose COMMIT failed can be seen: its outcome is known.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answers


_ORDER: Final = {kind: place for place, kind in enumerate(_HANDLERS)}
