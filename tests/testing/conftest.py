"""One stage for all provocations of a test run, and what is read off an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reprieve.testing.provoke import Provocation, Stage, catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="session")
def provocations() -> dict[str, Provocation]:
    return {provocation.label: provocation for provocation in catalogue()}


@pytest.fixture
def fail(stage: Stage, provocations: dict[str, Provocation]) -> Callable[[str], Exception]:
    """Provoke the failure of this label."""
    return lambda label: stage.provoke(provocations[label])


@pytest.fixture(scope="session")
def kind_of() -> Callable[[BaseException], str]:
    """The top package and the class of an exception; a builtin's class alone."""

    def kind(error: BaseException) -> str:
        package = type(error).__module__.partition(".")[0]
        return type(error).__name__ if package == "builtins" else f"{package}.{type(error).__name__}"

    return kind


@pytest.fixture(scope="session")
def chain_of() -> Callable[[BaseException], list[BaseException]]:
    """An exception and everything it was made from: causes, contexts, reasons and arguments."""

    def chain(error: BaseException) -> list[BaseException]:
        found: list[BaseException] = []
        waiting: list[object] = [error]
        while waiting:
            link = waiting.pop()
            if isinstance(link, BaseException) and all(link is not known for known in found):
                found.append(link)
                waiting += [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args]
        return found

    return chain
