"""A catalogue of real failures: real client libraries against upstreams that fail on purpose.

    for label, error in provoked(libraries={"httpx", "smtplib"}):
        print(label, repr(error))

Client libraries are imported when their turn comes; those that are not installed are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.errors import UnknownNameError
from reprieve.testing.provoke import mail, models, services, web
from reprieve.testing.provoke.stage import NothingFailedError, Provocation, Stage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["NothingFailedError", "Provocation", "Stage", "catalogue", "provoke", "provoked"]


def catalogue(libraries: Collection[str] | None = None) -> tuple[Provocation, ...]:
    """Every provocation, or those of some libraries; also of those that are not installed."""
    sources = (web, models, services, mail)
    every = tuple(provocation for source in sources for provocation in source.provocations())
    if libraries is None:
        return every
    known = tuple(dict.fromkeys(provocation.library for provocation in every))
    for name in libraries:
        if name not in known:
            raise UnknownNameError("library", name, known)
    return tuple(provocation for provocation in every if provocation.library in libraries)


def provoke(label: str) -> Exception:
    """The failure of this label, as `httpx: read timeout`."""
    every = {provocation.label: provocation for provocation in catalogue()}
    if label not in every:
        raise UnknownNameError("provocation", label, tuple(every))
    with Stage() as stage:
        return stage.provoke(every[label])


def provoked(libraries: Collection[str] | None = None) -> Iterator[tuple[str, Exception]]:
    """Each label with its failure, one after the other, of the libraries that are installed."""
    with Stage() as stage:
        for provocation in catalogue(libraries):
            if not provocation.missing:
                yield provocation.label, stage.provoke(provocation)
