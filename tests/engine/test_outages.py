"""An upstream that is down, slow or asks to be left alone: it costs time, not jobs."""

import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from engine_pipelines import Work

from reprieve.testing import FlakyHTTP, Reply, Stall
from support import effort

LONG_OUTAGE = effort.CAMPAIGN
"""Two minutes and 5,000 jobs in place of a few seconds and a few hundred."""


def through(upstream, count, stage="llm"):
    return [Work(acts={stage: ["get"] * 99}, url=upstream.url("/model")) for _ in range(count)]


def is_open(lab, stage="llm"):
    return [row for row in lab.rows("stages", stage=stage) if row["opened_at"] is not None]


def test_a_probe_whose_worker_is_killed_does_not_hold_its_stage_for_ever(lab):
    """It is the only job that is left: as a suspect it has to be the next probe all the same."""
    with FlakyHTTP() as upstream:
        upstream.always(503)
        job, *others = lab.submit(*through(upstream, 3), pipeline="outage")
        worker = lab.start(pipelines=["outage"])
        lab.until(lambda: is_open(lab), "the breaker opens")

        async def cancel(operations):
            for other in others:
                await operations.jobs.cancel(other, actor="ann", reason="not needed")

        lab.operate(cancel)
        upstream.always(Stall())
        lab.until(lambda: lab.rows("queue", job_id=job, state=1), "the last job is the probe")
        worker.kill()
        upstream.always(200)
        lab.start(pipelines=["outage"])
        lab.finish()
    assert lab.outcomes() == {job: "succeeded"} | dict.fromkeys(others, "cancelled")
    assert lab.count("attempts", cause="crash", job_id=job) == 1


class Model:
    """An upstream whose port refuses everybody until it listens; then it answers with a status that can be changed."""

    def __init__(self):
        self.status, self.seen = 200, Counter()
        answer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                answer.seen[answer.status] += 1
                self.send_response(answer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.request_queue_size = 512
        self._server.server_bind()
        self._thread = None

    def url(self, path):
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def listen(self, status):
        self.status = status
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self):
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


@pytest.fixture
def model():
    made = Model()
    yield made
    made.close()


@pytest.mark.campaign
@pytest.mark.spec("CRIT-1.1", "CRIT-1.3")
def test_an_upstream_that_is_down_while_many_jobs_run_costs_time_and_no_job(lab, model, tell):
    """Two workers, one of them standing by on SQLite; nobody listens, then somebody says 503, then all is well again."""
    count, seconds, name = (5000, 120.0, "long_outage") if LONG_OUTAGE else (400, 5.0, "outage")
    settings = {"pipelines": [name], "concurrency": 100, "lease": 30.0 if LONG_OUTAGE else 10.0, "log": "ERROR"}
    jobs = lab.submit(*through(model, count), pipeline=name)
    workers = [lab.start(**settings) for _ in range(2)]
    lab.until(lambda: is_open(lab), "the breaker opens")
    began = time.monotonic()
    time.sleep(seconds / 2)
    model.listen(503)
    time.sleep(seconds / 2)
    calls = len(lab.lines("begin", stage="llm"))
    model.status = 200
    back = time.monotonic()
    lab.finish(within=600 if LONG_OUTAGE else 60)
    drained = time.monotonic() - back
    assert [worker.stop() for worker in workers if worker.pid in {line.pid for line in lab.lines()}] != []
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    attempts = lab.rows("attempts")
    paid = Counter(row["job_id"] for row in attempts if row["counted"])
    assert max(paid.values()) < 5
    # Those that ran when it went down, and a probe now and then: not one call a job.
    assert calls < count
    assert {row["cause"] for row in attempts} == {"handler"}
    tell(
        f"{back - began:.0f} s, {count} jobs: {calls} calls to a dead upstream ({model.seen[503]} of them answered with 503), "
        f"{sum(paid.values())} attempts paid, at most {max(paid.values())} by one job, "
        f"{len(attempts) - sum(paid.values())} free; drained in {drained:.1f} s",
    )


@pytest.mark.spec("CRIT-1.2", "CRIT-2.2")
def test_retry_after_holds_the_stage_for_all_jobs_and_no_other_stage(lab):
    with FlakyHTTP() as upstream:
        upstream.next(Reply(429, headers={"Retry-After": "2"}), path="/model")
        (first,) = lab.submit(*through(upstream, 1), pipeline="outage")
        lab.start(pipelines=["outage"])
        lab.until(lambda: lab.lines("fail", job=first), "it is asked to wait")
        (held,) = lab.until(lambda: [row for row in lab.rows("stages", stage="llm") if row["held_until"]], "it is held")
        others = lab.submit(*through(upstream, 20), pipeline="outage")
        lab.finish()
        assert len(upstream.requests) == 22
    assert lab.outcomes() == dict.fromkeys([first, *others], "succeeded")
    asked = held["held_until"]
    early = {line.stage for line in lab.lines("begin") if line.moment < asked - 0.05 and line.job != first}
    assert early == {"fetch"}
    assert len(lab.lines("begin", stage="llm")) == 22
    assert all(line.moment >= asked - 0.05 for line in lab.lines("begin", stage="llm")[1:])
    assert [row["counted"] for row in lab.rows("attempts")] == [True]


def test_operators_pause_a_stage_and_let_it_go_on_while_jobs_run(lab):
    jobs = lab.submit(*[Work(seconds=0.02) for _ in range(100)], pipeline="usual")
    lab.start(pipelines=["usual"])
    lab.until(lambda: lab.count("outcomes") > 0, "jobs end")
    lab.operate(lambda operations: operations.stages.pause("usual", "llm", actor="ann", reason="too expensive today"))
    lab.until(lambda: lab.count("queue", state=1) == 0, "nothing runs")
    lab.until(lambda: lab.count("queue", stage="fetch") == 0, "the stage before it goes on")
    begun = len(lab.lines("begin", stage="llm"))
    time.sleep(1.0)
    assert len(lab.lines("begin", stage="llm")) == begun
    assert lab.count("queue", stage="llm", state=0) == lab.count("queue") > 0
    lab.operate(lambda operations: operations.stages.resume("usual", "llm", actor="ann"))
    lab.finish()
    lab.check(jobs)
    assert lab.outcomes() == dict.fromkeys(jobs, "succeeded")
    assert lab.count("attempts") == 0
