"""Placeholder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reprieve.review.critic.rules import CriticCheck

CHECKS: Final[tuple[CriticCheck, ...]] = ()
