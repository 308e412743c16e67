"""Rules about names that other code uses: names that a change removes, and signatures that it edits."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from reprieve.review.critic.commonjs_names import commonjs_breaks
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.go_names import go_breaks
from reprieve.review.critic.javascript_names import SUFFIXES as JAVASCRIPT_SUFFIXES
from reprieve.review.critic.javascript_names import javascript_breaks, lost_bindings
from reprieve.review.critic.parsing import ParserChild
from reprieve.review.critic.python_names import PythonTree, removed_uses
from reprieve.review.critic.python_signatures import broken_calls
from reprieve.review.critic.rules import CriticCheck, CriticRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reprieve.review.critic.broken_uses import BrokenUse
    from reprieve.review.critic.change_set import ChangeSet
    from reprieve.review.critic.findings import Finding

_SHOWN_FACTS: Final = 4

REMOVED_NAME: Final = CriticRule(
    id="removed-name",
    depends_on_place=True,
    severity=Severity.HIGH,
    suffixes=(".py", ".go", *JAVASCRIPT_SUFFIXES),
    finds="a top-level name or a file that the change removes or moves while other code imports it by its path, in JavaScript and TypeScript also "
    "through index files that re-export it; in Python also methods used through `self` and the class, in Go names of packages and methods used by "
    "their own type; not seen: other members of objects, `import *` of Python, members of `import * as` "
    "of JavaScript, and names that a file builds at run time",
    advice="{fact}, so this use breaks: {hint}.",
)
CHANGED_SIGNATURE: Final = CriticRule(
    id="changed-signature",
    depends_on_place=True,
    severity=Severity.HIGH,
    suffixes=(".py",),
    finds="a call, in any file, that does not fit the parameters of the Python function, method or class that the change edits; called by its imported "
    "name, in its own module, or through `self`",
    advice="`{callee}` of {place} {fact}, so this call raises TypeError: {reason}.",
)


def find_broken_uses(change: ChangeSet) -> Iterable[Finding]:
    """Uses of removed names in every language, and calls that fit no longer; Python files are parsed once for both."""
    with ParserChild() if change.parser is None else nullcontext(change.parser) as child:
        tree = PythonTree(change, child)
        uses = [
            *removed_uses(tree),
            *javascript_breaks(change),
            *lost_bindings(change),
            *commonjs_breaks(change),
            *go_breaks(change),
        ]
        yield from _removed_names(uses)
        for call in broken_calls(tree):
            yield CHANGED_SIGNATURE.at(
                call.path, call.line, callee=call.callee, place=call.place, fact=call.fact, reason=call.reason
            )


def _removed_names(uses: Iterable[BrokenUse]) -> Iterator[Finding]:
    """One finding for all uses of what one file lost: they have one cause, and one repair."""
    groups: dict[str, list[BrokenUse]] = {}
    for use in uses:
        groups.setdefault(use.fact.partition("` is ")[2] or use.fact, []).append(use)
    for group in groups.values():
        group.sort(key=lambda each: (each.path, each.line))
        places = dict.fromkeys(f"{each.path}:{each.line}" for each in group)
        facts = _joined({each.fact: None for each in group}, " and ")
        hints = _joined({each.hint: None for each in group}, ", or ")
        finding = REMOVED_NAME.at(group[0].path, group[0].line, fact=facts, hint=hints)
        yield finding.model_copy(update={"also": tuple(places)[1:]})


def _joined(texts: Iterable[str], word: str) -> str:
    shown = list(texts)
    rest = len(shown) - _SHOWN_FACTS
    return word.join(shown) if rest <= 0 else f"{word.join(shown[:_SHOWN_FACTS])}{word}{rest} more"


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(REMOVED_NAME, CHANGED_SIGNATURE), run=find_broken_uses, needs_tree=True),
)
