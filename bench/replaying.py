"""How fast the last, unlimited wave of a canary replay runs, beside the engine's own drain of as many ready jobs."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine import contenders, with_campaign
from engine.arena import Arena, Dialect
from engine.driving import Contender, drain
from engine.figures import compared, middle
from engine.fixture import Fixture, open_fixture
from engine.order import Order
from engine.scale import Scale
from engine.server import Server
from engine.throughput import drain_costs
from harness import take_turns
from reprieve.core.canary import WAVES
from sample import repeat_turn

if TYPE_CHECKING:
    from harness import Effort, Figure
    from sample import SampleOptions

HALF: Final = 0.5
# The clock runs from the beginning of the last wave to the last member that is known to have succeeded.
LAST_WAVE: Final = Contender(
    name="the last wave",
    module="with_campaign",
    finished=f"""
    SELECT CASE WHEN (SELECT wave FROM campaigns) < {len(WAVES)} THEN 0
      WHEN count(*) FILTER (WHERE wave = {len(WAVES)} AND state = 'confirmed') = {{jobs}} THEN {{jobs}} ELSE 1 END
    FROM campaign_members
    """,
)


def sample(asked: SampleOptions) -> dict[str, float]:
    """Return what the last wave uses for each member."""
    jobs = asked.scale(4_000, 30)
    with open_fixture(asked) as fixture:

        def turn() -> dict[str, float]:
            costs: dict[str, float] = {}
            for dialect in Dialect:
                costs |= _sample_wave(fixture, dialect, jobs)
            return costs

        return repeat_turn(turn, asked.seconds)


def _sample_wave(fixture: Fixture, dialect: Dialect, jobs: int) -> dict[str, float]:
    """Replay a copy of a database in which all jobs died and their replay waits for a worker."""

    def fill(url: str) -> None:
        with_campaign.install(Order(url=url))
        with_campaign.submit(Order(url=url, jobs=jobs))

    with fixture.copied(f"died_{jobs}", dialect, fill) as url:
        order = Order(url=url, jobs=jobs)
        if dialect is Dialect.SQLITE:
            return drain_costs(f"last wave, {dialect}", drain(LAST_WAVE, order, None))
        fixture.server.settle(order.database)
        return drain_costs(f"last wave, {dialect}", drain(LAST_WAVE, order, fixture.server))


def run(effort: Effort) -> list[Figure]:
    """Measure both dialects, turn by turn."""
    scale = Scale.of(effort)
    order = Order(url="", jobs=scale.single)
    figures = []
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder) / "server") as server:
        arena = Arena(server, Path(folder))
        for dialect in Dialect:
            runners = {
                contender: partial(arena.turn, contender, order, dialect) for contender in (LAST_WAVE, contenders.OURS)
            }
            turns = {
                who: middle([turn.drain for turn in taken]) for who, taken in take_turns(runners, scale.rounds).items()
            }
            name = f"last wave of {scale.single:,}, {dialect}"
            figures += compared(name, turns[LAST_WAVE], "plain drain", turns[contenders.OURS], at_least=HALF)
    return figures
