"""`make run`: throw real failures of real client libraries at the classifier, and show how it judges them."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from reprieve.app.judging import classify
from reprieve.core.failure import ErrorClass, Scope
from reprieve.testing.provoke import NothingFailedError, Provocation, Stage, catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reprieve.core.failure import Failure

_PIPED_WIDTH: Final = 120
_NARROWEST: Final = 80
_LONGEST_CLASS: Final = max(map(len, ErrorClass))
_LONGEST_SCOPE: Final = max(map(len, Scope))

SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "httpx": (
        "connection refused",
        "unknown host",
        "reset in the body",
        "read timeout of a POST",
        "body cut short",
        "expired certificate",
        "redirect loop",
        "429",
        "503",
        "409",
    ),
    "httpx2": ("connect timeout", "not HTTP", "404"),
    "requests": ("reset after the request", "wrong host name", "malformed JSON", "401", "502"),
    "aiohttp": ("no reply", "read timeout", "self-signed certificate", "403", "500"),
    "urllib": ("plain HTTP for TLS", "422"),
    "openai": (
        "rate_limit_exceeded",
        "insufficient_quota",
        "invalid_api_key",
        "context_length_exceeded",
        "error in a stream",
        "timeout",
    ),
    "anthropic": (
        "overloaded_error",
        "credit balance too low",
        "prompt too long",
        "overloaded in a stream",
        "authentication_error",
    ),
    "smtplib": ("451 at MAIL", "550 at RCPT", "535 at AUTH", "552 at the message", "hung up at the message"),
}
"""What is shown, by library; the catalogue has more."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One provoked failure with its verdict."""

    provocation: Provocation
    error: Exception
    failure: Failure


def _chosen() -> tuple[Provocation, ...]:
    every = {(item.library, item.situation): item for item in catalogue(tuple(SHOWN))}
    return tuple(every[library, situation] for library, situations in SHOWN.items() for situation in situations)


def _judge_each(chosen: Sequence[Provocation], console: Console) -> Iterator[Shown]:
    """Provoke and judge; what does not fail on this machine's network stack is not shown."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Stage() as stage, Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("provoking", total=len(chosen))
        for provocation in chosen:
            bar.update(task, description=f"provoking {provocation.label}")
            with contextlib.suppress(NothingFailedError):
                error = stage.provoke(provocation)
                yield Shown(provocation, error, classify(error))
            bar.advance(task)


def _retry(failure: Failure) -> Text:
    if not failure.retryable:
        verdict = ("no", "red")
    elif failure.requires_idempotent:
        verdict = ("if idempotent", "yellow")
    elif failure.retry_after is None:
        verdict = ("yes", "green")
    else:
        verdict = (f"yes, after {failure.retry_after:g} s", "green")
    unknown = ("\noutcome unknown", "yellow") if failure.outcome_unknown else ""
    return Text.assemble(verdict, (f"\n{failure.scope.value.replace('_', ' ')}", "dim"), unknown)


def _because(failure: Failure) -> Text:
    """The evidence that decided: which rule, and what it read where."""
    deciding = failure.evidence[0]
    links = deciding.link.count(" > ")
    depth = f", {links} link{'s' if links > 1 else ''} down" if links else ""
    seen = "by type" if deciding.field == "type" else f"{deciding.field} = {deciding.value}"
    return Text.assemble(deciding.rule.removeprefix("builtins."), (f"\n{seen}{depth}", "dim"))


def _table(shown: Sequence[Shown]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("provoked, raised", ratio=4, overflow="fold")
    table.add_column("error class, category", width=_LONGEST_CLASS)
    table.add_column("retry, scope", width=_LONGEST_SCOPE)
    table.add_column("because of", ratio=4, overflow="fold")
    for item, following in zip(shown, [*shown[1:], None], strict=True):
        failure = item.failure
        last = following is None or following.provocation.library != item.provocation.library
        table.add_row(
            Text.assemble((item.provocation.label, "bold"), (f"\n{type(item.error).__name__}", "dim")),
            Text.assemble(failure.error_class, (f"\n{failure.category.value}", "dim")),
            _retry(failure),
            _because(failure),
            end_section=last,
        )
    return table


def _summary(shown: Sequence[Shown], seconds: float) -> Text:
    again = sum(item.failure.retryable for item in shown)
    unknown = sum(item.failure.outcome_unknown for item in shown)
    return Text(
        f"{len(shown)} real failures provoked and judged in {seconds:.1f} s: {again} worth another try, "
        f"{len(shown) - again} not; {unknown} may have taken effect all the same."
    )


def main() -> int:
    """Show it; gives the exit code."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PIPED_WIDTH)
    elif console.width < _NARROWEST:
        console = Console(width=_NARROWEST)
    started = time.perf_counter()
    chosen = _chosen()
    left_out = sorted({package for item in chosen for package in item.missing})
    tried = [item for item in chosen if not item.missing]
    shown = list(_judge_each(tried, console))
    console.print(_table(shown))
    console.print(_summary(shown, time.perf_counter() - started))
    if len(shown) < len(tried):
        unfailing = {item.label for item in tried} - {item.provocation.label for item in shown}
        console.print(f"Did not fail on this machine: {', '.join(sorted(unfailing))}.")
    if left_out:
        console.print(f"Left out, since not installed: {', '.join(left_out)}.")
    console.print("Judge one of your own: `reprieve classify --help`.", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
