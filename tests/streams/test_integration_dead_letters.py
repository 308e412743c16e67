"""Dead letters of Celery, Dramatiq and Taskiq in the commands for streams: no step is offered that cannot work."""

import pytest

import reprieve
from reprieve.app.profiles import resolve
from reprieve.integrations.tasks import HostTask, TaskPolicy
from reprieve.operations.stream_adoption import adopt_dead_letters
from reprieve.operations.streams import list_dead_letters, replay_dead_letters, replay_in_bulk, show_dead_letter
from support.failed_messages import QUEUE, StreamGroup


def fields_of(integration, **fields):
    task = HostTask(integration=integration, queue=QUEUE, name="shop.pay", id="7c1e@pay", fields=fields)
    policy = TaskPolicy(profile=resolve("orchestrator"), service="shop")
    found = policy.decide_failure(ValueError("Invalid project_id"), task)
    return policy.dead_letter_fields(task, found)


async def add(group, integration, **fields):
    flat = [part for pair in fields_of(integration, **fields).items() for part in pair]
    return (await group.redis.call("XADD", f"{QUEUE}:dlq", "*", *flat)).decode()


@pytest.mark.parametrize(
    ("integration", "call"),
    [("celery", "failures.replay"), ("dramatiq", "broker.failures.replay"), ("taskiq", "await failures.replay")],
)
async def test_the_next_step_is_the_replay_of_the_integration(redis_server, integration, call):
    group = StreamGroup(redis_server)
    letter = await add(group, integration, task=b"shop.pay", message=b"{}")
    (row,) = await list_dead_letters(group.redis, [QUEUE])
    assert row.next.command == f"{call}({QUEUE!r}, {letter!r})"
    assert integration.title() in row.next.what
    assert (await show_dead_letter(group.redis, QUEUE, letter)).row.next == row.next


async def test_a_message_that_its_integration_could_not_read_is_sent_by_hand(redis_server):
    group = StreamGroup(redis_server)
    letter = await add(group, "celery", unreadable=b"\xff")
    (row,) = await list_dead_letters(group.redis, [QUEUE])
    assert row.next.command == f"reprieve streams discard {QUEUE} {letter} --reason '...'"
    assert "by hand" in row.next.what


async def test_a_replay_is_refused_with_the_way_that_works(redis_server):
    group = await StreamGroup(redis_server).create()
    letter = await add(group, "celery", task=b"shop.pay")
    done = await replay_dead_letters(group.redis, QUEUE, [letter], actor="ada", all_groups=True)
    (refused,) = done.refused
    assert f"failures.replay({QUEUE!r}, {letter!r})" in refused.why
    assert "Celery" in refused.why
    assert len(await group.dead_letters()) == 1


async def test_a_bulk_replay_skips_them(redis_server):
    group = StreamGroup(redis_server)
    await group.fail()
    await add(group, "celery", task=b"shop.pay")
    await add(group, "taskiq", message=b"{}")
    done = await replay_in_bulk(group.redis, QUEUE, actor="ada", rate=1000)
    assert (done.meant, done.replayed, done.skipped, done.refused) == (3, 1, 2, [])


async def test_they_are_not_adopted(redis_server, store_url):
    group = StreamGroup(redis_server)
    await group.fail()
    await add(group, "celery", task=b"shop.pay")
    async with reprieve.connect(store_url) as app:
        done = await adopt_dead_letters(group.redis, app, QUEUE, actor="ada")
    assert (done.adopted, done.skipped) == (1, 1)
