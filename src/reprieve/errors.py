"""What Reprieve raises, and what users raise to tell it what they know.

    ReprieveError
    ├── UsageError                  the caller asked for something that cannot be; also a ValueError
    │   ├── ProfileError            a profile file is wrong: says the file, the line and what would be right
    │   ├── UnknownNameError        no profile, policy, stage or class of that name; says which there are
    │   ├── PayloadError            a payload that does not fit its type, or is too large
    │   └── SubmitError             a job that cannot be: its key is another pipeline's, its version is not above the others
    ├── ResultError                 what a stage made does not fit its type, or is too large
    ├── Misfit                      what was stored does not fit the present types: declare an upgrade
    ├── StoreError                  the database
    │   ├── StoreUnavailableError   it cannot be reached, is locked or full: try again
    │   │   └── StoreAddressError   ... and waiting will hardly mend it: its host, name, user or password is wrong
    │   ├── StoreRefusedError       it refused what it was given; no retry will help
    │   └── SchemaError             its tables are missing, behind or ahead: says what to do
    ├── JobError                    a job that was waited for
    │   ├── JobFailedError          it ended without a result: dead-lettered, skipped or cancelled
    │   └── JobTimeoutError         it is not over yet
    ├── OperationTimeoutError       an operation took longer than its named timeout; also a TimeoutError
    ├── IllegalTransitionError      a state does not lead there; nothing was changed
    ├── RefusedError                an operator may not do that, or not yet: says what is missing; nothing was changed
    └── Verdict                     raised by users inside their own code
        ├── Retryable               "try this again": optionally when
        ├── Permanent               "no retry will help"
        └── NeedsReview             "a person has to look at this"
            └── Unusable            a model's answer that does not fit, even after it was asked to repair it

Nothing here wraps a failure that came from outside: that one is classified, and re-raised as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ReprieveError(Exception):
    """The base of everything that Reprieve itself raises."""


class UsageError(ReprieveError, ValueError):
    """The caller asked for something that cannot be; the message says what would be right."""


class ProfileError(UsageError):
    """A profile file is refused: where it is wrong, and what would be right."""

    def __init__(self, problem: str, *, source: str, line: int | None = None) -> None:
        """Keep the place apart from the problem, and show both."""
        self.problem = problem
        self.source = source
        self.line = line
        place = source if line is None else f"{source}, line {line}"
        super().__init__(f"{place}: {problem}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (_rebuild_profile_error, (self.problem, self.source, self.line))


def _rebuild_profile_error(problem: str, source: str, line: int | None) -> ProfileError:
    return ProfileError(problem, source=source, line=line)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause for a message that suggests the nearest known name; empty where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    spelled = {str(each).casefold(): str(each) for each in known}
    near = get_close_matches(name.casefold(), spelled, n=1)
    return f" (did you mean {spelled[near[0]]!r}?)" if near else ""


class UnknownNameError(UsageError):
    """A name that nothing is known by."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...] = ()) -> None:
        """Say what was asked for and what there is."""
        self.kind, self.name, self.known = kind, name, known
        choices = f"; there are: {', '.join(known)}" if known else ""
        super().__init__(f"no {kind} is named {name!r}{did_you_mean(name, known)}{choices}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (UnknownNameError, (self.kind, self.name, self.known))


class PayloadError(UsageError):
    """A payload that does not fit its type, or is too large; the message holds none of it."""


class SubmitError(UsageError):
    """A job that cannot be as it was asked for."""


class ResultError(ReprieveError):
    """What a stage made does not fit its type, or is too large; the message holds none of it."""

    retryable = False
    category = "validation"

    def __init__(self, message: str, *, error_class: str = "SCHEMA_INVALID") -> None:
        """Take the class that it is judged by: a model's output, which can be mended, has another."""
        super().__init__(message)
        self.error_class = error_class


class Misfit(ReprieveError):  # noqa: N818 - not somebody's error: a job met another version of its pipeline
    """What was stored neither fits the present types nor is made to fit; the message holds none of it."""

    retryable = False
    error_class = "SCHEMA_INVALID"
    category = "validation"

    def __init__(self, stage: str, problem: str) -> None:
        """Say whose result it is (`payload` for the payload), and what does not fit."""
        self.stage, self.problem = stage, problem
        super().__init__(f"{stage}: {problem}" if stage else problem)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (Misfit, (self.stage, self.problem))


class StoreError(ReprieveError):
    """The database."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached, is locked or full: trying again may help."""

    def __init__(self, message: str = "", *, outcome_unknown: bool = False, held_up: bool = False) -> None:
        """Say whether what was being written may have taken effect, and whether only somebody's lock held it up."""
        super().__init__(message)
        self.outcome_unknown = outcome_unknown
        self.held_up = held_up


class StoreAddressError(StoreUnavailableError):
    """Nothing answers to that host, database, user or password; who just starts is told, who runs goes on waiting."""


class StoreRefusedError(StoreError):
    """The database refused what it was given; nothing was written, and no retry will help."""

    retryable = False
    error_class = "CONSTRAINT_VIOLATED"
    category = "validation"


class SchemaError(StoreError):
    """The database's tables are missing, behind or ahead; the message says what to do."""


class JobError(ReprieveError):
    """A job that was waited for."""

    def __init__(self, message: str, *, job_id: int, status: str) -> None:
        """Say which job it is, and what it is now."""
        super().__init__(message)
        self.job_id = job_id
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (_rebuild_job_error, (type(self), str(self), self.job_id, self.status))


def _rebuild_job_error(kind: type[JobError], message: str, job_id: int, status: str) -> JobError:
    return kind(message, job_id=job_id, status=status)


class JobFailedError(JobError):
    """The job ended without a result: dead-lettered, skipped or cancelled."""


class JobTimeoutError(JobError, TimeoutError):
    """The job is not over yet."""


class OperationTimeoutError(ReprieveError, TimeoutError):
    """An operation took longer than its named timeout; `classify` judges it by its action."""

    def __init__(
        self,
        operation: str,
        *,
        seconds: float,
        action: str,
        retryable: bool,
        detail: str = "",
    ) -> None:
        """Say which operation it was and how long it could take; `detail` says what became of the work."""
        self.operation, self.seconds, self.action = operation, seconds, action
        self.retryable, self.detail = retryable, detail
        more = f": {detail}" if detail else ""
        super().__init__(f"{operation} took longer than its timeout of {seconds:g} s{more}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        values = (self.operation, self.seconds, self.action, self.retryable, self.detail)
        return (_rebuild_operation_timeout, values)


def _rebuild_operation_timeout(
    operation: str,
    seconds: float,
    action: str,
    retryable: bool,  # noqa: FBT001 - pickling has no keywords
    detail: str,
) -> OperationTimeoutError:
    return OperationTimeoutError(
        operation,
        seconds=seconds,
        action=action,
        retryable=retryable,
        detail=detail,
    )


class IllegalTransitionError(ReprieveError):
    """A state does not lead there; nothing was changed."""

    def __init__(self, kind: str, state: str, event: str) -> None:
        """Say what was asked of what."""
        self.kind, self.state, self.event = kind, state, event
        super().__init__(f"a {kind} that is {state} cannot {event}")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (IllegalTransitionError, (self.kind, self.state, self.event))


class RefusedError(ReprieveError):
    """An operator may not do that, or not yet: the message says what is missing, and how to supply it; nothing was changed."""


class Verdict(ReprieveError):  # noqa: N818 - read where it is raised: `raise Retryable(...)`
    """What the author of a stage knows about a failure, said by raising it; `from exc` keeps the evidence."""

    error_class: str | None = None
    category: str | None = None
    retry_after: float | None = None

    def __init__(self, message: str = "", *, error_class: str | None = None, category: str | None = None) -> None:
        """Take the message, and optionally a stable class and a category of the author's own."""
        super().__init__(message)
        if error_class is not None:
            self.error_class = error_class
        if category is not None:
            self.category = category


class Retryable(Verdict):
    """Raise it to ask for another try, after `retry_after` seconds where that is known."""

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | None = None,
        error_class: str | None = None,
        category: str | None = None,
    ) -> None:
        """Take what a verdict takes, and the wait in seconds."""
        super().__init__(message, error_class=error_class, category=category)
        self.retry_after = retry_after


class Permanent(Verdict):
    """Raise it where no retry will help."""


class NeedsReview(Verdict):
    """Raise it to hand the work to a person."""


class Unusable(NeedsReview):
    """What a model answered does not fit its schema, was cut off or refused; it was asked to repair it where that can help."""

    error_class = "OUTPUT_INVALID"

    def __init__(self, message: str, *, material: Mapping[str, object]) -> None:
        """Take what a reviewer needs, as JSON can hold it: samples, schema, the answers with what is wrong with each."""
        super().__init__(message)
        self.material = material

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (_rebuild_unusable, (str(self), self.material))


def _rebuild_unusable(message: str, material: Mapping[str, object]) -> Unusable:
    return Unusable(message, material=material)


class Wait(Verdict):
    """Raised to give the lease back and wait, costing nothing, until what it waits on is settled."""

    def __init__(self, on: str) -> None:
        """Say what it waits on, in a few words: kept sanitized, as one line of at most 200 characters."""
        super().__init__(f"waits on {on}")
        self.on = on

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which calls the constructor with `args` otherwise."""
        return (Wait, (self.on,))
