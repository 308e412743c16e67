"""The page about dead letters of streams, typed in as its reader would."""

import asyncio
import json
from pathlib import Path

import pytest

from support.failed_messages import QUEUE, StreamGroup, close_groups

IDS = ("1795030522774-0", "1795030522775-0", "1795030522776-0")


@pytest.fixture
def redis_server(redis_servers):
    """The page is the same for every server."""
    server = redis_servers("valkey")
    server.call("FLUSHALL")
    return server


@pytest.fixture
def with_dead_letters(page, reader, redis_server):
    """A reader whose queue has the dead letters of the page, and two more."""

    async def fail():
        group = StreamGroup(redis_server)
        for number in range(4):
            await group.fail("project", f"p-{number}")
        letters = await group.dead_letters()
        await group.redis.call("DEL", f"{QUEUE}:dlq")
        for entry_id, (_, fields) in zip(IDS, letters, strict=False):
            await group.redis.call("XADD", f"{QUEUE}:dlq", entry_id, *fields)
        await close_groups()

    asyncio.run(fail())
    reader.environment |= {"REPRIEVE_STREAMS_URL": redis_server.url, "REPRIEVE_ACTOR": "ada"}
    return reader


def test_every_command_of_the_page_runs_and_does_what_the_page_says(page, with_dead_letters, tmp_path, redis_server):
    guide = page("docs/stream-dead-letters.md")
    commands = guide.commands
    (bulk,) = (place for place, each in enumerate(commands) if "bulk-replay" in each)
    discard = bulk + 1
    done = with_dead_letters.types_all([*commands[:bulk], commands[discard]])
    assert all(each in done[commands[0]] for each in IDS)
    assert "given back as message" in done[commands[2]]
    assert len((tmp_path / "week.jsonl").read_text().splitlines()) == 2
    last = "reprieve dead list --all --json"
    done = with_dead_letters.types_all([*commands[discard + 1 :], last])
    assert "1 dead letter adopted" in done["reprieve streams adopt engineering:queue"]
    assert redis_server.call("XLEN", f"{QUEUE}:dlq") == 0
    (shown,) = json.loads(done[last])["dead_letters"]
    assert shown["state"] == "resolved"


def test_the_bulk_replay_of_the_page_runs(page, with_dead_letters, redis_server):
    (command,) = (each for each in page("docs/stream-dead-letters.md").commands if "bulk-replay" in each)
    assert "3 of 3 dead letters replayed" in with_dead_letters.types(command)


def test_the_program_of_the_page_runs(page, with_dead_letters, redis_server, tmp_path):
    (program,) = page("docs/stream-dead-letters.md").programs
    (tmp_path / "program.py").write_text(
        program.replace("redis://localhost:6379/0", redis_server.url), encoding="utf-8"
    )
    done = with_dead_letters.python("program.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 3
    assert redis_server.call("XLEN", f"{QUEUE}:dlq") == 0


def test_the_links_of_the_page_lead_somewhere(page):
    guide = page("docs/stream-dead-letters.md")
    docs = Path(__file__).parents[2] / "docs"
    assert all((docs / path).exists() for path, _ in guide.links)
    assert len(guide.text.split()) < 1800
