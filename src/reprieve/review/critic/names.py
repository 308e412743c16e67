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
    from collections.abc import Iterable

    from reprieve.review.critic.change_set import ChangeSet
    from reprieve.review.critic.findings import Finding

REMOVED_NAME: Final = CriticRule(
    id="removed-name",
    severity=Severity.HIGH,
    suffixes=(".py", ".go", *JAVASCRIPT_SUFFIXES),
    finds="a function, method, class, constant or module that the change removes while it is still used",
    advice="{fact}, so this use breaks: {hint}.",
)
CHANGED_SIGNATURE: Final = CriticRule(
    id="changed-signature",
    severity=Severity.HIGH,
    suffixes=(".py",),
    finds="a call that does not fit the Python function, method or class that the change edits or adds",
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
        for use in uses:
            yield REMOVED_NAME.at(use.path, use.line, fact=use.fact, hint=use.hint)
        for call in broken_calls(tree):
            yield CHANGED_SIGNATURE.at(
                call.path, call.line, callee=call.callee, place=call.place, fact=call.fact, reason=call.reason
            )


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(REMOVED_NAME, CHANGED_SIGNATURE), run=find_broken_uses, needs_tree=True),
)
