"""The guide to pipelines, run as its reader would: all its programs in one file, top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"


# What the page declares and does not run itself.
THE_REST = """
import asyncio, reprieve, reviews
from reviews import Change, Diff, Review, Scan

async def result(pipeline, payload):
    async with reprieve.connect("sqlite:///rest.db") as app:
        job = await app.submit(pipeline, payload)
        await app.work(pipeline, until_idle=True)
        return await job.result()

async def main():
    assert await result(reviews.patient, Diff({"a.py": "x", "b.py": "yy"})) == len("fine: x") + len("fine: yy")
    assert await result(reviews.audit, Change("core", 1)) is None
    old = reviews.audit.decode_result("inspect", b'{"findings": ["x"]}', "v1:older")
    assert old == Scan(["x"], "unknown"), old
    assert reviews.audit.decode_payload(b'{"number": 3}', "v1:older") == Change("core", 3)
    assert [stage.profile.name for stage in reviews.careful.stages] == ["orchestrator.transient", "policy"]

asyncio.run(main())
"""


def run(folder, *arguments):
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_examples_of_the_page_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 8
    (tmp_path / "reviews.py").write_text("\n\n".join(blocks), encoding="utf-8")
    done = run(tmp_path, "reviews.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "reviews.db").exists()
    assert (tmp_path / "heavy.db").exists()
    rest = run(tmp_path, "-c", THE_REST)
    assert (rest.returncode, rest.stderr) == (0, "")
