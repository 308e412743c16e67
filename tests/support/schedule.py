"""The order of tests, and which test process runs which: waiting tests overlap with computing ones."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

WAITING = (
    "tests/engine/test_",
    "tests/engine/deliveries/",
    "tests/review/test_end_to_end.py",
    "tests/bench/test_bench.py",
    "tests/streams/test_chaos.py",
    "tests/streams/test_crashes.py",
)
"""Where each test starts processes of its own and waits for them. Tests of these files run one by one."""


class OverlapScheduling(LoadScopeScheduling):  # type: ignore[misc]  # the library is not typed
    """Give half of the test processes the tests that wait first, and the other half the rest first.

    A file is one unit of work, since the fixtures of its module are expensive. A test that waits is a unit
    of its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(WAITING) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        prefers_waiting = int(node.gateway.id.removeprefix("gw")) % 2 == 0
        for scope in self.workqueue:
            if scope.startswith(WAITING) == prefers_waiting:
                self.workqueue.move_to_end(scope, last=False)
                break
        super()._assign_work_unit(node)


def shuffled(items: list[pytest.Item], seed: str | None) -> list[pytest.Item]:
    """Return the tests in an order drawn from the seed. Modules stay together."""
    if seed is None:
        return items
    random = Random(seed)
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    order = list(modules.values())
    random.shuffle(order)
    for tests in order:
        random.shuffle(tests)
    return [item for tests in order for item in tests]
