"""The page on supervised workers: its worker and its program run as its reader would run them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.stream_groups import Group
from support.tasks import run_task

PAGE = (Path(__file__).parents[2] / "docs" / "supervisor.md").read_text(encoding="utf-8")


@pytest.fixture
def valkey(redis_servers):
    server = redis_servers("valkey")
    server.call("FLUSHALL")
    return Group(server, "engineering:queue", "workers")


def test_the_worker_and_the_program_of_the_page_run(valkey, tmp_path):
    worker, program = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "worker.py").write_text(worker)
    program = program.replace('["python", ', f"[{sys.executable!r}, ")
    program += f"\nraise SystemExit(asyncio.run(main({valkey.server.url!r})))\n"
    (tmp_path / "program.py").write_text(program)
    (task,) = valkey.add({"text": "hello"})
    subprocess.run([sys.executable, "-W", "error", "program.py"], cwd=tmp_path, check=True, timeout=60)
    ((_, fields),) = valkey.call("XRANGE", "engineering:queue:results", "-", "+")
    result = {fields[i].decode(): fields[i + 1].decode() for i in range(0, len(fields), 2)}
    assert (result["task"], result["status"], result["result"]) == (task, "finished", '{"length": 5}')
    shown = re.search(r"^task .* status finished .*$", PAGE, re.MULTILINE)[0]
    assert set(re.findall(r"(?:^|  )(\w+) ", shown)) == set(result)


def test_the_shell_worker_of_the_page_runs():
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert run_task(["sh", "-c", script], {"text": "hello"}).result == 42
