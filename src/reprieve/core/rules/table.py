"""The one table of all rules, and the look-up over an exception's MRO."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from reprieve.core.rules import builtin, cloud, data, databases, http_clients, messaging, models

if TYPE_CHECKING:
    from reprieve.core.finding import Finding, Reader, Rules

RULES: Final[Rules] = {
    **builtin.RULES,
    **http_clients.RULES,
    **databases.RULES,
    **models.RULES,
    **cloud.RULES,
    **messaging.RULES,
    **data.RULES,
}
KNOWN_PACKAGES: Final = frozenset(name.partition(".")[0] for name in RULES) - {"builtins"}


@lru_cache(maxsize=4096)
def rules_for(names: tuple[str, ...]) -> tuple[tuple[str, Finding | Reader], ...]:
    """The rules that hold for a class, the most special first."""
    return tuple((name, RULES[name]) for name in names if name in RULES)
