"""`reprieve deliveries`: list, show, reconcile, resend, confirm, give-up."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reprieve.core.lifecycle import DeliveryStatus
from reprieve.faces.cli.common import (
    DEFAULT_URL,
    Actor,
    AsJson,
    Home,
    Url,
    acting,
    find_pipelines,
    operate,
    say,
    say_json,
    say_stored,
)
from reprieve.faces.cli.rendering import console, count, facts, plain, status, table, when
from reprieve.ports.deliveries import DeliveryFilter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reprieve.app.operations import Operations
    from reprieve.ports.deliveries import DeliveryDetail
    from reprieve.ports.intents import DeliveryRecord
    from reprieve.ports.sending import Sender

app = typer.Typer(
    name="deliveries", help="Who was told, who was not, and what a person has to settle.", no_args_is_help=True
)

Id = Annotated[int, typer.Argument(metavar="ID", help="The delivery's number.", show_default=False)]
_NEXT: Final = {
    DeliveryStatus.HELD: "find out whether it was received: reprieve deliveries confirm {id} --evidence '...', or "
    "reprieve deliveries resend {id} --reason '...'",
    DeliveryStatus.FAILED: "mend what was refused, then replay its job: reprieve dead show job:{job}",
    DeliveryStatus.UNCERTAIN: "wait: a worker asks the provider; or at once: reprieve deliveries reconcile {id} --app ...",
    DeliveryStatus.RECONCILING: "wait: the provider is being asked",
    DeliveryStatus.SENDING: "wait: it is being sent, or will be looked up once its time is over",
    DeliveryStatus.PENDING: "wait: its job sends it; see reprieve jobs show {job}",
}


@app.command("list")
def list_deliveries(  # noqa: PLR0913 - one parameter an option
    *,
    state: Annotated[
        list[DeliveryStatus] | None,
        typer.Option("--status", "-s", help="Only so; may be given again.", show_default=False),
    ] = None,
    job: Annotated[int | None, typer.Option("--job", help="Only of this job.", show_default=False)] = None,
    changelist: Annotated[
        str | None, typer.Option("--changelist", help="Only of this subject (changelist_id).", show_default=False)
    ] = None,
    recipient: Annotated[str | None, typer.Option("--recipient", help="Only to this one.", show_default=False)] = None,
    sender: Annotated[str | None, typer.Option("--sender", help="Only by this sender.", show_default=False)] = None,
    after: Annotated[int | None, typer.Option("--after", help="Older than this number.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=1000)] = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List deliveries, the newest first.

    Examples:
    reprieve deliveries list --status held
    """
    wanted = DeliveryFilter(
        statuses=frozenset(state or ()), job_id=job, changelist_id=changelist, recipient=recipient, sender=sender,
        after=after, limit=limit,
    )  # fmt: skip
    found = operate(url, lambda operations: operations.deliveries.list(wanted))
    if as_json:
        say_json([_plain_row(row) for row in found])
    elif not found:
        say("no deliveries")
    else:
        console().print(_table(found, time.time()))
        if len(found) == limit:
            say(f"more: --after {found[-1].delivery_id}")


@app.command()
def show(
    delivery: Id,
    *,
    body: Annotated[bool, typer.Option("--body", help="Print the message as it was frozen, and nothing else.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show one delivery with everything that was tried, and what comes next.

    Examples:
    reprieve deliveries show 17
    """
    if body:
        frozen = operate(url, lambda operations: operations.deliveries.body(delivery))
        say_stored("" if frozen is None else frozen.decode("utf-8", "replace"))
        return
    _say_detail(operate(url, lambda operations: operations.deliveries.show(delivery)), as_json=as_json)


@app.command()
def reconcile(
    delivery: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="This one, even if it is marked as sent.", show_default=False)
    ] = None,
    *,
    actor: Actor = None,
    home: Home = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Ask the providers now about what is in doubt, instead of waiting for a worker's sweep; with an ID, about that one.

    What the provider has is marked, what it definitely does not have is sent, what cannot be known is held for a person.

    Examples:
    reprieve deliveries reconcile 17 --app reviews
    """
    who = acting(actor)
    if delivery is not None:
        number = delivery
        senders = _senders(home, [] if home is not None else [_pipeline_of(url, number)])
        asked = operate(url, lambda operations: operations.deliveries.ask(number, senders, actor=who))
        if as_json:
            say_json({"before": asked.before, **_plain_row(asked.after)})
        else:
            say(f"delivery {number} was {asked.before}, and is {asked.after.status}")
        return
    every = _senders(home, [])
    done = operate(url, lambda operations: operations.deliveries.reconcile(every, actor=who))
    if as_json:
        say_json(asdict(done))
    else:
        woken = f"; {count(done.woken, 'job')} go on" if done.woken else ""
        say(f"{count(done.looked_at, 'delivery').replace('deliverys', 'deliveries')} seen to{woken}")


@app.command()
def resend(
    delivery: Id,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why a second one does no harm; kept.", show_default=False)],
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Have a held or failed delivery sent again: you know that it was not received, or that a second one does no harm.

    Examples:
    reprieve deliveries resend 17 --reason 'the mail server lost its spool on Monday'
    """
    who = acting(actor)
    found = operate(url, lambda operations: operations.deliveries.resend(delivery, actor=who, reason=reason))
    _say_detail(found, as_json=as_json)


@app.command()
def confirm(
    delivery: Id,
    *,
    evidence: Annotated[
        str, typer.Option("--evidence", help="What shows that it was received; kept.", show_default=False)
    ],
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Mark a held or failed delivery as received; nothing is sent.

    Examples:
    reprieve deliveries confirm 17 --evidence 'Ada has answered it'
    """
    who = acting(actor)
    found = operate(url, lambda operations: operations.deliveries.confirm(delivery, actor=who, evidence=evidence))
    _say_detail(found, as_json=as_json)


@app.command("give-up")
def give_up(
    delivery: Id,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why nobody needs it; kept.", show_default=False)],
    actor: Actor = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Decide that a held delivery shall not be sent.

    Examples:
    reprieve deliveries give-up 17 --reason 'the review is outdated'
    """
    who = acting(actor)
    found = operate(url, lambda operations: operations.deliveries.give_up(delivery, actor=who, reason=reason))
    _say_detail(found, as_json=as_json)


def _pipeline_of(url: str, delivery: int) -> str:
    async def find(operations: Operations) -> str:
        row = (await operations.deliveries.show(delivery)).row
        return (await operations.jobs.show(row.job_id)).job.pipeline

    return operate(url, find)


def _senders(home: str | None, names: list[str]) -> Mapping[str, Sender]:
    return {name: sender for pipeline in find_pipelines(home, names) for name, sender in pipeline.senders.items()}


def _plain_row(row: DeliveryRecord) -> dict[str, object]:
    record = asdict(row)
    del record["body"]
    return record


def _table(rows: Sequence[DeliveryRecord], now: float) -> object:
    return table(
        ("id", "status", "recipient", "changelist", "version", "job", "by", "sends", "notified", "why"),
        [
            (
                str(row.delivery_id), status(row.status), row.recipient, row.changelist_id, str(row.review_version),
                str(row.job_id), row.sender, str(row.attempts), when(row.notified_at, now), row.reason or "",
            )
            for row in rows
        ],
    )  # fmt: skip


def _say_detail(found: DeliveryDetail, *, as_json: bool) -> None:
    row, now = found.row, time.time()
    if as_json:
        say_json({**_plain_row(row), "log": [asdict(attempt) for attempt in found.attempts]})
        return
    screen = console()
    screen.print(
        facts([
            ("delivery", str(row.delivery_id)), ("status", status(row.status)), ("recipient", row.recipient),
            ("changelist", f"{row.changelist_id} version {row.review_version}"), ("job", str(row.job_id)),
            ("by", row.sender), ("required", "yes" if row.required else "no"), ("prepared", when(row.created_at, now)),
            ("first sent", when(row.first_sent_at, now)), ("notified", when(row.notified_at, now)),
            ("notification id", row.notification_id or ""), ("evidence", row.evidence or ""), ("why", row.reason or ""),
            ("not before", when(row.not_before, now)),
        ])
    )  # fmt: skip
    if found.attempts:
        screen.print(
            table(
                ("when", "what", "phase", "came to", "class", "who", "said"),
                [
                    (
                        when(each.ended_at, now), f"{each.kind} {each.number}", each.phase or "", each.answer,
                        each.error_class or "", each.actor, plain(each.message),
                    )
                    for each in found.attempts
                ],
            )
        )  # fmt: skip
    if row.status in _NEXT:
        say(f"next: {_NEXT[row.status].format(id=row.delivery_id, job=row.job_id)}")
