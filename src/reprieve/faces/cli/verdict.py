"""A verdict and its forecasts, for people and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from reprieve.core.decide import Abort, DeadLetter, Decision, Park, RetryAt

if TYPE_CHECKING:
    from reprieve.app.forecast import Forecast, Wait
    from reprieve.core.failure import Failure

_WAITS_SHOWN = 8


def show(failure: Failure, forecasts: list[Forecast]) -> None:
    """Print the verdict, the evidence and the schedules."""
    console = Console(highlight=False)
    console.print(Group(_headline(failure), _facts(failure), Text("evidence", style="bold"), _evidence(failure)))
    console.print(Group(Text("if it goes on", style="bold"), _schedules(forecasts)))


def _headline(failure: Failure) -> Text:
    if failure.retryable:
        again = Text("worth another try", style="bold green")
        if failure.requires_idempotent:
            again.append(", if the stage is idempotent")
        if failure.retry_after is not None:
            again.append(f", after {seconds(failure.retry_after)}")
    else:
        again = Text("not worth another try", style="bold red")
    return Text.assemble((failure.error_class, "bold"), f" ({failure.category}): ", again)


def _facts(failure: Failure) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    rows = {
        "message": failure.message,
        "remedy": failure.remedy,
        "severity": f"{failure.severity}{', pages' if failure.pages else ''}",
        "scope": failure.scope.replace("_", " "),
        "outcome": "unknown: it may have taken effect" if failure.outcome_unknown else "",
        "status": "" if failure.status_code is None else str(failure.status_code),
        "code": failure.code or "",
        "exception": failure.exception_type,
        "signature": failure.signature,
        "fingerprint": failure.fingerprint,
        "redacted": ", ".join(f"{rule} x{count}" for rule, count in failure.redactions),
    }
    for name, value in rows.items():
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    return table


def _evidence(failure: Failure) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("rule", "field", "value", "link of the chain"):
        table.add_column(name, overflow="fold")
    for evidence in failure.evidence:
        table.add_row(Text(evidence.rule), Text(evidence.field), Text(evidence.value), Text(evidence.link))
    return table


def _schedules(forecasts: list[Forecast]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("profile", "waits before the next attempts", "then"):
        table.add_column(name, overflow="fold")
    for each in forecasts:
        shown = [_wait(wait) for wait in each.waits[:_WAITS_SHOWN]]
        more = len(each.waits) - _WAITS_SHOWN
        if more > 0:
            shown.append(f"and {'more than ' if each.endless else ''}{more} more")
        table.add_row(each.profile, ", ".join(shown) or "none", "goes on" if each.endless else ending(each.end))
    return table


def _wait(wait: Wait) -> str:
    low, high = seconds(wait.shortest), seconds(wait.longest)
    return low if low == high else f"{low} to {high}"


def seconds(value: float) -> str:
    """A duration for people."""
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"  # noqa: PLR2004 - where digits stop to matter


def ending(decision: Decision) -> str:
    """How it ends, in words."""
    reason = decision.reason.replace("_", " ")
    match decision:
        case RetryAt():
            return f"another try ({reason})"
        case Park(state=state):
            return f"parked as {state.replace('_', ' ')}{', operator told' if decision.pages else ''} ({reason})"
        case Abort():
            return f"dead letter, operator paged, stage paused ({reason})"
        case DeadLetter(pages=pages, escalates=escalates):
            return f"dead letter{', operator paged' if pages else ''}{', escalated' if escalates else ''} ({reason})"
        case _:
            assert_never(decision)


def as_dict(each: Forecast) -> dict[str, object]:
    """One forecast as plain values."""
    return {
        "waits": [
            {"attempt": wait.attempt, "shortest": round(wait.shortest, 6), "longest": round(wait.longest, 6)}
            for wait in each.waits
        ],
        "end": None if each.endless else type(each.end).__name__,
        "reason": each.end.reason,
        "endless": each.endless,
    }
