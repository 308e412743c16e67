"""`reprieve streams`: dead letters of Redis Streams, and the groups that read them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from reprieve.errors import RefusedError, StoreUnavailableError, UnknownNameError, UsageError
from reprieve.faces.cli import stream_views
from reprieve.faces.cli.campaigns import read_rate
from reprieve.faces.cli.common import (
    DEFAULT_URL,
    Actor,
    AsJson,
    Home,
    NewUrl,
    Reason,
    acting,
    complain,
    duration,
    fail,
    find_pipelines,
    patiently,
    run,
    say,
    say_json,
    say_stored,
)
from reprieve.faces.cli.dead_selecting import CategoryOption, ClassOption, Yes, takes
from reprieve.faces.cli.output import hush
from reprieve.faces.cli.rendering import console, count, counting, plain
from reprieve.faces.cli.work import LogLevel, show_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from typing import TextIO

    from reprieve.operations.streams import StreamActResult, StreamBulkReplay, StreamDeadLetterFilter
    from reprieve.streams.connection import RedisConnection
    from reprieve.streams.consumer import Consumer
    from reprieve.streams.runner import RunCounts
    from reprieve.streams.status import GroupStatus

T = TypeVar("T")
_SHOW_SECONDS: Final = 0.2

app = typer.Typer(
    name="streams",
    help="Redis Streams: see why messages failed, replay or discard them, pause and resume groups.",
    no_args_is_help=True,
)

RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        envvar="REPRIEVE_STREAMS_URL",
        help="The Redis: redis://host:6379/0, rediss:// for TLS, unix:///path, redis+sentinel://host:26379/name. "
        r"Default: url in \[streams] of the settings.",
        show_default=False,
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="A settings file. Default: reprieve.toml in this folder.", show_default=False),
]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue, as engineering:queue.", show_default=False)]
Queues = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUEUE]...", help=r"Which queues. Default: queues in \[streams].", show_default=False),
]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Their ids, as in the list.", show_default=False)]
GroupName = Annotated[
    str | None,
    typer.Argument(metavar="[GROUP]", help=r"Its group. Default: groups in \[streams], else all.", show_default=False),
]
AllGroups = Annotated[
    bool,
    typer.Option("--all-groups", help="Replay also where the original entry is gone and other groups get the new one."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which Redis a command is about, and which queues and groups the settings name."""

    url: str
    queues: tuple[str, ...]
    groups: tuple[str, ...]

    def queues_or(self, named: list[str] | None) -> list[str]:
        """Return the queues that are named, or those of the settings."""
        queues = named or list(self.queues)
        if not queues:
            raise UsageError(
                "say which queue, or name them in reprieve.toml: [streams], queues = ['engineering:queue']"
            )
        return queues


def target(*, redis_url: RedisUrl = None, settings: SettingsFile = None) -> Target:
    """The Redis of the option, else of the settings."""
    from reprieve.streams.settings import load_stream_settings  # noqa: PLC0415 - only what is used is loaded

    found = load_stream_settings(settings)
    url = redis_url or (found.url.get_secret_value() if found.url is not None else "")
    if not url:
        raise UsageError(
            "say which Redis: --redis-url redis://host:6379/0, REPRIEVE_STREAMS_URL, or url in [streams] of reprieve.toml"
        )
    return Target(url=url, queues=tuple(found.queues), groups=tuple(found.groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which dead letters of which Redis a command is about."""

    target: Target
    wanted: StreamDeadLetterFilter


def selection(
    *,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only of this consumer group.")] = None,
    service: Annotated[str | None, typer.Option("--service", help="Only of this service.")] = None,
    error_class: ClassOption = None,
    category: CategoryOption = None,
    since: Annotated[str | None, typer.Option("--since", help="Failed in the last 2h, 7d, ...")] = None,
    older_than: Annotated[str | None, typer.Option("--older-than", help="Failed longer ago than 2h, 7d, ...")] = None,
    redis_url: RedisUrl = None,
    settings: SettingsFile = None,
) -> Selection:
    """The dead letters that the filter options select, and their Redis."""
    from reprieve.operations.streams import StreamDeadLetterFilter  # noqa: PLC0415 - only what is used is loaded

    now = time.time()
    wanted = StreamDeadLetterFilter(
        group=group,
        service=service,
        error_class=error_class,
        category=None if category is None else category.value,
        since=None if since is None else now - duration(since, unit=True),
        before=None if older_than is None else now - duration(older_than, unit=True),
    )
    return Selection(target=target(redis_url=redis_url, settings=settings), wanted=wanted)


def operate(chosen: Target, task: Callable[[RedisConnection], Awaitable[T]]) -> T:
    """Run a task, with three more tries while the Redis is away. A refusal ends with exit code 1."""

    async def within() -> T:
        from reprieve.wiring import open_redis  # noqa: PLC0415 - only what is used is loaded

        async with open_redis(chosen.url) as redis:
            return await task(redis)

    try:
        return run(patiently(within))
    except (UnknownNameError, RefusedError) as error:
        fail(str(error))


@app.command("run")
@takes(target)
def run_consumer(
    chosen: Target,
    *,
    consumer: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CONSUMER", help="Where it is; the current folder can be imported from.", show_default=False
        ),
    ],
    shutdown_timeout: Annotated[
        str | None,
        typer.Option(help="How long handlers may take to end when told to stop. Default: the consumer's, 30s."),
    ] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when there is nothing left to do.")] = False,
    log_level: Annotated[LogLevel, typer.Option(help="How much is said on standard error.")] = LogLevel.INFO,
) -> None:
    """Run a consumer until told to stop.

    SIGTERM or Ctrl-C lets handlers end, and hands back what has not started.

    Examples:
    reprieve streams run orders:handle

    reprieve streams run orders:handle --redis-url redis://redis:6379/0 --shutdown-timeout 10s
    """
    import logging  # noqa: PLC0415 - only what is used is loaded

    found = _find_consumer(consumer)
    if shutdown_timeout is not None:
        found.options = replace(found.options, shutdown_timeout=duration(shutdown_timeout))
    show_log(log_level)
    log = logging.getLogger("reprieve.streams")

    async def within() -> RunCounts:
        from reprieve.streams.operator_errors import connect_redis, readable_errors  # noqa: PLC0415 - an extra

        address = connect_redis(chosen.url).address
        log.info(
            "consuming %s for the group %s at %s, %d at a time; SIGTERM or Ctrl-C stops",
            found.queue,
            found.group,
            address,
            found.options.concurrency,
        )
        with readable_errors(address, found.queue):
            return await found.run(chosen.url, until_idle=until_idle)

    counts = run(patiently(within))
    log.info(
        "stopped: %s handled, %d to be retried, %s",
        count(counts.handled, "message"),
        counts.scheduled,
        count(counts.dead_lettered, "dead letter"),
    )


@app.command("submit")
@takes(target)
def submit_messages(  # noqa: PLR0913 - one parameter an option
    chosen: Target,
    *,
    queue: Queue,
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.", show_default=False)],
    group: Annotated[str, typer.Option(help="The consumer group to read as.")] = "reprieve",
    body: Annotated[
        str | None,
        typer.Option(help="The field that holds the payload as JSON. Default: all fields.", show_default=False),
    ] = None,
    key_field: Annotated[
        str | None,
        typer.Option(
            help="The field of the payload that is the idempotency key. Default: stream:QUEUE:ID.", show_default=False
        ),
    ] = None,
    shutdown_timeout: Annotated[str, typer.Option(help="How long messages may take when told to stop.")] = "30s",
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when there is nothing left to do.")] = False,
    log_level: Annotated[LogLevel, typer.Option(help="How much is said on standard error.")] = LogLevel.INFO,
    home: Home = None,
    url: NewUrl = DEFAULT_URL,
) -> None:
    """Submit each message of a queue as a job, until told to stop.

    A message is acknowledged only after its job is stored. One whose key another payload has becomes a dead letter.

    Examples:
    reprieve streams submit engineering:queue review --body data --app reviews:review --url postgresql://db/reviews
    """
    import logging  # noqa: PLC0415 - only what is used is loaded

    from reprieve.bridge import build_bridge  # noqa: PLC0415 - the same
    from reprieve.streams.operator_errors import connect_redis, readable_errors  # noqa: PLC0415 - an extra
    from reprieve.wiring import connect  # noqa: PLC0415 - the same

    (found,) = find_pipelines(home, [pipeline])
    show_log(log_level)
    log = logging.getLogger("reprieve.streams")

    async def within() -> RunCounts:
        address = connect_redis(chosen.url).address
        async with connect(url) as database:
            bridge = build_bridge(
                database,
                found,
                queue,
                group=group,
                body=body,
                key_field=key_field,
                shutdown_timeout=duration(shutdown_timeout),
            )
            log.info("submitting %s at %s to the pipeline %s; SIGTERM or Ctrl-C stops", queue, address, found.name)
            with readable_errors(address, queue):
                return await bridge.run(chosen.url, until_idle=until_idle)

    counts = run(patiently(within))
    log.info("stopped: %s submitted, %s", count(counts.handled, "message"), count(counts.dead_lettered, "dead letter"))


def _find_consumer(name: str) -> Consumer[..., Any]:
    """Return the consumer that `module:consumer` names, or the only one of a module."""
    from reprieve.app.pipeline.finding import load_object  # noqa: PLC0415 - runs the user's code
    from reprieve.streams.consumer import Consumer  # noqa: PLC0415 - only what is used is loaded

    found = load_object(name, example="orders:handle")
    if isinstance(found, ModuleType):
        consumers = {key: value for key, value in vars(found).items() if isinstance(value, Consumer)}
        if len(consumers) != 1:
            which = f"several consumers: {', '.join(consumers)}" if consumers else "no consumer"
            raise UsageError(
                f"{name} holds {which}; write module:consumer, as in {name}:{next(iter(consumers), 'handle')}"
            )
        (found,) = consumers.values()
    if not isinstance(found, Consumer):
        raise UsageError(
            f"{name} is of type {type(found).__name__}, which is no consumer: decorate a function with @reprieve.consumer"
        )
    return found


# --- look ---


@app.command()
@takes(target)
def status(chosen: Target, *, queues: Queues = None, as_json: AsJson = False) -> None:
    """Show how groups stand: their messages, their consumers, and what keeps them from working.

    Examples:
    reprieve streams status engineering:queue
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    names = chosen.queues_or(queues)

    async def task(redis: RedisConnection) -> list[GroupStatus]:
        found: list[GroupStatus] = []
        for name in names:
            try:
                found += await streams.read_queue_status(redis, name, await _groups(redis, chosen, name, None))
            except UnknownNameError as error:
                if queues:
                    raise
                complain(str(error))  # a queue of the settings that is not used yet
        return found

    found = operate(chosen, task)
    if as_json:
        say_json([asdict(each) for each in found])
    else:
        console().print(stream_views.status_list(found, time.time()))


@app.command("list")
@takes(selection)
def list_letters(
    selected: Selection,
    *,
    queues: Queues = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest first.")] = False,
    after: Annotated[str | None, typer.Option(help="Where the page before ended.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=1000)] = 20,
    as_json: AsJson = False,
) -> None:
    """List dead letters of queues, the newest first, each with what comes next.

    Nothing of a message is shown.

    Examples:
    reprieve streams list engineering:queue

    reprieve streams list --class AUTH_DENIED --since 24h --json
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    names = selected.target.queues_or(queues)
    found = operate(
        selected.target,
        lambda redis: streams.list_dead_letters(redis, names, selected.wanted, oldest=oldest, after=after, limit=limit),
    )
    following = found[-1].cursor if len(found) == limit else None
    if as_json:
        say_json({"dead_letters": [asdict(row) for row in found], "after": following})
    elif not found:
        say("no dead letters")
    else:
        console().print(stream_views.letter_list(found, time.time(), one_queue=len(names) == 1))
        if following is not None:
            say(f"There may be more: --after {plain(following)}")


@app.command()
@takes(target)
def show(
    chosen: Target,
    *,
    queue: Queue,
    letter: Annotated[str, typer.Argument(metavar="ID", help="Its id, as in the list.", show_default=False)],
    raw: Annotated[
        bool, typer.Option("--raw", help="Show the message as it was sent too; it may hold secrets.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a dead letter: its message without secrets, what failed, with what evidence, and what comes next.

    Of one that was replayed or discarded it says by whom, when and why.

    Examples:
    reprieve streams show engineering:queue 1795030522774-0
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    found = operate(chosen, lambda redis: streams.show_dead_letter(redis, queue, letter, raw=raw))
    if not isinstance(found, streams.StreamDeadLetterDetail):
        if as_json:
            say_json({"dead_letter_id": letter, "queue": queue, "closed": asdict(found)})
        else:
            console().print(stream_views.closed_page(letter, queue, found, time.time()))
        return
    if as_json:
        say_json(stream_views.detail_as_json(found))
        return
    console().print(stream_views.letter_page(found, time.time()))
    if found.raw is not None:
        say_stored(f"original_message: {found.raw}")


@app.command()
@takes(selection)
def export(
    selected: Selection,
    *,
    queues: Queues = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file to write. Default: standard output.", show_default=False),
    ] = None,
) -> None:
    """Write dead letters as JSON Lines, the oldest first, with each message byte for byte.

    Messages may hold secrets. The file can be read by its owner alone.

    Examples:
    reprieve streams export engineering:queue --since 7d -o week.jsonl
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    names = selected.target.queues_or(queues)

    async def task(redis: RedisConnection) -> int:
        written = 0
        with _opened(output) as file:
            async for line in streams.export_dead_letters(redis, names, selected.wanted):
                file.write(json.dumps(line) + "\n")
                written += 1
        return written

    written = operate(selected.target, task)
    if output is not None:
        say(f"{count(written, 'dead letter')} written to {output}")


@app.command()
@takes(target)
def stats(
    chosen: Target,
    *,
    queues: Queues = None,
    window: Annotated[str, typer.Option(help="Over which time rates are taken: 24h, 7d.")] = "24h",
    as_json: AsJson = False,
) -> None:
    """Show figures of dead letters: how many, how old, of which classes, how many come and go.

    Reads all of them.

    Examples:
    reprieve streams stats engineering:queue --window 7d
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    names, seconds = chosen.queues_or(queues), duration(window, unit=True)

    async def task(redis: RedisConnection) -> list[streams.StreamDeadLetterStats]:
        return [await streams.compute_stats(redis, name, window=seconds) for name in names]

    found = operate(chosen, task)
    if as_json:
        say_json([asdict(each) for each in found])
        return
    for each in found:
        console().print(stream_views.stats_page(each, time.time()))


# --- change ---


@app.command()
@takes(target)
def replay(
    chosen: Target,
    *,
    queue: Queue,
    ids: Ids,
    all_groups: AllGroups = False,
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Give dead letters back to the group that they failed in, each once.

    The message starts with fresh budgets and keeps its history. While the original entry is in the queue no
    other group gets the message. Ends with 1 where one is refused, also because it was replayed before.

    Examples:
    reprieve streams replay engineering:queue 1795030522774-0
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    who = acting(actor)
    done = _act_on_each(
        chosen,
        ids,
        lambda redis, one: streams.replay_dead_letters(redis, queue, [one], actor=who, all_groups=all_groups),
    )
    _tell(done, queue, as_json=as_json)


@app.command()
@takes(target)
def discard(
    chosen: Target,
    *,
    queue: Queue,
    ids: Ids,
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence; kept with it.", show_default=False)],
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Take dead letters away for good. Who did it, when and why is kept; the message is not.

    Examples:
    reprieve streams discard engineering:queue 1795030522774-0 --reason 'the project was deleted'
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    who = acting(actor)
    done = _act_on_each(
        chosen, ids, lambda redis, one: streams.discard_dead_letters(redis, queue, [one], actor=who, reason=reason)
    )
    _tell(done, queue, as_json=as_json)


@app.command("bulk-replay")
@takes(selection)
def bulk_replay(
    selected: Selection,
    *,
    queue: Queue,
    rate: Annotated[str, typer.Option(help="How many at most: 10/s, 600/m.")] = "10/s",
    max_failures: Annotated[
        int, typer.Option(help="Stop when so many of the replayed messages failed again.", min=1)
    ] = 1,
    all_groups: AllGroups = False,
    yes: Yes = False,
    actor: Actor = None,
    as_json: AsJson = False,
) -> None:
    """Replay all dead letters of a queue that a filter finds, the oldest first; stop when failures return.

    What was not replayed stays a dead letter: the same command goes on. Ends with 1 where it stopped or left
    one out.

    Examples:
    reprieve streams bulk-replay engineering:queue

    reprieve streams bulk-replay engineering:queue --class UPSTREAM_ERROR --since 2h --rate 5/s --yes
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    who, pace, chosen = acting(actor), read_rate(rate), selected.target
    meant = operate(chosen, lambda redis: streams.count_dead_letters(redis, queue, selected.wanted))
    if not _sure(meant, sure=yes):
        return
    progress = streams.StreamBulkReplay()

    async def task(redis: RedisConnection) -> StreamBulkReplay:
        try:
            async with _shown(progress):
                return await streams.replay_in_bulk(
                    redis,
                    queue,
                    selected.wanted,
                    actor=who,
                    rate=pace,
                    max_failures=max_failures,
                    all_groups=all_groups,
                    result=progress,
                )
        except StoreUnavailableError as error:
            complain(f"{count(progress.replayed, 'dead letter')} replayed before: the same command goes on")
            raise StoreUnavailableError(str(error), outcome_unknown=True) from error

    done = operate(chosen, task)
    if as_json:
        say_json(asdict(done))
    else:
        _tell_bulk(done, queue)
    if done.stopped or done.refused or done.skipped:
        raise typer.Exit(1)


@app.command()
@takes(selection)
def adopt(
    selected: Selection, *, queue: Queue, actor: Actor = None, as_json: AsJson = False, url: NewUrl = DEFAULT_URL
) -> None:
    """Copy dead letters of a queue into the database for triage, each once.

    They stay in the stream until they are replayed. In the database they are jobs of the pipeline
    stream-dead-letters. A worker of it replays those that were approved.

    Examples:
    reprieve streams adopt engineering:queue --url sqlite:///triage.db

    reprieve work --app reprieve.operations.stream_adoption --url sqlite:///triage.db
    """
    from reprieve.operations import stream_adoption  # noqa: PLC0415 - only what is used is loaded
    from reprieve.wiring import connect  # noqa: PLC0415 - the same

    who = acting(actor)

    async def task(redis: RedisConnection) -> stream_adoption.AdoptionResult:
        async with connect(url) as database:
            return await stream_adoption.adopt_dead_letters(redis, database, queue, selected.wanted, actor=who)

    done = operate(selected.target, task)
    if as_json:
        say_json(asdict(done))
        return
    before = f", {done.adopted_before:,} were adopted before" if done.adopted_before else ""
    say(f"{count(done.adopted, 'dead letter')} adopted{before}")
    _tell_skipped(done.skipped, queue)
    if done.adopted or done.adopted_before:
        say(f"  next: name their causes\n  reprieve dead list --pipeline {stream_adoption.PIPELINE}")


@app.command()
@takes(target)
def pause(chosen: Target, *, queue: Queue, group: GroupName = None, reason: Reason = "", actor: Actor = None) -> None:
    """Pause groups of a queue: their consumers read nothing until they are resumed.

    Handlers that run go on to their end.

    Examples:
    reprieve streams pause engineering:queue workers --reason 'the provider is down until noon'
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    who = acting(actor)

    async def task(redis: RedisConnection) -> dict[str, bool]:
        return {
            name: await streams.pause_stream_group(redis, queue, name, actor=who, reason=reason)
            for name in await _groups(redis, chosen, queue, group)
        }

    for name, changed in operate(chosen, task).items():
        say(f"{plain(name)} of {plain(queue)} {'paused' if changed else 'was paused before'}")


@app.command()
@takes(target)
def resume(chosen: Target, *, queue: Queue, group: GroupName = None, actor: Actor = None) -> None:
    """Resume groups that an operator or a fatal failure paused.

    Examples:
    reprieve streams resume engineering:queue workers
    """
    from reprieve.operations import streams  # noqa: PLC0415 - only what is used is loaded

    who = acting(actor)

    async def task(redis: RedisConnection) -> dict[str, bool]:
        return {
            name: await streams.resume_stream_group(redis, queue, name, actor=who)
            for name in await _groups(redis, chosen, queue, group)
        }

    for name, changed in operate(chosen, task).items():
        say(f"{plain(name)} of {plain(queue)} {'resumed' if changed else 'was not paused'}")


# --- inside ---


def _act_on_each(
    chosen: Target, ids: list[str], act: Callable[[RedisConnection, str], Awaitable[StreamActResult]]
) -> list[StreamActResult]:
    """Act on one after the other; what was done before the Redis went away is not done again."""
    done: dict[str, StreamActResult] = {}

    async def task(redis: RedisConnection) -> None:
        for each in ids:
            if each not in done:
                done[each] = await act(redis, each)

    operate(chosen, task)
    return list(done.values())


def _tell(done: list[StreamActResult], queue: str, *, as_json: bool) -> None:
    refused = [each for result in done for each in result.refused]
    replayed = [each for result in done for each in result.replayed]
    discarded = [each for result in done for each in result.discarded]
    if as_json:
        say_json(
            {
                "replayed": [asdict(each) for each in replayed],
                "discarded": discarded,
                "refused": [asdict(each) for each in refused],
            }
        )
    else:
        for each in replayed:
            how = ", a new entry" if each.is_new_entry else ""
            say(f"dead letter {each.dead_letter_id}: given back as message {each.message_id}{how}")
        for dead_letter_id in discarded:
            say(f"dead letter {dead_letter_id}: discarded")
        for refusal in refused:
            complain(plain(refusal.why))
        if replayed:
            say(f"  next: see whether it comes back\n  reprieve streams list {shlex.quote(plain(queue))} --since 5m")
    if refused:
        raise typer.Exit(1)


def _tell_bulk(done: StreamBulkReplay, queue: str) -> None:
    say(f"{done.replayed:,} of {count(done.meant, 'dead letter')} replayed")
    _tell_skipped(done.skipped, queue)
    if done.closed_meanwhile:
        say(f"{done.closed_meanwhile:,} were replayed or discarded by others meanwhile")
    for refusal in done.refused[:20]:
        complain(plain(refusal.why))
    if len(done.refused) > 20:  # noqa: PLR2004 - a screen
        complain(f"... and {len(done.refused) - 20:,} more; --json has all")
    if done.stopped:
        complain(plain(f"stopped: {done.stopped}"))
    say(f"  next: see whether others come back\n  reprieve streams list {shlex.quote(plain(queue))} --since 5m")


def _tell_skipped(skipped: int, queue: str) -> None:
    if skipped:
        where = shlex.quote(plain(queue))
        say(
            f"{count(skipped, 'dead letter')} of integrations skipped; each names its replay: reprieve streams list {where}"
        )


def _sure(meant: int, *, sure: bool) -> bool:
    if not meant:
        say("no dead letter is meant by that: nothing to do")
        return False
    if sure:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{count(meant, 'dead letter')} would be replayed: say --yes where nobody can be asked")
    typer.confirm(f"{count(meant, 'dead letter')} will be replayed. Go on?", abort=True, err=True)
    return True


@asynccontextmanager
async def _shown(progress: StreamBulkReplay) -> AsyncIterator[None]:
    """Show on a terminal how many are replayed already."""

    async def show_on(tell: Callable[[str, int], None]) -> None:
        while True:
            tell(f"of {count(progress.meant, 'dead letter')}", progress.replayed)
            await asyncio.sleep(_SHOW_SECONDS)

    with counting("replayed") as tell:
        showing = asyncio.create_task(show_on(tell))
        try:
            yield
        finally:
            showing.cancel()


async def _groups(redis: RedisConnection, chosen: Target, queue: str, group: str | None) -> list[str]:
    """Return the group that is named, or those of the settings, or all of the queue."""
    from reprieve.operations.streams import list_groups  # noqa: PLC0415 - only what is used is loaded

    if group is not None:
        return [group]
    known = await list_groups(redis, queue)
    if not known:
        raise UnknownNameError("queue with a group", queue)
    wanted = [name for name in known if not chosen.groups or name in chosen.groups]
    if not wanted:
        raise UsageError(f"{queue} has none of the groups in [streams]; it has: {', '.join(known)}")
    return wanted


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    """A file that only its owner reads and that exists only once it is whole; or standard output."""
    if output is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:
            hush()
        except OSError as error:
            hush()
            raise UsageError(f"cannot write the output: {error.strerror}") from None
        return
    part = output.with_name(f"{output.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            yield file
        part.replace(output)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
