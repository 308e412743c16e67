"""All checks of the critic, in the order in which they run, and their rules by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.review.critic import (
    changed_tests,
    dependencies,
    failure_handling,
    file_checks,
    line_checks,
    migrations,
    names,
    permissions,
    ruff,
    workflows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.review.critic.rules import CriticCheck, CriticRule

CHECKS: Final[tuple[CriticCheck, ...]] = (
    *line_checks.CHECKS,
    *file_checks.CHECKS,
    *ruff.CHECKS,
    *failure_handling.CHECKS,
    *names.CHECKS,
    *changed_tests.CHECKS,
    *dependencies.CHECKS,
    *workflows.CHECKS,
    *permissions.CHECKS,
    *migrations.CHECKS,
)

RULES: Final[Mapping[str, CriticRule]] = {rule.id: rule for check in CHECKS for rule in check.rules}
"""Every rule by its id; several codes of a linter may share one id."""

KNOWN_NAMES: Final = frozenset(RULES) | {rule.code for check in CHECKS for rule in check.rules if rule.code}
"""What settings and comments can name: ids, and codes as a linter has them."""
