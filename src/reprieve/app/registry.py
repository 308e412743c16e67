"""The mutable state that is handed to core: what users know of their own exceptions."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, overload

from reprieve.core.failure import ErrorClass
from reprieve.core.finding import Finding
from reprieve.core.rules.declared import of_verdict
from reprieve.errors import UsageError, Verdict

if TYPE_CHECKING:
    from reprieve.core.classify import UserRules

Answer = ErrorClass | Verdict | bool | None
"""What a rule may say: a class of ours, a verdict (which may bring a class of your own), retryable or not, or None for
"not mine". One that fails or says something else is passed over, and the evidence says `user-rule-failed`."""
Rule = Callable[[BaseException], Answer]
R = TypeVar("R", bound=Callable[..., Answer])


class Registry:
    """A user's rules by exception type; changed by replacing, so that readers need no lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.rules: UserRules = {}

    def add(self, kinds: tuple[type[BaseException], ...], answer: Rule, name: str) -> None:
        """Judge these types, and what derives from them, by this rule."""
        for kind in kinds:
            if not _is_exception_type(kind):
                raise UsageError(f"a rule is for exception types, not for {kind!r}")
        ask = _asker(answer, name)
        with self._lock:
            self.rules = {**self.rules, **dict.fromkeys(kinds, ask)}

    def forget(self, *kinds: type[BaseException]) -> None:
        """Judge these types as if no rule had been added; without arguments: all."""
        with self._lock:
            self.rules = {kind: rule for kind, rule in self.rules.items() if kinds and kind not in kinds}


DEFAULT = Registry()


@overload
def rule(*kinds: type[BaseException]) -> Callable[[R], R]: ...
@overload
def rule(*kinds: type[BaseException], answer: ErrorClass | Verdict | bool) -> None: ...
def rule(*kinds: type[BaseException], answer: Answer = None) -> Callable[[R], R] | None:
    """Say what an exception of your own means: decorate a function that answers, or give the answer.

    @reprieve.rule(LedgerBusy)
    def ledger_busy(exc):
        return reprieve.Retryable(retry_after=exc.wait)

    reprieve.rule(LedgerClosed, answer=reprieve.ErrorClass.CONFIG_INVALID)
    """
    if not kinds:
        raise UsageError("name at least one exception type: @rule(MyError)")
    if answer is not None:
        fixed = answer
        _finding(fixed, "answer")  # what is no answer is refused here, not while a failure is being handled
        DEFAULT.add(kinds, lambda _exc: fixed, "answer")
        return None

    def add(function: R) -> R:
        DEFAULT.add(kinds, function, function.__name__)
        return function

    return add


def _is_exception_type(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _asker(answer: Rule, name: str) -> Callable[[BaseException], Finding | None]:
    def ask(exc: BaseException) -> Finding | None:
        return _finding(answer(exc), f"user.{name}")

    return ask


def _finding(answer: Answer, rule_name: str) -> Finding | None:
    match answer:
        case None:
            return None
        case bool():
            declared = ErrorClass.DECLARED_RETRYABLE if answer else ErrorClass.DECLARED_PERMANENT
            return Finding(declared, rule=rule_name, field="rule", value=str(answer), retryable=answer, declared=True)
        case ErrorClass():
            return Finding(answer, rule=rule_name, field="rule", value=answer, declared=True)
        case Verdict():
            return of_verdict(answer, rule_name, field="rule")
        case _:
            raise UsageError(
                f"the rule {rule_name} answered {type(answer).__name__}: an ErrorClass, a Retryable, Permanent or"
                " NeedsReview, a bool or None would be right"
            )
