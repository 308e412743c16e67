"""The audit itself: provoke each case, ask for the verdict, and compare."""

from __future__ import annotations

import gc
import importlib
import os
import warnings
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from audited import baseline
from audited.case import NOW, Case, catch
from reprieve.app.judging import classify
from reprieve.core.failure import Category, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FAMILIES: Final = (
    "http_status",
    "http_transport",
    "http_more",
    "retry_after",
    "models_openai",
    "models_anthropic",
    "models_google",
    "models_wrapped",
    "databases_postgres",
    "databases_embedded",
    "queues_redis",
    "mail",
    "cloud_aws",
    "cloud_grpc",
    "services",
    "stdlib_os",
    "stdlib_code",
    "chains",
    "strangers",
    "leaks",
    "validation",
    "second_http",
    "second_databases",
    "second_stdlib",
)

OWN: Final = ("AWS_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "AZURE_", "LITELLM_API", "PG", "STRIPE_", "SLACK_")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case, what was raised, and what was made of it."""

    case: Case
    raised: str
    failure: Failure | None
    escaped: str | None
    """What the classifier itself raised, which it never may."""
    plain: tuple[bool, Category]
    """What the baseline said."""

    @property
    def wrong_retryable(self) -> bool:
        """Another try was promised where none helps, or the other way round."""
        if self.failure is None or self.failure.retryable is not self.case.retryable:
            return True
        return self.failure.category is Category.CONFLICT and not self.failure.requires_idempotent

    @property
    def wrong_category(self) -> bool:
        """None of the rows that the case may be put in."""
        return self.failure is None or self.failure.category not in self.case.categories

    @property
    def wrong_class(self) -> bool:
        """Another stable identifier than the one that the case can only have."""
        expected = self.case.error_class
        return expected is not None and (self.failure is None or self.failure.error_class != expected)

    @property
    def wrong_wait(self) -> bool:
        """A Retry-After that was misread, missed or made up."""
        expected = self.case.retry_after
        if expected is ...:
            return False
        found = None if self.failure is None else self.failure.retry_after
        if expected is None or found is None:
            return expected is not found
        return abs(found - expected) > 1e-6

    @property
    def leaks(self) -> bool:
        """A planted secret came back."""
        return self.failure is not None and any(value in self.failure.to_json() for value in self.case.secrets)

    @property
    def mistakes(self) -> str:
        """Which of the above, in a word each."""
        named = {
            "escaped": self.escaped is not None,
            "retryable": self.wrong_retryable,
            "category": self.wrong_category,
            "class": self.wrong_class,
            "retry_after": self.wrong_wait,
            "secret": self.leaks,
        }
        return ",".join(name for name, wrong in named.items() if wrong)


@dataclass(frozen=True, slots=True)
class Audit:
    """All verdicts, and the tables that are made of them."""

    verdicts: tuple[Verdict, ...]

    @property
    def counted(self) -> list[Verdict]:
        """Those that nobody argues about."""
        return [verdict for verdict in self.verdicts if not verdict.case.arguable]

    def failure(self, label: str) -> Failure:
        """What was made of one case, by its label."""
        [found] = [verdict.failure for verdict in self.verdicts if verdict.case.label == label]
        if found is None:
            raise LookupError(f"{label} escaped the classifier")
        return found

    def rate(self, wrong: Callable[[Verdict], bool], among: Iterable[Verdict] | None = None) -> float:
        """How many of these are wrong, from 0 to 1."""
        judged = self.counted if among is None else list(among)
        return sum(map(wrong, judged)) / len(judged)

    def table(self, verdicts: Iterable[Verdict] | None = None) -> str:
        """Every wrong case on one line."""
        chosen = self.counted if verdicts is None else verdicts
        lines = [_line(verdict) for verdict in chosen if verdict.mistakes]
        return "\n".join(["", *lines]) if lines else ""

    def report(self) -> str:
        """Counts by library, the rates, and those of the baseline."""
        per: dict[str, list[Verdict]] = defaultdict(list)
        for verdict in self.counted:
            per[verdict.case.library].append(verdict)
        lines = [
            "",
            f"{'library':22}{'cases':>7}{'retryable':>11}{'category':>10}{'plain retryable':>17}{'plain category':>16}",
        ]
        for library, group in [*sorted(per.items()), ("all", self.counted)]:
            cells = [sum(map(wrong, group)) for wrong in (_retryable, _category, _plain_retryable, _plain_category)]
            lines.append(f"{library:22}{len(group):>7}{cells[0]:>11}{cells[1]:>10}{cells[2]:>17}{cells[3]:>16}")
        shares = [f"{self.rate(wrong):.2%}" for wrong in (_retryable, _category, _plain_retryable, _plain_category)]
        lines.append(f"{'wrong':22}{'':>7}{shares[0]:>11}{shares[1]:>10}{shares[2]:>17}{shares[3]:>16}")
        open_to_argument = [verdict for verdict in self.verdicts if verdict.case.arguable]
        lines += [f"open to argument, not counted: {len(open_to_argument)}", self.table(open_to_argument)]
        return "\n".join([*lines, "wrong:", self.table()])


def _retryable(verdict: Verdict) -> bool:
    return verdict.wrong_retryable


def _category(verdict: Verdict) -> bool:
    return verdict.wrong_category


def _plain_retryable(verdict: Verdict) -> bool:
    return verdict.plain[0] is not verdict.case.retryable


def _plain_category(verdict: Verdict) -> bool:
    return verdict.plain[1] not in verdict.case.categories


def _line(verdict: Verdict) -> str:
    case, failure = verdict.case, verdict.failure
    wanted = f"{'retry' if case.retryable else 'stop'} {'|'.join(sorted(case.categories))}"
    if failure is None:
        found = f"escaped: {verdict.escaped}"
    else:
        found = (
            f"{'retry' if failure.retryable else 'stop'} {failure.category} {failure.error_class} {failure.retry_after}"
        )
    return (
        f"[{verdict.mistakes}] {case.label} ({verdict.raised}): "
        f"wanted {wanted} {case.error_class or ''} {'' if case.retry_after is ... else case.retry_after}, "
        f"got {found} - {case.reason}"
    )


def all_cases() -> list[Case]:
    """The whole corpus; each family is imported only now, since some import slowly."""
    cases = [case for family in FAMILIES for case in importlib.import_module(f"audited.{family}").cases()]
    twice = [label for label, count in Counter(case.label for case in cases).items() if count > 1]
    if twice:
        raise ValueError(f"labels stand for one case each, yet these stand for more: {twice}")
    return cases


def judge(case: Case, exc: BaseException) -> Verdict:
    """Ask the classifier and the baseline."""
    failure, escaped = None, None
    try:
        failure = classify(exc, now=NOW)
    except BaseException as escape:  # noqa: BLE001 - that anything escapes is what is looked for
        escaped = f"{type(escape).__name__}: {escape}"
    raised = f"{type(exc).__module__}.{type(exc).__qualname__}"
    return Verdict(case, raised, failure, escaped, baseline.judge(exc))


@contextmanager
def plain_environment() -> Iterator[None]:
    """Hide the credentials, proxies and addresses that a machine may have in its environment."""
    before = dict(os.environ)
    for name in before:
        if name.upper().startswith(OWN) or name.upper().endswith("_PROXY"):
            del os.environ[name]
    os.environ.update({"NO_PROXY": "*", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def loaded_classes() -> list[type[Exception]]:
    """Every exception class that the corpus's libraries have brought with them."""
    found, waiting = set(), [Exception]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting.extend(type.__subclasses__(kind))
    # classes of other tests are theirs, and one with a finalizer does not stand being made by halves
    found = {kind for kind in found if not _is_of_tests(kind) and not hasattr(kind, "__del__")}
    return sorted(found, key=lambda kind: (str(kind.__module__), kind.__qualname__))


def _is_of_tests(kind: type[Exception]) -> bool:
    return str(kind.__module__).partition(".")[0].startswith(("test", "conftest", "audited", "redaction_audit"))


def instance_of(kind: type[Exception]) -> BaseException | None:
    """An instance made as plainly as the class allows, its own attributes perhaps missing."""
    for make in (
        lambda: kind("as asked"),
        kind,
        lambda: kind.__new__(kind),
        lambda: kind.__new__(kind, "g", [ValueError()]),
    ):
        try:
            made = make()
        except Exception:  # noqa: BLE001 - many classes want arguments of their own
            continue
        if isinstance(made, BaseException):
            return made
    return None


def run() -> Audit:
    """Provoke and judge every case, on servers that are started once."""
    with warnings.catch_warnings(), plain_environment():
        # the libraries' own leaks and deprecations are theirs; ours are tested elsewhere
        warnings.simplefilter("ignore")
        lab_class = importlib.import_module("audited.lab").Lab
        with lab_class() as lab:
            audit = Audit(tuple(judge(case, catch(case, lab)) for case in all_cases()))
        gc.collect()
    return audit
