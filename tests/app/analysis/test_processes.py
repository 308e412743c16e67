"""Many processes ask once; one that is killed leaves nothing that is asked twice or forgotten."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import select

from reprieve.adapters.sql.engine import Database
from reprieve.adapters.sql.tables import analysis_cache
from reprieve.testing import replies

PROGRAM = Path(__file__).parent / "programs" / "batch.py"
NUMBER = 60


@pytest.fixture
def start(store_url, flaky_http):
    """Starts a process that analyzes so many signatures."""
    flaky_http.always(replies.openai.completion('{"a": 1}'))
    started = []

    def go(number=NUMBER, lease=3.0):
        arguments = [sys.executable, str(PROGRAM), store_url, flaky_http.url("/v1"), str(number), str(lease)]
        started.append(subprocess.Popen(arguments, stderr=subprocess.PIPE))
        return started[-1]

    yield go
    for process in started:
        process.kill()
        process.communicate()


def asked(upstream):
    """How often the provider was asked about each signature."""
    texts = [json.loads(each.body)["messages"][-1]["content"] for each in upstream.requests]
    return Counter(text.partition(":")[0] for text in texts)


def committed(url):
    database = Database.at(url, writes=False)
    try:
        with database.transaction() as connection:
            wanted = select(analysis_cache.c.url_signature).where(analysis_cache.c.status == "analyzed")
            return set(connection.scalars(wanted))
    finally:
        database.close()


def test_three_processes_at_once_ask_about_each_signature_once(start, store_url, flaky_http):
    start(1).communicate(timeout=120)  # makes the tables of a file
    # No lease ends while a process is slow: another one would rightly ask again.
    for process in [start(lease=300.0) for _ in range(3)]:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors.decode()[-2000:]
    counts = asked(flaky_http)
    assert len(counts) == NUMBER
    assert set(counts.values()) == {1}
    assert len(committed(store_url)) == NUMBER


@pytest.mark.spec("LLM-5.1")
def test_a_batch_that_is_killed_asks_nothing_again_that_was_committed_and_forgets_nothing(start, store_url, flaky_http):
    process = start()
    deadline = time.monotonic() + 120
    while len(flaky_http.requests) < NUMBER // 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.kill()
    process.wait()
    before, done = asked(flaky_http), committed(store_url)
    assert done <= set(before)
    assert len(done) < NUMBER, "it was killed in the middle"
    _, errors = (again := start()).communicate(timeout=240)
    assert again.returncode == 0, errors.decode()[-2000:]
    after = asked(flaky_http)
    assert {signature: after[signature] for signature in done} == dict.fromkeys(done, 1)
    assert len(committed(store_url)) == NUMBER, "what the dead one held is free once its lease is over"
    assert max(after.values()) <= 2
