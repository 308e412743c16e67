"""An application on each database, and a provider on this machine that is asked through its real client."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel

import reprieve
from reprieve.models import OpenAI
from reprieve.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reprieve.testing import FlakyHTTP

KEY = "key-of-a-test-0003"


class Kind(BaseModel):
    kind: Literal["article", "product", "other"]


class Laboratory:
    """Runs a task with an application and an analysis of this question; asks are counted by the provider."""

    def __init__(self, url: str, upstream: FlakyHTTP) -> None:
        self.url, self.upstream = url, upstream
        self.clock = FakeClock(now=1_700_000_000.0)

    def run(self, task: Callable[[Any, Any], Awaitable[Any]], *, clock: Any = None, **settings: Any) -> Any:
        async def main() -> Any:
            model = OpenAI("m", base_url=self.upstream.url("/v1"), api_key=KEY)
            options = {"prompt": "Which kind is {signature}?\n{samples}", "schema": Kind} | settings
            async with reprieve.connect(self.url, clock=clock or self.clock) as app:
                try:
                    return await task(app, app.analysis(model, **options))
                finally:
                    await model.close()

        return asyncio.run(main())

    def analyze(self, signature: str = "shop.example/N", *samples: object, **settings: Any) -> Any:
        return self.run(lambda _, analysis: analysis.analyze(signature, samples), **settings)

    @property
    def asked(self) -> list[str]:
        """What the provider was asked, in order."""
        return [json.loads(each.body)["messages"][-1]["content"] for each in self.upstream.requests]


@pytest.fixture
def lab(store_url: str, flaky_http: FlakyHTTP) -> Laboratory:
    """On each of the two databases."""
    return Laboratory(store_url, flaky_http)
