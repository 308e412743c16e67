"""The page on Redis Streams: its program runs, and it names every option."""

import dataclasses
import inspect

import pytest

import reprieve
from reprieve.streams.consumer import ConsumerOptions
from support.redis_servers import RedisServer

PAGE = "docs/streams.md"


def test_the_program_of_the_page_handles_a_message(page, reader, tmp_path):
    server = RedisServer(on_port=True).start()
    try:
        program = page(PAGE).programs[0].replace("redis://localhost:6379/0", server.url)
        (tmp_path / "engineering.py").write_text(program, encoding="utf-8")
        server.call("XADD", "engineering:queue", "*", "data", '{"project_id": "p-1"}')
        done = reader.python("engineering.py")
        assert (done.returncode, done.stdout) == (0, "handled p-1\n")
    finally:
        server.stop()


def test_the_page_names_every_option(page):
    text = page(PAGE).text
    options = [each.name for each in dataclasses.fields(ConsumerOptions)]
    assert set(options) <= set(inspect.signature(reprieve.consumer).parameters)
    assert [name for name in (*options, "alerts", "profile") if f"`{name}" not in text] == []


@pytest.mark.parametrize("path", [PAGE, "docs/testing.md"])
def test_the_links_of_the_page_lead_somewhere(page, path):
    for target, anchor in page(path).links:
        name = f"docs/{target}" if target else path
        assert not anchor or anchor in page(name).anchors, (target, anchor)
