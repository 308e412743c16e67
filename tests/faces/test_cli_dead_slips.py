"""`reprieve dead` with something mistyped: it is refused, with what there is, and nothing is changed."""

import json
import sys

import pytest

GATES = ["--cause", "data", "--evidence", "INC-1: corrected", "--safe"]
ORDERS = """
import pydantic
import reprieve


class Line(pydantic.BaseModel):
    count: int


class Order(pydantic.BaseModel):
    name: str
    lines: list[Line] = []


alpha = reprieve.Pipeline("alpha")
beta = reprieve.Pipeline("beta")


@alpha.stage
async def price(job: reprieve.Job[Order]) -> str:
    raise reprieve.Permanent(f"alpha does not sell {job.payload.name}")


@beta.stage(name="price")
async def price_(job: reprieve.Job[str]) -> str:
    raise reprieve.Permanent("beta is wrong")


@beta.stage
async def ship(job: reprieve.Job[str], price_: str) -> str:
    return price_
"""


@pytest.fixture
def dead(command, tmp_path, monkeypatch):
    """Runs `reprieve dead ...` where dead letter 1 is of alpha, 2 of beta."""
    (tmp_path / "slips.py").write_text(ORDERS)
    monkeypatch.setenv("REPRIEVE_APP", "slips")
    monkeypatch.delitem(sys.modules, "slips", raising=False)
    command("submit", "alpha", '{"name": "jam", "lines": [{"count": 1}]}')
    command("work", "--until-idle", "--log-level", "error")
    command("submit", "beta", '"x"')
    command("work", "--until-idle", "--log-level", "error")
    return lambda *arguments, **options: command("dead", *arguments, **options)


def untouched(dead):
    whole = dead("show", 1, "--json").json
    return (whole["state"], whole["history"], whole["replays"]) == ("open", [], 0)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ('nmae="ham"', "the payload of alpha has no 'nmae', so nothing would be corrected (did you mean 'name'?)"),
        ("lines.0.cuont=2", "the payload of alpha has no 'lines.0.cuont'"),
    ],
)
def test_a_field_that_the_payload_does_not_have_corrects_nothing_and_is_refused(dead, edit, why):
    done = dead("replay", 1, *GATES, "--set", edit)
    assert done.code == 2
    assert why in done.err
    assert untouched(dead)


@pytest.mark.parametrize("options", [["--set", 'name="jam"'], ["--payload", "-"]])
def test_a_correction_that_corrects_nothing_is_refused(dead, options):
    done = dead("replay", 1, *GATES, *options, text='{"lines": [{"count": 1}], "name": "jam"}')
    assert done.code == 2
    assert "is the payload that dead letter 1 has already" in done.err
    assert untouched(dead)


def test_a_field_that_was_left_to_its_default_can_be_set(dead):
    assert dead("replay", 1, *GATES, "--set", "lines=[]").code == 0
    assert json.loads(dead("show", 1, "--json").out)["replays"] == 1
