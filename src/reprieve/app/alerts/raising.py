"""What raises alerts: failures, batches and deliveries, each evaluated by the process that saw it, from the database.

Whatever opens an alert is an error or a warning on the logger `reprieve.alerts` too, at once.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec

from reprieve.app.profiles import resolve
from reprieve.app.redaction import redact, redact_exception
from reprieve.core.alerts import (
    By,
    Level,
    Seen,
    Until,
    Verdict,
    Watch,
    alarm,
    at_once,
    concerns,
    counting,
    key_of,
    weigh_batch,
)
from reprieve.core.decide import Abort, DeadLetter, Park, Reason
from reprieve.core.record import writable
from reprieve.errors import StoreError, StoreUnavailableError
from reprieve.ports.intents import Bury, Raise, Resolve, SetAside, Weigh, Written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from reprieve.app.journal import Journal
    from reprieve.app.profiles import ProfileLike
    from reprieve.core.alerts import Alarm, Rule
    from reprieve.core.decide import Decision
    from reprieve.core.failure import Failure
    from reprieve.core.policy import Profile
    from reprieve.ports.intents import AttemptRecord, Raised, Retry

P = ParamSpec("P")

ALERTS: Final = logging.getLogger("reprieve.alerts")
ACTOR: Final = "reprieve"
"""Who ends an alert when nobody does."""
_LOG: Final = logging.getLogger("reprieve.alerting")
_PATIENCE: Final = 10.0
"""Seconds for which an alert waits for a store that is away."""
_SPENT: Final = (Reason.BUDGET_SPENT, Reason.DEADLINE)


def _never_raises(method: Callable[P, Awaitable[None]]) -> Callable[P, Awaitable[None]]:
    """Whoever has seen something goes on, whatever becomes of telling it."""

    @wraps(method)
    async def told(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            await method(*arguments, **options)
        except StoreError as error:
            _LOG.error("an alert could not be written:\n%s", redact_exception(error))

    return told


class Alerts:
    """The one call for whoever sees something that somebody may have to hear of; never raises, whatever the store does."""

    def __init__(self, journal: Journal, *, news: Callable[[], None] = lambda: None) -> None:
        """Take what is called after something that somebody may have to hear of."""
        self._journal, self._news = journal, news

    @_never_raises
    async def failed(
        self, failure: Failure, *, source: str, profile: ProfileLike, decision: Decision | None = None, stage: str = ""
    ) -> None:
        """A failure outside the engine's stages, of a source by that name (LLM-7.1, LLM-7.2)."""
        at = await self._now()
        for each in alarms_of_failure(failure, source=source, profile=resolve(profile), decision=decision, stage=stage, at=at):  # fmt: skip
            await self._ask(each)

    def told(self, asked: Sequence[Raise | Weigh], raised: Sequence[Raised]) -> None:
        """After it was written: what is open was opened, or counts one more, or was not told to everybody yet."""
        for intent, answer in zip(asked, raised, strict=True):
            if answer.opened:
                say(intent.alarm)
            if answer.alert_id is not None:
                self._news()

    @_never_raises
    async def batch(self, *, source: str, skipped: int, total: int, profile: ProfileLike) -> None:
        """So many of a batch were skipped (LLM-7.3); a batch within bounds ends the alert of the one before."""
        for rule in resolve(profile).alerts.values():
            if rule.watches is not Watch.SKIPPED:
                continue
            seen = Seen(
                watch=Watch.SKIPPED, at=await self._now(), source=source,
                summary=_line(f"{source}: {skipped:,} of {total:,} in a batch were skipped"),
            )  # fmt: skip
            match weigh_batch(rule, part=skipped, whole=total):
                case Verdict.RAISE:
                    await self._raise(alarm(rule, seen))
                case Verdict.RESOLVE:
                    await self.over(rule.name, key_of(rule, seen), why=seen.summary)
                case Verdict.KEEP:
                    pass

    @_never_raises
    async def saw(self, watch: Watch, *, source: str, summary: str, profile: ProfileLike = "criticizer") -> None:
        """Anything else that a rule watches, in words for people."""
        seen = Seen(watch=watch, at=await self._now(), source=source, summary=_line(summary))
        rule = at_once(resolve(profile).alerts, seen)
        if rule is not None:
            await self._raise(alarm(rule, seen))

    @_never_raises
    async def over(self, rule: str, key: str, *, why: str) -> None:
        """What an alert was about has ended."""
        now = await self._now()
        await self._ask(Resolve(actor=ACTOR, why=_line(why), now=now, rule=rule, key=key))

    async def count(self, profile: Profile, pipeline: str, attempt: AttemptRecord) -> None:
        """A failed attempt is one of several; call it once the attempt is written."""
        for rule in counting(profile.alerts, attempt.error_class):
            seen = seen_of(
                attempt, pipeline, Watch.FAILURE, f"{attempt.error_class} again and again: {attempt.message}"
            )
            await self._ask(weigh_of(rule, seen, sighted=False))

    async def written(self, profile: Profile, pipeline: str, intent: Retry | Bury | SetAside, answer: Written) -> None:
        """After what becomes of a failed attempt was written: say what that raised, and count it where that matters."""
        if isinstance(intent, Bury | SetAside) and answer in (Written.ALERTED, Written.ESCALATED):
            for each in intent.alarms:
                if each.on_relapse == (answer is Written.ESCALATED):
                    say(each)
        if isinstance(intent, Bury | SetAside) and intent.alarms and answer is not Written.STALE:
            self._news()
        if answer is not Written.STALE and counting(profile.alerts, intent.attempt.error_class):
            await self.count(profile, pipeline, intent.attempt)

    async def _now(self) -> float:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._journal.look(self._journal.store.now)
        except TimeoutError:
            raise StoreUnavailableError(f"the store was not there for {_PATIENCE:g} s") from None

    async def _raise(self, wanted: Alarm) -> None:
        await self._ask(Raise(alarm=wanted))

    async def _ask(self, intent: Raise | Weigh | Resolve) -> None:
        try:
            if isinstance(intent, Resolve):
                if (await self._journal.ask(intent, patience=_PATIENCE)).alerts:
                    ALERTS.info("%s of %s is over: %s", intent.rule, intent.key, intent.why)
                    self._news()
                return
            raised = await self._journal.ask(intent, patience=_PATIENCE)
        except StoreError as error:
            _LOG.error("an alert could not be written:\n%s", redact_exception(error))
            if isinstance(intent, Raise):
                say(intent.alarm)
            return
        self.told([intent], [raised])


def alarms_of_failure(
    failure: Failure, *, source: str, profile: Profile, at: float, decision: Decision | None = None, stage: str = ""
) -> tuple[Raise | Weigh, ...]:
    """What a failure outside the engine's stages raises, at once or as one of several: to be written with it."""
    watch = Watch.FAILURE if decision is None else watch_of(decision)
    seen = Seen(
        watch=Watch.PAGE if watch is Watch.PAUSE else watch, at=at, source=source, stage=stage,
        error_class=failure.error_class, summary=_line(f"{source}: {failure.error_class}: {failure.message}"),
    )  # fmt: skip
    rule = at_once(profile.alerts, seen)
    raised = () if rule is None else (Raise(alarm=until_quiet(alarm(rule, seen))),)
    several = counting(profile.alerts, failure.error_class)
    return (*raised, *(weigh_of(each, seen, sighted=True) for each in several))


def weigh_of(rule: Rule, seen: Seen, *, sighted: bool) -> Weigh:
    """Have one of several counted: a failed attempt, or what stands in no table and is sighted."""
    if rule.within is None:
        raise TypeError(f"{rule.name} counts nothing")
    in_words = replace(seen, summary=f"more than {rule.more_than} within {rule.within:g} s: {seen.summary}")
    by_stage = key_of(rule, seen) != seen.source and not sighted
    return Weigh(
        alarm=alarm(rule, in_words), more_than=rule.more_than, within=rule.within, attempts=not sighted,
        stage=seen.stage if by_stage else None, classes=(seen.error_class,) if rule.by is By.CLASS else rule.error_classes,
        sighted=sighted,
    )  # fmt: skip


def until_quiet(wanted: Alarm) -> Alarm:
    """Of what leaves no dead letter and pauses no stage, whose absence would end it at once."""
    if wanted.until in (Until.SETTLED, Until.RESUMED):
        return replace(wanted, until=Until.QUIET)
    return wanted


def say(wanted: Alarm) -> None:
    """In the log of whoever saw it."""
    ALERTS.log(logging.ERROR if wanted.level is Level.PAGE else logging.WARNING, "%s", wanted.summary)


def watch_of(decision: Decision) -> Watch:
    """What a decision is to those who watch."""
    match decision:
        case Abort():
            return Watch.PAUSE
        case Park() if decision.halts:
            return Watch.PAUSE
        case DeadLetter() if decision.pages and decision.reason in _SPENT:
            return Watch.SPENT
        case DeadLetter() | Park() if decision.pages:
            return Watch.PAGE
        case DeadLetter() if decision.escalates:
            return Watch.ESCALATION
        case _:
            return Watch.FAILURE


def seen_of(attempt: AttemptRecord, pipeline: str, watch: Watch, summary: str) -> Seen:
    """A failed attempt as rules see it."""
    return Seen(
        watch=watch, at=attempt.ended_at, source=pipeline, stage=attempt.stage, error_class=attempt.error_class,
        summary=" ".join(f"{pipeline}/{attempt.stage}: {summary}".split()),
    )  # fmt: skip


def alarms_of(profile: Profile, pipeline: str, job_id: int, decision: Decision, attempt: AttemptRecord) -> tuple[Alarm, ...]:  # fmt: skip
    """What is raised in the transaction that gives a job up or sets it aside."""
    became = "set aside" if isinstance(decision, Park) else "dead-lettered"
    watch = watch_of(decision)
    paused = ", and the stage is paused" if watch is Watch.PAUSE else ""
    seen = seen_of(attempt, pipeline, watch, f"{attempt.error_class}, job {job_id} {became} ({attempt.reason}){paused}: {attempt.message}")  # fmt: skip
    rule = at_once(profile.alerts, seen)
    alarms: tuple[Alarm, ...] = () if rule is None else (alarm(rule, seen),)
    if isinstance(decision, Park) and watch is not Watch.PAUSE:
        alarms = tuple(until_quiet(each) for each in alarms)
    if isinstance(decision, Park) or attempt.error_retryable:
        return alarms
    again = Seen(
        watch=Watch.ESCALATION, at=attempt.ended_at, source=pipeline, stage=attempt.stage, error_class=attempt.error_class,
        summary=f"job {job_id} of {pipeline} was replayed and failed again at {attempt.stage} with {attempt.error_class}: "
        "its dead letter is escalated, for engineering to review",
    )  # fmt: skip
    relapse = [each for each in profile.alerts.values() if each.watches is Watch.ESCALATION and concerns(each, attempt.error_class)]  # fmt: skip
    return (*alarms, *(alarm(each, again, on_relapse=True) for each in relapse[:1]))


def _line(text: str) -> str:
    """One sanitized line that can be written."""
    return writable(redact(" ".join(text.split())))
