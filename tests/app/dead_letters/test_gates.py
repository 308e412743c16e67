"""The gates before a replay: the cause, the evidence, the safety; in one go, one by one, or overridden (CRIT-5.1 to 5.3)."""

import asyncio
import json

import pytest
from dead_shop import GATES, Order, opened

import reprieve
from reprieve.app.operations.gates import SAFE
from reprieve.core.lifecycle import LetterState
from reprieve.core.remedies import RootCause
from reprieve.errors import RefusedError, UnknownNameError, UsageError
from reprieve.wiring import open_operations

MISSING = {
    "cause": ("the cause is not named", "reprieve dead triage {} --cause data"),
    "evidence": ("no evidence of a remedy is recorded", "reprieve dead remediate {} --evidence '...'"),
    "safe": ("nobody has confirmed that running it again does no harm", "reprieve dead approve {} --because '...'"),
}


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param(["cause"], marks=pytest.mark.spec("CRIT-5.1")),
        pytest.param(["evidence"], marks=pytest.mark.spec("CRIT-5.2", "CRIT-5.3")),
        pytest.param(["safe"], marks=pytest.mark.spec("CRIT-5.3")),
        pytest.param(["cause", "evidence", "safe"], marks=pytest.mark.spec("CRIT-5.1", "CRIT-5.2", "CRIT-5.3")),
    ],
    ids=" and ".join,
)
def test_a_replay_is_refused_while_a_gate_is_not_passed_and_says_which_and_by_what_command(store_url, missing):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            before = await shop.whole(letter)
            given = {name: value for name, value in GATES.items() if name not in missing}
            with pytest.raises(RefusedError) as refused:
                await shop.letters.replay(letter, actor="ada", **given)
            for name, (problem, command) in MISSING.items():
                assert (problem in str(refused.value)) == (name in missing)
                assert (command.format(letter) in str(refused.value)) == (name in missing)
            assert await shop.whole(letter) == before, "nothing was changed"
            shop.mend()
            await shop.work()
            assert shop.stages == [], "and nothing was run"

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.1", "CRIT-5.2", "CRIT-5.3")
@pytest.mark.parametrize("cause", RootCause)
def test_step_by_step_the_history_says_who_named_the_cause_recorded_the_remedy_and_confirmed_it(sqlite_url, cause):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.triage(letter, cause, actor="ada", note="seen in the log")
            assert (await shop.letters.show(letter)).row.cause == cause
            with pytest.raises(RefusedError, match="no evidence"):
                await shop.letters.replay(letter, actor="ada", safe=True)
            await shop.letters.remediate(letter, f"INC-7: {cause} was seen to", actor="bob")
            with pytest.raises(RefusedError, match="nobody has confirmed"):
                await shop.letters.replay(letter, actor="ada")
            await shop.letters.approve(letter, "the stage is idempotent", actor="cyd")
            assert (await shop.letters.replay(letter, actor="ada")).applied == (letter,)
            history = (await shop.letters.show(letter)).history
            assert [(entry.event, entry.actor, entry.after, entry.note) for entry in history] == [
                ("triage", "ada", LetterState.TRIAGED, "seen in the log"),
                ("remediate", "bob", LetterState.REMEDIATED, f"INC-7: {cause} was seen to"),
                ("approve", "cyd", LetterState.APPROVED, "the stage is idempotent"),
                ("replay", "ada", LetterState.REPLAYING, ""),
            ]
            assert [entry.at for entry in history] == sorted(entry.at for entry in history)
            assert json.loads(history[0].detail) == {
                "cause": cause, "error_class": "DECLARED_PERMANENT", "stage": "notify", "attempts": 1, "budget": 5,
                "exhausted": False,
            }  # fmt: skip

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.1", "CRIT-5.2", "CRIT-5.3")
def test_in_one_go_all_gates_are_passed_at_the_same_moment_and_stand_in_the_history(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.replay(letter, actor="ada", **GATES)
            history = (await shop.letters.show(letter)).history
            assert [(entry.event, entry.note) for entry in history] == [
                ("triage", ""),
                ("remediate", GATES["evidence"]),
                ("approve", GATES["safe"]),
                ("replay", ""),
            ]
            assert len({entry.at for entry in history}) == 1
            assert (await shop.letters.show(letter)).row.cause == "data"

    asyncio.run(run())


def test_only_the_gates_that_are_left_are_asked_for(sqlite_url):
    async def run():
        async with opened(sqlite_url) as shop:
            first, second = await shop.bury(Order(1), Order(2))
            await shop.letters.triage(first, "code", actor="ada")
            done = await shop.letters.replay([first, second], actor="ada", evidence="deployed", safe=True)
            assert done.applied == (first,)
            assert [refused.letter_id for refused in done.refused] == [second]
            assert "the cause is not named" in done.refused[0].why
            assert [entry.note for entry in (await shop.letters.show(first)).history] == ["", "deployed", SAFE, ""]
            assert await shop.state(second) is LetterState.OPEN

    asyncio.run(run())


def test_words_for_a_gate_that_was_passed_before_are_kept_as_a_note(sqlite_url):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.triage(letter, "data", actor="ada")
            await shop.letters.remediate(letter, "first evidence", actor="ada")
            await shop.letters.replay(letter, actor="ada", cause="data", evidence="more evidence", safe=True)
            history = [(entry.event, entry.note) for entry in (await shop.letters.show(letter)).history]
            assert history[2:] == [("note", "evidence: more evidence"), ("approve", SAFE), ("replay", "")]

    asyncio.run(run())


def test_another_cause_needs_evidence_of_its_own(sqlite_url):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.triage(letter, "data", actor="ada")
            await shop.letters.remediate(letter, "the mapping was corrected", actor="ada")
            with pytest.raises(RefusedError, match="no evidence"):
                await shop.letters.replay(letter, actor="ada", cause="code", safe=True)
            await shop.letters.replay(letter, actor="ada", cause="code", evidence="deployed", safe=True)
            assert (await shop.letters.show(letter)).row.cause == "code"
            assert await shop.events(letter) == ["triage", "remediate", "triage", "remediate", "approve", "replay"]

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.3")
def test_an_override_replays_past_the_gates_and_is_written_into_the_history(store_url):
    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            shop.mend()
            await shop.letters.replay(letter, actor="ada", cause="data", override="a drill")
            history = (await shop.letters.show(letter)).history
            assert [(entry.event, entry.actor, entry.note) for entry in history] == [
                ("triage", "ada", ""),
                ("override", "ada", "a drill"),
            ]
            assert json.loads(history[-1].detail)["not_passed"] == ["remediate", "approve"]
            await shop.work()
            assert await shop.state(letter) is LetterState.REPLAYED

    asyncio.run(run())


def test_an_override_that_passes_by_no_gate_is_a_replay(sqlite_url):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
            await shop.letters.replay(letter, actor="ada", override="in a hurry", **GATES)
            entry = (await shop.letters.show(letter)).history[-1]
            assert (entry.event, entry.note) == ("replay", "in a hurry")

    asyncio.run(run())


def test_only_those_who_are_named_may_override(sqlite_url, monkeypatch):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
            with pytest.raises(RefusedError, match="eve may not override"):
                await shop.letters.replay(letter, actor="eve", override="because")
            assert await shop.state(letter) is LetterState.OPEN
            await shop.letters.replay(letter, actor="ada", override="on call")
            assert await shop.state(letter) is LetterState.REPLAYING

    monkeypatch.setenv("REPRIEVE_MAY_OVERRIDE", "ada, bob")
    asyncio.run(run())


@pytest.mark.parametrize("named", ["", " , "])
def test_where_the_list_is_empty_nobody_may_override(sqlite_url, monkeypatch, named):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
        async with open_operations(sqlite_url) as operations:
            with pytest.raises(RefusedError, match="may not override"):
                await operations.dead_letters.replay(letter, actor="ada", override="because")

    monkeypatch.setenv("REPRIEVE_MAY_OVERRIDE", named)
    asyncio.run(run())


@pytest.mark.parametrize(
    "words",
    [
        {"override": "  "},
        {"evidence": ""},
        {"safe": " "},
        {"cause": "weather"},
        {"restart": True, "stage": "price"},
        {"payload": {"number": 1}},
    ],
)
def test_empty_words_and_what_does_not_go_together_are_refused_before_anything_is_written(sqlite_url, words):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
            with pytest.raises(UsageError):
                await shop.letters.replay(letter, actor="ada", **{**GATES, **words})
            with pytest.raises(UsageError, match="actor"):
                await shop.letters.replay(letter, actor=" ", **GATES)
            assert (await shop.state(letter), await shop.events(letter)) == (LetterState.OPEN, [])

    asyncio.run(run())


@pytest.mark.spec("CRIT-5.2")
def test_texts_must_not_be_empty_and_a_cause_must_be_one_of_the_four(sqlite_url):
    async def run():
        async with opened(sqlite_url) as shop:
            (letter,) = await shop.bury()
            letters = shop.letters
            with pytest.raises(UnknownNameError, match="transient, data, auth_config, code"):
                await letters.triage(letter, "weather", actor="ada")
            await letters.triage(letter, "data", actor="ada")
            for act in (letters.remediate, letters.approve, letters.escalate, letters.discard, letters.note):
                with pytest.raises(UsageError, match="must not be empty"):
                    await act(letter, " \n", actor="ada")
            assert await shop.events(letter) == ["triage"]

    asyncio.run(run())


def test_what_people_write_is_stored_without_secrets_and_cut_to_length(store_url):
    secret = "sk-" + "live" + "Qm9" * 12
    password = "hunter" + "2" * 6

    async def run():
        async with opened(store_url) as shop:
            (letter,) = await shop.bury()
            letters = shop.letters
            await letters.note(letter, f"password={password} was in the log", actor="ada")
            await letters.triage(letter, "auth_config", actor="ada", note=f"the key {secret} had expired")
            await letters.remediate(letter, f"password={password} " + "x" * 9000, actor="ada")
            await letters.approve(letter, f"idempotent, checked with {secret}", actor="ada")
            await letters.replay(letter, actor="ada", note=f"password={password}")
            history = (await letters.show(letter)).history
            told = " ".join(entry.note + entry.detail for entry in history)
            assert secret not in told
            assert password not in told
            assert "was in the log" in told
            assert max(len(entry.note) for entry in history) == 4000

    asyncio.run(run())


def test_a_refusal_is_an_error_of_reprieve_that_the_public_face_has():
    assert issubclass(reprieve.RefusedError, reprieve.ReprieveError)
