"""Messages of a queue of SQS's shape and a real worker: retried, dead-lettered and replayed."""

import asyncio
import json

import boto3
import pytest

from reprieve.integrations.messages import handle
from reprieve.integrations.sqs import SqsQueue
from support.hosts import check_delays
from support.sqs_server import MAX_MESSAGE_BYTES, SqsServer

LATE_SECONDS = 0.5


@pytest.fixture(scope="module")
def sqs():
    server = SqsServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def queue(sqs):
    client = boto3.client(
        "sqs",
        endpoint_url=sqs.endpoint,
        region_name="eu-central-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    return SqsQueue(client, sqs.url("orders"), dead_letter_url=sqs.url("orders-dlq"))


@pytest.fixture(scope="module")
def host(start_host, sqs):
    return start_host("sqs_worker", restarts=True, environment={"SQS_ENDPOINT": sqs.endpoint})


def send(queue, kind, key):
    queue.client.send_message(QueueUrl=queue.url, MessageBody=json.dumps({"kind": kind, "key": key}))


def letters_of(sqs, word):
    return [each for each in sqs.messages("orders-dlq") if word in each["body"]]


def context_of(letter):
    return json.loads(letter["attributes"]["error_context"]["StringValue"])


def test_a_transient_failure_is_hidden_for_its_delays_and_dead_lettered_when_spent(host, sqs, queue):
    send(queue, "transient", "spent")
    (letter,) = host.wait(lambda: letters_of(sqs, "spent"))
    check_delays(host, ["spent"], [1, 2], late=LATE_SECONDS)  # 0.6 s and 1.2 s in whole seconds
    context = context_of(letter)
    assert (context["attempts"], context["reason"]) == (3, "budget_spent")
    host.wait(lambda: not sqs.messages("orders"))


def test_a_permanent_failure_is_dead_lettered_after_one_attempt_without_its_secrets(host, sqs, queue):
    send(queue, "permanent", "wrong")
    (letter,) = host.wait(lambda: letters_of(sqs, "wrong"))
    assert host.counts("wrong") == {"start": 1}
    assert context_of(letter)["service"] == "shop"
    assert "hunter2" not in json.dumps(letter["attributes"])


def test_a_message_that_does_not_fit_its_model_is_dead_lettered_as_it_came(host, sqs, queue):
    queue.client.send_message(QueueUrl=queue.url, MessageBody='{"kind": "ok", "unfit": 1}')
    (letter,) = host.wait(lambda: letters_of(sqs, "unfit"))
    assert letter["body"] == '{"kind": "ok", "unfit": 1}'
    assert context_of(letter)["error_class"] == "SCHEMA_INVALID"


def test_a_message_that_kills_its_workers_is_dead_lettered_without_being_handled_again(host, sqs, queue):
    send(queue, "poison", "poison")
    (letter,) = host.wait(lambda: letters_of(sqs, "poison"))
    # Deliveries are all that SQS counts: it ran as often as any policy of the worker allows.
    assert host.counts("poison") == {"start": 3}
    assert (context_of(letter)["error_class"], context_of(letter)["origin"]) == ("WORKER_LOST", "crash")


def test_a_dead_letter_is_replayed_through_the_queue(host, sqs, queue):
    for each in sqs.messages("orders-dlq"):
        queue.client.delete_message(QueueUrl=queue.dead_letter_url, ReceiptHandle=each["receipt"])
    sqs.queues["orders-dlq"].clear()
    send(queue, "fixed", "again")
    host.wait(lambda: letters_of(sqs, "again"))
    host.server.call("SET", "fixed:again", 1)
    assert asyncio.run(queue.replay()) == 1
    host.wait(lambda: host.events("again", "done"))
    assert sqs.messages("orders-dlq") == []


def test_a_dead_letter_of_an_ordered_queue_stays_in_its_group(sqs, queue):
    ordered = SqsQueue(queue.client, sqs.url("steps.fifo"), dead_letter_url=sqs.url("steps-dlq.fifo"))
    group = {"MessageGroupId": "o-1", "MessageDeduplicationId": "d-1"}
    queue.client.send_message(QueueUrl=ordered.url, MessageBody="{}", **group)

    async def main():
        (message,) = await ordered.receive(wait_seconds=0)
        async with handle(message):
            raise ValueError("wrong")
        (letter,) = sqs.messages("steps-dlq.fifo")
        return await ordered.replay(), letter

    replayed, letter = asyncio.run(main())
    (again,) = sqs.messages("steps.fifo")
    assert (replayed, letter["group"], again["group"]) == (1, "o-1", "o-1")


@pytest.mark.parametrize(
    ("left", "kept"),
    [(0, []), (150, ["error_context"]), (700, ["error_context", "origin"]), (3000, ["error_context", "origin"])],
)
def test_the_evidence_of_a_message_near_the_limit_is_cut_to_what_is_left(sqs, queue, left, kept):
    large = SqsQueue(queue.client, sqs.url(f"large-{left}"), dead_letter_url=sqs.url(f"large-{left}-dlq"))
    body = "x" * (MAX_MESSAGE_BYTES - left)
    queue.client.send_message(QueueUrl=large.url, MessageBody=body)

    def fail(depth):
        if depth:
            fail(depth - 1)
        raise ValueError("wrong")

    async def main():
        (message,) = await large.receive(wait_seconds=0)
        async with handle(message):
            exec("def nest(n):\n    return fail(0) if not n else nest(n - 1)\nnest(40)", {"fail": fail})

    asyncio.run(main())
    (letter,) = sqs.messages(f"large-{left}-dlq")
    assert (letter["body"], sorted(letter["attributes"])) == (body, kept)
    if kept:
        assert context_of(letter)["error"] == "ValueError: wrong"
    assert sqs.messages(f"large-{left}") == []


class Message:
    """A message of a queue in memory."""

    integration, queue, id, deliveries, body = "memory", "orders", "m-1", 1, b"{}"

    def __init__(self):
        self.done = []

    async def complete(self):
        self.done.append("complete")

    async def retry(self, delay):
        self.done.append(("retry", delay))

    async def dead_letter(self, fields):
        self.done.append(("dead_letter", json.loads(fields["error_context"])["reason"]))


async def handled(message, exc=None):
    async with handle(message) as item:
        if exc is not None:
            raise exc
    return item


def test_a_message_that_was_handled_is_completed_once():
    message = Message()
    item = asyncio.run(handled(message))
    assert (message.done, item.failure) == (["complete"], None)


@pytest.mark.parametrize("raised", [None, RuntimeError("cannot parse")])
def test_a_poison_message_is_dead_lettered_whatever_the_block_does_with_its_error(raised):
    class Poison(Message):
        deliveries = 100

    message = Poison()

    async def main():
        async with handle(message) as item:
            try:
                item.parse(dict)
            except Exception:  # noqa: BLE001 - what a careless handler does
                if raised is not None:
                    raise raised from None

    asyncio.run(main())
    assert message.done == [("dead_letter", "budget_spent")]


def test_a_cancellation_leaves_the_message_to_the_queue():
    message = Message()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(handled(message, asyncio.CancelledError()))
    assert message.done == []


def test_a_failure_does_not_leave_the_block_and_the_item_says_what_was_decided():
    message = Message()

    async def main():
        async with handle(message) as item:
            raise ConnectionResetError(104, "reset")
        return item

    item = asyncio.run(main())
    ((act, delay),) = message.done
    assert act == "retry"
    assert 0.9 <= delay <= 1.1
    assert item.failure.delay == delay


def test_what_the_queue_raises_leaves_the_block_and_the_message_comes_again():
    class Broken(Message):
        async def dead_letter(self, fields):
            raise ConnectionRefusedError(111, "refused")

    with pytest.raises(ConnectionRefusedError):
        asyncio.run(handled(Broken(), ValueError("bug")))
