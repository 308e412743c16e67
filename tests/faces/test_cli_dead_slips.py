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


@beta.stage
async def price(job: reprieve.Job[str]) -> str:
    raise reprieve.Permanent("beta is wrong")


@beta.stage
async def ship(job: reprieve.Job[str], price: str) -> str:
    return price
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


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--class", "auth_denied"], "no error class is named 'auth_denied' (did you mean 'AUTH_DENIED'?)"),
        (["--class", "FOO"], "no error class is named 'FOO'"),
        (["--stage", "prize"], "no stage is named 'prize' (did you mean 'price'?); there are: price, ship"),
        (["--pipeline", "alhpa"], "no pipeline is named 'alhpa' (did you mean 'alpha'?)"),
    ],
)
def test_a_filter_that_nothing_can_be_found_by_is_refused(dead, options, why):
    for verb, *more in (
        ["list"], ["groups"], ["export"], ["triage", "--cause", "data", "--yes"], ["replay", *GATES, "--yes"],
    ):  # fmt: skip
        done = dead(verb, *options, *more)
        assert (done.code, done.out) == (1, ""), verb
        assert why in done.err


def test_what_there_is_and_nothing_died_of_is_no_slip(dead):
    for options in (["--class", "AUTH_DENIED"], ["--stage", "ship"], ["--class", "AUTH_DENIED", "--stage", "ship"]):
        done = dead("list", *options)
        assert (done.code, done.out) == (0, "no dead letters\n")


def test_a_class_of_the_users_own_is_known_once_something_died_of_it(dead, command, tmp_path):
    (tmp_path / "own.py").write_text(
        "import reprieve\nown = reprieve.Pipeline('own')\n@own.stage\n"
        "async def look(job: reprieve.Job[int]) -> int:\n    raise reprieve.Permanent('no', error_class='TARIFF_MISSING')\n"
    )
    command("submit", "own", "1", "--app", "own")
    command("work", "--until-idle", "--app", "own", "--log-level", "error")
    dead("discard", 3, "--reason", "no")
    assert dead("list", "--class", "TARIFF_MISSING").out == "no dead letters\n"
    assert "(did you mean 'TARIFF_MISSING'?)" in dead("list", "--class", "TARIF_MISSING").err


def test_a_group_shows_the_text_of_its_example_and_can_be_replayed_in_part(dead, command):
    (group,) = dead("groups", "--json").json["groups"]
    assert (group["sample_id"], group["signature"], group["pipelines"]) == (2, "beta is wrong", ["alpha", "beta"])
    done = dead("replay", "--group", group["fingerprint"], "--pipeline", "alpha", *GATES, "--yes", "--detach")
    assert done.code == 0
    assert "campaign 1 replays 1 dead letter" in done.out
    assert [row["state"] for row in dead("list", "--json", "--oldest").json["dead_letters"]] == ["open", "open"]
    command("work", "--until-idle", "--log-level", "error")
    assert [dead("show", each, "--json").json["replays"] for each in (1, 2)] == [1, 0]


def test_a_replay_of_many_is_not_begun_before_somebody_is_sure(dead):
    (group,) = dead("groups", "--json").json["groups"]
    for gates, how in ((GATES, ""), (["--override", "a drill"], ", past their gates")):
        done = dead("replay", "--group", group["fingerprint"], *gates, "--detach")
        assert (done.code, done.out) == (2, "")
        assert f"2 dead letters would be replayed{how}: say --yes where nobody can be asked" in done.err
    assert dead("campaigns", "list", "--json").json == []
