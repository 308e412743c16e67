"""A worker of an SQS queue whose failures Reprieve decides about."""

import asyncio
import os

import boto3
import recorded
from pydantic import BaseModel

from reprieve import Backoff
from reprieve.app.profiles import resolve
from reprieve.integrations.messages import handle
from reprieve.integrations.sqs import SqsQueue

PROFILE = resolve("orchestrator").override(backoff=Backoff(initial=0.6, multiplier=2.0), max_attempts=3)


class Work(BaseModel):
    """What a message asks for."""

    kind: str
    key: str


def connect():
    client = boto3.client(
        "sqs", endpoint_url=os.environ["SQS_ENDPOINT"], region_name="eu-central-1", aws_access_key_id="x",
        aws_secret_access_key="x",
    )  # fmt: skip
    base = f"{os.environ['SQS_ENDPOINT']}/000000000000"
    return SqsQueue(client, f"{base}/orders", dead_letter_url=f"{base}/orders-dlq")


async def main():
    queue = connect()
    while True:
        for message in await queue.receive(limit=1, wait_seconds=0):
            async with handle(message, profile=PROFILE, service="shop") as item:
                work = item.parse(Work)
                recorded.act(work.kind, work.key)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main())
