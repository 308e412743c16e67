"""The pages about integrations, run as their reader would: a worker, a client, and a replay."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from support.hosts import Host
from support.redis_servers import RedisServer
from support.sqs_server import SqsServer

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "redis://localhost:6379/0"


HOSTS = [("celery", "celery"), ("dramatiq", "default"), ("taskiq", "taskiq")]


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```$", page(name), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("name", "queue"), HOSTS)
def test_the_example_of_the_page_runs_is_dead_lettered_and_replayed(tmp_path, name, queue):
    program, client, replay = blocks(f"{name}.md")
    (command,) = re.findall(rf"^    ({name} .*)$", page(f"{name}.md"), re.MULTILINE)
    server = RedisServer(on_port=True).start()
    (tmp_path / "shop.py").write_text(program.replace(ADDRESS, server.url), encoding="utf-8")
    host = Host(server, command.split(), tmp_path, tmp_path / "log")
    try:
        host.start()
        host.python(client)
        (letter,) = host.wait(lambda: host.dead_letters(queue))
        assert (letter.attempts, letter.service, letter.replays) == (1, "shop", 0)
        assert "a negative amount" in letter.error
        host.python(replay)
        (again,) = host.wait(lambda: [each for each in host.dead_letters(queue) if each.replays])
        assert again.history["replayed_from"] == letter.dead_letter_id
    finally:
        host.kill()
        server.stop()


def test_the_example_of_a_queue_runs(tmp_path, monkeypatch):
    program, own = blocks("queues.md")
    server = SqsServer()
    for variable, value in {
        "AWS_ENDPOINT_URL_SQS": server.endpoint,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }.items():
        monkeypatch.setenv(variable, value)
    (tmp_path / "worker.py").write_text(f"{program}\n\n{own}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import worker  # noqa: PLC0415 - it is written above

    try:
        queue = worker.SqsQueue(
            worker.boto3.client("sqs"), server.url("orders"), dead_letter_url=server.url("orders-dlq")
        )
        for body in ('{"id": "o-1", "amount": 5}', '{"id": "o-2", "amount": -5}'):
            queue.client.send_message(QueueUrl=queue.url, MessageBody=body)
        asyncio.run(worker.work(queue))
        assert server.messages("orders") == []
        assert [each["body"] for each in server.messages("orders-dlq")] == ['{"id": "o-2", "amount": -5}']
        asyncio.run(handled_by(worker))
    finally:
        server.stop()
        sys.modules.pop("worker", None)


async def handled_by(worker):
    async with worker.handle(worker.MyMessage("m-1", 1, b'{"id": "o-1", "amount": 5}')) as item:
        assert item.parse(worker.Order).amount == 5
