"""`reprieve dead replay`: through the gates, from the failed stage, from the start, with an edited payload; and waiting for it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from reprieve.core.lifecycle import JobStatus
from reprieve.core.remedies import RootCause  # noqa: TC001 - Typer evaluates annotations at run time
from reprieve.errors import UsageError
from reprieve.faces.cli.campaigns import Wholesale, replay_many, wholesale
from reprieve.faces.cli.common import (
    BUILT_IN_NAME,
    DEFAULT_URL,
    Actor,
    AsJson,
    Home,
    Url,
    acting,
    complain,
    duration,
    find_pipelines,
    operate,
    say,
    say_json,
)
from reprieve.faces.cli.dead_acts import left_out, refusal, tell_next, tell_refusals
from reprieve.faces.cli.dead_selecting import Ids, takes
from reprieve.faces.cli.editing import edited, read_payload, require_kept
from reprieve.faces.cli.rendering import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reprieve.app.operations import Operations
    from reprieve.app.pipeline import Pipeline
    from reprieve.ports.dead_letters import LetterDetail
    from reprieve.ports.intents import Remedied

_FIRST_LOOK: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_SUSPICIOUS: Final = 10.0
"""Seconds without any change after which it is said where to look."""
_INTERRUPTED: Final = 130
NOBODY_WORKS: Final = "no worker runs: reprieve {} starts one, and nothing is replayed until then"


@takes(wholesale)
def replay(  # noqa: PLR0913 - one parameter an option
    whole: Wholesale,
    *,
    ids: Ids = None,
    cause: Annotated[RootCause | None, typer.Option("--cause", help="What the cause was.", show_default=False)] = None,
    evidence: Annotated[
        str | None,
        typer.Option("--evidence", help="What was done about it, and where that can be seen.", show_default=False),
    ] = None,
    safe: Annotated[bool, typer.Option("--safe", help="Running it again does no harm.")] = False,
    because: Annotated[str | None, typer.Option("--because", help="Why it is safe.", show_default=False)] = None,
    override: Annotated[
        str | None,
        typer.Option("--override", metavar="REASON", help="Pass the gates by; the reason is kept.", show_default=False),
    ] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Run every stage again.")] = False,
    from_stage: Annotated[
        str | None, typer.Option("--from-stage", metavar="STAGE", help="Run from this stage on.", show_default=False)
    ] = None,
    payload: Annotated[
        Path | None,
        typer.Option(
            "--payload", help="A file with the corrected payload as JSON; - is standard input.", show_default=False
        ),
    ] = None,
    edits: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=JSON", help="Correct one field of the payload: change.number=42.", show_default=False
        ),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Kept with the replay.", show_default=False)] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the job is over; ends with 1 unless it succeeds.")
    ] = False,
    timeout: Annotated[str | None, typer.Option(help="How long to wait at most: 30s, 5m.", show_default=False)] = None,
    actor: Actor = None,
    as_json: AsJson = False,
    home: Home = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Put the job of a dead letter back into the queue, at the stage that failed; what had finished is kept.

    Refused until the cause is named, evidence recorded and safety confirmed: step by step (triage, remediate, approve), or
    here in one go. An edited payload starts at the first stage, unless --from-stage is given, and needs --app.

    Examples:
    reprieve dead replay 7

    reprieve dead replay 7 --cause transient --evidence 'INC-12: the provider is back' --safe --wait

    reprieve dead replay 7 --cause data --evidence 'asked the customer' --safe --set customer.country='"JP"' --app orders

    reprieve dead replay 7 8 9 --override 'drill of the on-call team'

    reprieve dead replay --group v1:20ff --rate 20/s

    reprieve dead replay --class UPSTREAM_ERROR --since 2h --cause transient --evidence 'INC-12: it is back' --safe --yes
    """
    gates = {"cause": cause, "evidence": evidence, "safe": because or safe, "override": override}
    _require_one_way(
        from_start and from_stage is not None and "--from-start and --from-stage contradict each other",
        payload is not None
        and edits
        and "--payload and --set do not go together: a whole payload, or single fields of it",
        whole.meant
        and (ids or payload is not None or edits or wait or timeout is not None)
        and "a group or a filter goes with no ids, payload, --wait or --timeout: it is followed unless --detach",
        not whole.meant and not ids and "say which dead letters: their ids, job:ID, --group FINGERPRINT, or a filter",
    )
    who, patience = acting(actor), None if timeout is None else duration(timeout)
    if whole.meant:
        replay_many(url, whole, gates, actor=who, as_json_=as_json, note=note, restart=from_start, stage=from_stage)
        return
    ids = ids or []
    given = None if payload is None else read_payload(payload)
    finished: list[Remedied] = []

    async def task(operations: Operations) -> tuple[Remedied, Sequence[LetterDetail], bool]:
        letters = operations.dead_letters
        if not finished:  # the database may have been away while the jobs were waited for
            pipeline, revised = None, given
            if payload is not None or edits:
                pipeline, revised = await _corrected(operations, ids, home, given, edits or ())
            finished.append(
                await letters.replay(
                    ids, actor=who, note=note, restart=from_start, stage=from_stage, pipeline=pipeline, payload=revised,
                    **gates,  # type: ignore[arg-type]  # by name, each as it was given
                )
            )  # fmt: skip
        (done,) = finished
        if wait:
            await _over(operations, done.applied, patience)
        working = wait or bool(await operations.jobs.workers())
        return done, [await letters.show(letter_id) for letter_id in done.applied], working

    try:
        done, details, working = operate(url, task)
    except KeyboardInterrupt:
        if finished and finished[0].applied:
            complain("replayed all the same: the jobs go on without you, reprieve dead list shows what becomes of them")
        raise typer.Exit(_INTERRUPTED) from None
    _tell(done, details, waited=wait, as_json=as_json)
    if details and not working:
        _complain_of_nobody(details)
    if done.refused or (wait and any(each.job_status is not JobStatus.SUCCEEDED for each in details)):
        raise typer.Exit(1)


def _require_one_way(*problems: str | bool | Sequence[str] | None) -> None:
    """Refuse options that do not go together: the first problem that there is."""
    for problem in problems:
        if isinstance(problem, str):
            raise UsageError(problem)


async def _corrected(
    operations: Operations, ids: Sequence[str], home: str | None, given: object, edits: Sequence[str]
) -> tuple[Pipeline, object]:
    """The pipeline of the dead letter whose payload is to be another, and that payload: as given, or with these edits."""
    if len(ids) != 1:
        raise UsageError("a payload is for one dead letter: say which")
    row = (await operations.dead_letters.show(ids[0])).row
    (pipeline,) = find_pipelines(home, [row.pipeline])
    data = await operations.jobs.payload(row.job_id)
    if not edits:
        return pipeline, given
    revised = edited(None if data is None else json.loads(data), edits)
    require_kept(edits, json.loads(pipeline.encode_payload(revised)), f"the payload of {pipeline.name}")
    return pipeline, revised


def _complain_of_nobody(details: Sequence[LetterDetail]) -> None:
    ours = all(each.row.pipeline == BUILT_IN_NAME for each in details)
    complain(NOBODY_WORKS.format("serve" if ours and "REPRIEVE_APP" not in os.environ else "work"))


async def _over(operations: Operations, letter_ids: Sequence[int], patience: float | None) -> None:
    """Wait until the jobs of these dead letters are over, or need a person."""
    import asyncio  # noqa: PLC0415 - who asks for help does not wait for it

    screen = Console(stderr=True)
    details = [await operations.dead_letters.show(letter_id) for letter_id in letter_ids]
    if not await operations.jobs.workers():
        _complain_of_nobody(details)
    left = [each.row.job_id for each in details]
    began, pause = time.monotonic(), _FIRST_LOOK
    seen, moved, told = None, began, False
    with screen.status("waiting for a worker") as shown:
        while left:
            jobs = [(await operations.jobs.show(job_id)).job for job_id in left]
            left = [job.job_id for job in jobs if not job.status.over and job.status is not JobStatus.NEEDS_REVIEW]
            if left and patience is not None and time.monotonic() - began > patience:
                complain(f"not over after {patience:g} s: {', '.join(f'job {each}' for each in left)}")
                return
            now = [(job.status, job.stage) for job in jobs]
            seen, moved = now, moved if now == seen else time.monotonic()
            if left and not told and time.monotonic() - moved > _SUSPICIOUS:
                told = True
                complain(
                    f"nothing has moved for {_SUSPICIOUS:.0f} s: is a worker running (reprieve work), "
                    "does a stage stand still (reprieve stages list)? Ctrl-C leaves the jobs in the queue"
                )
            shown.update(", ".join(f"job {job.job_id}: {job.status} at {plain(job.stage)}" for job in jobs[:3]))
            if left:
                await asyncio.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_PAUSE)


def _tell(done: Remedied, details: Sequence[LetterDetail], *, waited: bool, as_json: bool) -> None:
    if as_json:
        jobs = [
            {"letter_id": row.letter_id, "job_id": row.job_id, "state": row.state, "status": each.job_status}
            for each in details
            for row in (each.row,)
        ]
        say_json({"applied": done.applied, "refused": [refusal(each) for each in done.refused], "jobs": jobs})
        return
    for each in details:
        row = each.row
        if not waited:
            say(f"dead letter {row.letter_id}: job {row.job_id} is in the queue again{left_out(row)}")
        elif each.job_status is JobStatus.SUCCEEDED:
            say(f"dead letter {row.letter_id}: job {row.job_id} succeeded")
        else:
            why = f" at {plain(row.stage)}: {row.error_class}: {plain(each.message)}" if row.state.dead else ""
            say(f"dead letter {row.letter_id}: job {row.job_id} is {each.job_status}{why}")
    tell_next([each.row for each in details])
    tell_refusals(done.refused)
