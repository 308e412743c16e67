"""A batch of signatures, in a process that may be killed: URLs of database and provider, how many, lease."""

import asyncio
import sys

import reprieve
from reprieve.models import OpenAI


async def main(url: str, provider: str, number: str, lease: str) -> None:
    model = OpenAI("m", base_url=provider, api_key="key-of-a-test-0003")
    async with reprieve.connect(url) as app:
        analysis = app.analysis(
            model, prompt="{signature}:", schema={"type": "object"}, concurrency=4, lease=float(lease)
        )
        await analysis.analyze_many({f"s{each}": [] for each in range(int(number))})
    await model.close()


asyncio.run(main(*sys.argv[1:]))
