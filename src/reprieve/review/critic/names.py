"""Rules about names that other code uses: names that a change removes, and signatures that it edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.review.critic.commonjs_names import commonjs_breaks
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.go_names import go_breaks
from reprieve.review.critic.javascript_names import SUFFIXES as JAVASCRIPT_SUFFIXES
from reprieve.review.critic.javascript_names import javascript_breaks
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


def _find_removed_names(change: ChangeSet) -> Iterable[Finding]:
    with ParserChild() as child:
        for use in removed_uses(PythonTree(change, child)):
            yield REMOVED_NAME.at(use.path, use.line, fact=use.fact, hint=use.hint)
    for use in (*javascript_breaks(change), *commonjs_breaks(change), *go_breaks(change)):
        yield REMOVED_NAME.at(use.path, use.line, fact=use.fact, hint=use.hint)


def _find_changed_signatures(change: ChangeSet) -> Iterable[Finding]:
    with ParserChild() as child:
        for call in broken_calls(PythonTree(change, child)):
            yield CHANGED_SIGNATURE.at(
                call.path,
                call.line,
                callee=call.callee,
                place=call.place,
                fact=call.fact,
                reason=call.reason,
            )


CHECKS: Final[tuple[CriticCheck, ...]] = (
    CriticCheck(rules=(REMOVED_NAME,), run=_find_removed_names, needs_tree=True),
    CriticCheck(rules=(CHANGED_SIGNATURE,), run=_find_changed_signatures, needs_tree=True),
)
