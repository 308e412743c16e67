"""The result of the stage `llm`, and the report that people read: facts and opinions in one list."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from reprieve.review.critic.facts import FactsReport
from reprieve.review.critic.findings import PERSON, Finding, Severity, fold, worst

if TYPE_CHECKING:
    from collections.abc import Iterable

TOY_MODEL: Final = "toy model"
"""What reports call the embedded model, whose text none of them shows."""
_MAX_SUMMARY: Final = 10_000


class ModelUsage(BaseModel):
    """What the calls of a model took."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """In US dollars; 0 where the provider does not say."""
    seconds: float = 0.0

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Add both up."""
        return ModelUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
            seconds=self.seconds + other.seconds,
        )

    def describe(self) -> str:
        """`1,204 tokens in, 96 out, 3.2 s, $0.0021`."""
        cost = f", ${self.cost:.4f}" if self.cost else ""
        return f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out, {self.seconds:.1f} s{cost}"


_NO_USAGE: Final = ModelUsage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The result of the stage `llm`: the opinion of a model or a person, and the facts.

    A person who answers in place of the model writes `summary`, `severity` and `findings` only. The facts are then
    collected again before anything is sent.
    """

    summary: str = ""
    severity: Severity = Severity.NONE
    findings: tuple[Finding, ...] = ()
    facts: FactsReport | None = None
    dropped: int = 0
    """Findings of the model that point outside the diff."""
    parts: int = 1
    """How many questions the model was asked."""
    model: str = ""
    """The model's name; empty where no model was asked, or a person answered."""
    usage: ModelUsage = _NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The report: one summary and one list of findings."""

    summary: str = ""
    severity: Severity = Severity.NONE
    findings: tuple[Finding, ...] = ()
    """Facts and opinions, folded, the worst first; those that the change itself allows are marked."""
    hidden: int = 0
    """Findings beyond the number that is reported."""
    dropped: int = 0
    """Findings of a model that point outside the diff."""
    scope: str = ""
    """What was checked and what was not."""
    made_by: tuple[str, ...] = ()
    """One line for each critic: the program, the model with its cost, or a person."""
    made_with: str = ""
    """A digest of program, rules, settings and model: with another one a report may differ."""

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """Those that the change does not allow itself."""
        return tuple(each for each in self.findings if not each.allowed)


def build_report(review: Review, facts: FactsReport | None) -> Report:
    """Merge facts and opinion; `facts` is None where the settings switch the rules off."""
    opinions = tuple(
        each.model_copy(update={"origin": each.origin if review.model else PERSON}) for each in review.findings
    )
    findings = fold((*(facts.findings if facts is not None else ()), *opinions))
    open_ones = [each for each in findings if not each.allowed]
    said = "\n".join(text for text in (facts.summary if facts is not None else "", _opinion(review)) if text)
    return Report(
        summary=said[:_MAX_SUMMARY],
        severity=max(worst(open_ones), review.severity, key=lambda each: each.rank),
        findings=findings,
        hidden=facts.hidden if facts is not None else 0,
        dropped=review.dropped,
        scope=facts.scope if facts is not None else "",
        made_by=tuple(_made_by(review, facts)),
    )


def _opinion(review: Review) -> str:
    if not review.summary:
        return ""
    return f"{review.model or 'A person'} says: {review.summary}"


def _made_by(review: Review, facts: FactsReport | None) -> Iterable[str]:
    if facts is not None:
        yield f"Rules of Reprieve {version('reprieve')}: {facts.scope}."
    if review.model == TOY_MODEL:
        yield f"A toy model was asked and its answer is not shown ({review.usage.describe()})."
    elif review.model:
        yield f"Opinion of {review.model} ({review.usage.describe()}); nothing checked it."
    elif review.summary or review.findings or facts is None:
        yield "Opinion of a person."
