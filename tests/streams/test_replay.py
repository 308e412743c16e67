"""A dead letter is replayed once, byte for byte, and only into its own group."""

import asyncio

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reprieve.errors import UsageError
from reprieve.operations.streams import replay_dead_letters, show_dead_letter
from support.failed_messages import GROUP, QUEUE, StreamGroup, close_groups

PAIRS = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), min_size=1, max_size=6)


async def replay(group, *ids, **options):
    return await replay_dead_letters(group.redis, group.queue, ids, actor="ada", **options)


@pytest.mark.spec("ORC-4.7")
async def test_a_replay_reaches_only_its_own_group_while_the_entry_exists(redis_server):
    mine, other = StreamGroup(redis_server), await StreamGroup(redis_server, group="audit").create()
    letter = await mine.fail("project", "p-1")
    await other.acknowledge(await other.read())
    done = await replay(mine, letter)
    assert [each.is_new_entry for each in done.replayed] == [False]
    assert await other.read() == []
    assert await other.claim() == []
    assert await mine.read() == []
    (message,) = await mine.claim()
    assert message.fields == [b"project", b"p-1"]
    assert await mine.dead_letters() == []


async def test_a_replayed_message_starts_with_fresh_budgets_and_keeps_its_history(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    await replay(group, letter)
    (message,) = await group.claim()
    assert message.attempt == 1
    assert message.key == f"{QUEUE}:{message.id}"
    assert (message.history.replays, message.history.replayed_from) == (1, letter)
    assert message.deliveries == 2, "the number of deliveries is the fence, so it never goes back"
    again = await group.dead_letter(message, ValueError("Invalid project_id"))
    detail = await show_dead_letter(group.redis, QUEUE, again)
    assert detail.row.replays == 1
    assert len(detail.events) == 2
    assert detail.context["history"]["replayed_from"] == letter


async def test_a_message_whose_entry_is_gone_is_added_anew_under_its_old_key(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail("project", "p-1")
    ((old_id, _),) = await group.redis.call("XRANGE", QUEUE, "-", "+")
    await group.redis.call("XDEL", QUEUE, old_id)
    (done,) = (await replay(group, letter)).replayed
    assert done.is_new_entry
    (message,) = await group.read()
    assert message.id == done.message_id
    assert message.fields == [b"project", b"p-1"]
    assert message.key == f"{QUEUE}:{old_id.decode()}"
    assert await group.redis.call("SISMEMBER", group.keys.replayed, message.id) == 1
    again = await group.dead_letter(message, ValueError("x"))
    detail = await show_dead_letter(group.redis, QUEUE, again)
    assert (detail.row.replays, detail.row.key) == (1, f"{QUEUE}:{old_id.decode()}")


async def test_adding_anew_is_refused_when_other_groups_would_get_it_too(redis_server):
    group, other = StreamGroup(redis_server), await StreamGroup(redis_server, group="audit").create()
    letter = await group.fail()
    await group.redis.call("XTRIM", QUEUE, "MAXLEN", 0)
    (refused,) = (await replay(group, letter)).refused
    assert "audit" in refused.why
    assert "--all-groups" in refused.why
    assert len(await group.dead_letters()) == 1
    assert len((await replay(group, letter, all_groups=True)).replayed) == 1
    assert len(await other.read()) == 1


@pytest.mark.parametrize("gone", [True, False])
async def test_replaying_twice_gives_one_message_and_says_so(redis_server, gone):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    if gone:
        await group.redis.call("XTRIM", QUEUE, "MAXLEN", 0)
    first = await replay(group, letter)
    second = await replay(group, letter)
    assert second.replayed == ()
    assert second.refused[0].closed.outcome == "replayed"
    assert "replayed already" in second.refused[0].why
    assert "ada" in second.refused[0].why
    assert first.replayed[0].message_id in second.refused[0].why
    assert len(await group.read(10)) + len(await group.claim()) == 1


async def test_of_many_replays_at_once_one_succeeds(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    others = [StreamGroup(redis_server) for _ in range(8)]
    results = await asyncio.gather(*(replay(each, letter) for each in others))
    assert sum(len(each.replayed) for each in results) == 1
    assert len(await group.claim()) == 1


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=PAIRS, gone=st.booleans())
@example(pairs=[(b"a", b"1"), (b"a", b"2")], gone=True)
@example(pairs=[(b"b", b"\x00"), (b"a", b"\xff\xfe"), (b"", b"")], gone=True)
@example(pairs=[(b"body", b'{"a":  1}')], gone=True)
@example(pairs=[(b"big", b"x" * 1_000_000)], gone=True)
@pytest.mark.spec("ORC-5.3")
def test_a_replayed_message_has_the_same_bytes(redis_server, pairs, gone):
    fields = [each for pair in pairs for each in pair]

    async def there_and_back():
        group = StreamGroup(redis_server)
        redis_server.call("FLUSHALL")
        letter = await group.fail(*fields)
        if gone:
            await group.redis.call("XTRIM", QUEUE, "MAXLEN", 0)
        assert len((await replay(group, letter)).replayed) == 1
        (message,) = await (group.read() if gone else group.claim())
        assert message.fields == fields
        await close_groups()

    asyncio.run(there_and_back())


async def test_a_message_of_many_fields_is_claimed_but_not_added_anew(redis_server):
    group = StreamGroup(redis_server)
    wide = [str(number) for number in range(9000)]
    letter = await group.fail(*wide)
    assert len((await replay(group, letter)).replayed) == 1
    (message,) = await group.claim()
    letter = await group.dead_letter(message, ValueError("x"))
    await group.redis.call("XTRIM", QUEUE, "MAXLEN", 0)
    (refused,) = (await replay(group, letter)).refused
    assert "9,000" in refused.why
    assert "export it" in refused.why
    assert len(await group.dead_letters()) == 1


async def test_a_message_of_almost_7000_values_is_added_anew(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail(*[str(number) for number in range(7000)])
    await group.redis.call("XTRIM", QUEUE, "MAXLEN", 0)
    assert len((await replay(group, letter)).replayed) == 1
    assert len((await group.read())[0].fields) == 7000


async def test_another_entry_under_the_same_id_is_not_taken_for_the_original(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail("project", "p-1")
    ((old_id, _),) = await group.redis.call("XRANGE", QUEUE, "-", "+")
    await group.redis.call("DEL", QUEUE)
    await group.create()
    await group.redis.call("XADD", QUEUE, old_id, "project", "p-2")
    await group.acknowledge(await group.read())
    (done,) = (await replay(group, letter)).replayed
    assert done.is_new_entry
    assert (await group.read())[0].fields == [b"project", b"p-1"]


async def test_a_message_that_its_group_still_has_is_not_given_to_it_twice(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    await group.redis.call("XGROUP", "SETID", QUEUE, GROUP, "0")
    assert "set back" in (await replay(group, letter)).refused[0].why
    await group.read()
    assert "is held by" in (await replay(group, letter)).refused[0].why
    assert len(await group.dead_letters()) == 1


async def test_a_group_that_was_deleted_is_not_replayed_into(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    await group.redis.call("XGROUP", "DESTROY", QUEUE, GROUP)
    assert "start its consumer" in (await replay(group, letter)).refused[0].why
    assert len(await group.dead_letters()) == 1


@pytest.mark.parametrize("key", ["waiting", "state", "closed"])
async def test_a_key_of_another_type_stops_a_replay_before_anything_is_changed(redis_server, key):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    name = f"{QUEUE}:dlq:closed" if key == "closed" else getattr(group.keys, key)
    await group.redis.call("SET", name, "of another program")
    (refused,) = (await replay(group, letter)).refused
    assert name in refused.why
    assert await group.pending() == []
    assert len(await group.dead_letters()) == 1


async def test_a_dead_letter_of_another_program_is_replayed_by_what_it_has(redis_server):
    group = await StreamGroup(redis_server).create()
    add = ("XADD", f"{QUEUE}:dlq", "*")
    whole = await group.redis.call(*add, "original_message", '{"project": "p-9"}', "error_context", "not JSON")
    empty = await group.redis.call(*add, "reason", "it broke")
    odd = await group.redis.call(
        *add,
        "original_message",
        "[[1, 2]]",
        "origin",
        '{"id": [], "group": 5, "deliveries": -3, "queue": "x"}',
        "error_context",
        '{"attempts": "many", "history": {"events": 5, "replays": -1, "first_failure_at": "soon"}}',
    )
    bare = await group.redis.call(*add, "original_message", "{}")
    done = await replay(group, whole.decode(), empty.decode(), odd.decode(), bare.decode())
    assert [each.dead_letter_id for each in done.replayed] == [whole.decode()]
    assert all("can only be discarded" in each.why for each in done.refused)
    assert len(done.refused) == 3
    assert (await group.read())[0].fields == [b"project", b"p-9"]


async def test_hostile_numbers_in_an_origin_do_no_harm(redis_server):
    group = StreamGroup(redis_server)
    letter = await group.fail()
    ((_, fields),) = await group.dead_letters()
    entry = dict(zip(fields[::2], fields[1::2], strict=True))
    origin = entry[b"origin"].replace(b'"deliveries": 1', b'"deliveries": -7')
    forged = await group.redis.call(
        "XADD",
        f"{QUEUE}:dlq",
        "*",
        "original_message",
        entry[b"original_message"],
        "error_context",
        '{"history": {"events": 5, "replays": -1, "first_failure_at": "soon"}}',
        "origin",
        origin,
    )
    assert len((await replay(group, forged.decode())).replayed) == 1
    assert "waits" in (await replay(group, letter)).refused[0].why
    assert len(await group.claim()) == 1


@pytest.mark.parametrize("wrong", ["", "x", "1-", "-1", "1-2-3", "99999999999999999999999", "\u0661-\u0662"])
async def test_what_is_no_id_is_refused(redis_server, wrong):
    with pytest.raises(UsageError, match="is no id of a dead letter"):
        await replay(StreamGroup(redis_server), wrong)


async def test_an_unknown_id_is_told(redis_server):
    group = await StreamGroup(redis_server).create()
    assert "no dead letter" in (await replay(group, "5-5")).refused[0].why
