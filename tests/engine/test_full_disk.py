"""A disk that is full: who submits is told, the worker waits, and all goes on when there is room again."""

import asyncio
import ctypes
import os
import resource
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import engine_pipelines
import pytest
from engine_pipelines import Work

import reprieve

MOST = 6 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few megabytes; only those who may mount one have it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={MOST}".encode()) != 0:
        pytest.skip(f"a file system cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    yield folder
    libc.umount2(bytes(folder), 2)


@contextmanager
def full(folder):
    """Take all the room that there is."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 512):
            with suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    yield
    filler.unlink()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("reprieve.app.application.SUBMIT_PATIENCE", 0.5)


def submit_until_refused(url):
    """Submit one job after another; the ids of those that were accepted, and the error of the first that was not."""

    async def main():
        accepted = []
        async with reprieve.connect(url) as app:
            while True:
                try:
                    made = await app.submit(engine_pipelines.campaign, Work(url="x" * 20_000))
                except reprieve.StoreUnavailableError as error:
                    return accepted, error
                accepted.append(made.job_id)

    return asyncio.run(main())


def test_jobs_survive_a_disk_that_is_full_for_a_while(small_disk, open_lab, impatient):
    lab = open_lab(f"sqlite:///{small_disk}/jobs.db")
    jobs = lab.submit(*[Work(seconds=0.05, acts={"llm": ["fail"]}) for _ in range(60)])
    worker = lab.start()
    lab.until(lambda: lab.count("outcomes") > 5, "jobs end")
    with full(small_disk):
        accepted, error = submit_until_refused(lab.url)
        jobs += accepted
        assert "disk is full" in str(error)
        assert not error.outcome_unknown
        begun = len(lab.lines("begin"))
        time.sleep(2.5)
        assert worker.code is None
        assert len(lab.lines("begin")) - begun <= 10, "what it cannot write down it does not begin"
    lab.finish()
    assert worker.stop() == 0
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")


def test_a_worker_survives_files_that_may_not_grow(sqlite_lab):
    """For want of a small disk, a limit on the size of files: the same for the store, but for the words."""
    lab = sqlite_lab
    jobs = lab.submit(*[Work(url="x" * 2000, seconds=0.02) for _ in range(300)])
    folder = Path(lab.url.removeprefix("sqlite:///")).parent
    size = max(file.stat().st_size for file in folder.iterdir())
    worker = lab.start(file_size=size + 100_000)
    lab.until(lambda: "cannot be used now" in worker.said(), "it meets the limit")
    assert 0 < lab.count("outcomes") < len(jobs)
    time.sleep(1.0)
    assert worker.code is None
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    lab.finish()
    assert worker.stop() == 0
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
