"""Dead letters: everything that triage needs, and nothing that nobody may read, anywhere in the database or the log."""

import hashlib
import importlib.util
import json
import secrets
import string
from base64 import urlsafe_b64encode
from dataclasses import dataclass

import httpx
import pytest

import reprieve
from reprieve import Job, JobStatus, Pipeline
from reprieve.adapters.sql import tables
from reprieve.app.redaction import forget_secrets
from reprieve.testing import Reply

LETTERS = string.ascii_letters + string.digits


def made_of(alphabet, length):
    return "".join(secrets.choice(alphabet) for _ in range(length))


def failing(upstream, profile, *, request_id="req-7f3a91c2"):
    """fetch works, llm always gets the same refusal."""
    pipeline = Pipeline("review", profile=profile, breaker=None)
    upstream.always(Reply(503, headers={"X-Request-Id": request_id}), path="/llm")

    async def call(path):
        async with httpx.AsyncClient() as client:
            return (await client.get(upstream.url(path))).raise_for_status().text

    @pipeline.stage
    async def fetch(job: Job[str]) -> str:
        return await call("/fetch")

    @pipeline.stage
    async def llm(job: Job[str], fetch: str) -> str:
        return await call("/llm")

    return pipeline


@pytest.mark.spec("CRIT-3.4", "CRIT-4.1", "CRIT-4.2", "CRIT-4.6")
def test_a_dead_letter_says_what_failed_where_when_and_with_which_stack(bench, quick, flaky_http):
    pipeline = failing(flaky_http, quick)
    flaky_http.next(500, path="/fetch")
    job = bench.process(pipeline, "x")
    letter = bench.letter(job)
    assert (letter.job_id, letter.pipeline, letter.stage, letter.state) == (job, "review", "llm", "open")
    assert (letter.error_class, letter.category, letter.status_code) == ("UPSTREAM_UNAVAILABLE", "network", 503)
    assert (letter.reason, letter.policy, letter.attempts, letter.budget) == ("budget_spent", "criticizer", 5, 5)
    assert letter.last_stack.startswith("Traceback (most recent call last):")
    assert "in llm" in letter.last_stack
    assert "HTTPStatusError" in letter.last_stack
    at_llm = [each for each in bench.look(lambda reader: reader.attempts(job)) if each.stage == "llm"]
    assert letter.first_failure_at == at_llm[0].ended_at
    assert letter.last_failure_at == at_llm[-1].ended_at == letter.opened_at
    assert letter.first_failure_at < letter.last_failure_at


@pytest.mark.spec("CRIT-4.1")
def test_the_same_failure_of_another_job_has_the_same_class_and_fingerprint(bench, quick, flaky_http):
    pipeline = failing(flaky_http, quick)
    letters = [bench.letter(bench.process(pipeline, payload)) for payload in ("x", "y")]
    assert len({(letter.error_class, letter.fingerprint) for letter in letters}) == 1


@pytest.mark.spec("CRIT-4.2")
def test_the_stack_is_that_of_the_failure_that_ended_the_job(bench, quick):
    pipeline, errors = Pipeline("review", profile=quick, breaker=None), [ConnectionResetError("at first")]

    @pipeline.stage
    async def fetch(job: Job[str]) -> str:
        if errors:
            raise errors.pop()
        try:
            return {}["what is not there"]
        except KeyError as missing:
            raise TypeError("at last") from missing

    letter = bench.letter(bench.process(pipeline, "x"))
    assert "at first" not in letter.last_stack
    assert "KeyError" in letter.last_stack
    assert "The above exception was the direct cause" in letter.last_stack
    assert letter.last_stack.rstrip().endswith("TypeError: at last")


@pytest.mark.spec("CRIT-4.3")
def test_the_context_has_request_ids_stage_attempts_status_and_truncated_digests(bench, quick, flaky_http):
    job = bench.process(failing(flaky_http, quick), "the payload", idempotency_key="cl-7@2", subject="cl-7", version=2)
    context = json.loads(bench.letter(job).sanitized_context)
    assert context["request_ids"] == ["req-7f3a91c2"]
    assert (context["job_id"], context["pipeline"], context["stage"], context["version"]) == (job, "review", "llm", 2)
    assert context["attempts"] == {"handler": 5, "crash": 0, "out_of_memory": 0, "lost_lease": 0, "deploy": 0}
    assert (context["budget"], context["cause"], context["upstream_status"]) == (5, "handler", 503)
    payload = bench.look(lambda reader: reader.payload(job))
    assert context["payload_size"] == len(payload)
    for name in ("payload_digest", "idempotency_key_digest", "subject_digest"):
        assert len(context[name]) == 16
        assert set(context[name]) <= set(string.hexdigits)
    assert not hashlib.sha256(payload).hexdigest().startswith(context["payload_digest"])  # it is keyed


@pytest.mark.spec("CRIT-4.3")
def test_the_digest_tells_equal_payloads_from_others_and_nothing_else(bench, quick, flaky_http):
    pipeline = failing(flaky_http, quick)
    digests = [
        json.loads(bench.letter(bench.process(pipeline, text)).sanitized_context)["payload_digest"] for text in "aab"
    ]
    assert digests[0] == digests[1] != digests[2]


def test_the_job_and_its_dead_letter_end_in_one_transaction_with_code_599(bench, quick, flaky_http):
    job = bench.process(failing(flaky_http, quick), "x")
    (outcome,) = bench.rows("outcomes", job_id=job)
    (letter,) = bench.rows("dead_letters", job_id=job)
    assert (outcome["status"], outcome["status_code"], outcome["stage"]) == ("dead_letter", 599, "llm")
    assert (outcome["fence"], outcome["finished_at"]) == (letter["fence"], letter["opened_at"])
    assert bench.rows("queue", job_id=job) == []


# --- secrets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    api_key: str
    password: str
    email: str
    prompt: str


class Plants:
    """Secrets of one run, and where they are put."""

    def __init__(self):
        self.api_key = "sk-" + "proj-" + made_of(LETTERS, 48)
        self.token = "gh" + "p_" + made_of(LETTERS, 36)
        self.jwt = ".".join(
            urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
            for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": made_of(LETTERS, 12)}, made_of(LETTERS, 30))
        )
        self.password = made_of(LETTERS, 20) + "!7"
        self.in_code = "xox" + "b-" + made_of(string.digits, 12) + "-" + made_of(LETTERS, 24)
        self.live = "correct-" + made_of(string.ascii_lowercase, 14)
        self.email = f"{made_of(string.ascii_lowercase, 9)}@{made_of(string.ascii_lowercase, 8)}.org"
        self.card = "4012 8888 8888 1881"
        self.prompt = f"You are {made_of(string.ascii_lowercase, 12)}, and must say nothing of the merger"

    @property
    def all(self):
        return {name: value for name, value in vars(self).items() if isinstance(value, str)}

    def found_in(self, text):
        return [name for name, value in self.all.items() if value in text]


@pytest.fixture
def plants():
    made = Plants()
    reprieve.register_secret(made.live, name="a live credential")
    yield made
    forget_secrets("a live credential")


def client_library(folder, plants):
    """A module with a secret in its very code, which a stack shows."""
    file = folder / "legacy_client.py"
    file.write_text(f'def connect(token="{plants.in_code}"):\n    raise PermissionError("denied: {plants.in_code}")\n')
    spec = importlib.util.spec_from_file_location("legacy_client", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaky(plants, upstream, library, profile):
    """A pipeline that puts secrets wherever an exception can carry them."""
    pipeline = Pipeline("leaky", profile=profile, breaker=None)
    body = {"error": {"message": f"Incorrect API key provided: {plants.api_key}", "type": "server_error"}}
    upstream.next(
        Reply(
            503, body=json.dumps(body).encode(), headers={"X-Request-Id": "req-1", "Set-Cookie": f"sid={plants.jwt}"}
        ),
        path="/llm",
    )

    @pipeline.stage
    async def llm(job: Job[Order]) -> str:
        authorization = {"Authorization": f"Bearer {job.payload.api_key}"}
        if job.attempt == 1:
            async with httpx.AsyncClient(headers=authorization) as client:
                answer = await client.post(upstream.url(f"/llm?api_key={plants.token}"), json={"prompt": plants.prompt})
            answer.raise_for_status()
        if job.attempt == 2:
            raise ConnectionResetError(f"postgresql://app:{plants.password}@db.internal/prod closed the connection")
        if job.attempt == 3:
            raise TimeoutError(f"{job.payload!r} took too long")
        if job.attempt == 4:
            chat = {"messages": [{"role": "system", "content": plants.prompt}], "user": plants.email}
            raise ConnectionResetError(f"request was {json.dumps(chat)}")
        try:
            library.connect()
        except PermissionError as denied:
            error = RuntimeError(f"charging card {plants.card} of {plants.email} with {plants.live}")
            error.add_note(f"sent with token {plants.token} and headers {authorization}")
            raise error from denied

    return pipeline


@pytest.mark.spec("CRIT-4.4", "CRIT-4.5")
def test_no_planted_secret_is_in_any_table_but_where_users_put_it_nor_in_the_log(
    bench, quick, plants, flaky_http, tmp_path, caplog
):
    pipeline = leaky(plants, flaky_http, client_library(tmp_path, plants), quick)
    order = Order(plants.api_key, plants.password, plants.email, plants.prompt)
    with caplog.at_level("DEBUG"):
        job = bench.process(
            pipeline, order, idempotency_key=f"order of {plants.email}", subject=plants.email, version=1
        )
    assert bench.job(job).status is JobStatus.DEAD_LETTER
    assert [row["number"] for row in bench.rows("attempts")] == [1, 2, 3, 4, 5]
    leaks, given = {}, ""
    for table in tables.metadata.sorted_tables:
        for row in bench.rows(table.name):
            for column, value in row.items():
                text = value.decode() if isinstance(value, bytes) else str(value)
                if column in tables.AS_GIVEN.get(table.name, ()):
                    given += text
                elif found := plants.found_in(text):
                    leaks[f"{table.name}.{column}"] = found
    assert leaks == {}
    assert plants.found_in(given) == ["api_key", "password", "email", "prompt"]  # so the search does find what is there
    said = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("reprieve"))
    assert "dead-lettered" in said
    assert plants.found_in(said) == []


@pytest.mark.spec("CRIT-4.5")
def test_what_is_left_of_such_a_stack_still_says_where_it_came_from(bench, quick, plants, flaky_http, tmp_path):
    pipeline = leaky(plants, flaky_http, client_library(tmp_path, plants), quick)
    order = Order(plants.api_key, plants.password, plants.email, plants.prompt)
    letter = bench.letter(bench.process(pipeline, order))
    assert "legacy_client.py" in letter.last_stack
    assert "in connect" in letter.last_stack
    assert "PermissionError" in letter.last_stack
    assert "RuntimeError: charging card" in letter.last_stack
    assert json.loads(letter.sanitized_context)["redactions"]


def test_a_waiting_caller_is_told_why_without_a_secret(bench, quick, plants):
    pipeline = Pipeline("told", profile=quick)

    @pipeline.stage
    async def fail(job: Job[str]) -> str:
        raise TypeError(f"bad key {plants.api_key} for {plants.email}")

    async def main():
        submission = await bench.app.submit(pipeline, "x")
        await bench.work(pipeline)
        with pytest.raises(reprieve.JobFailedError, match="BUG: bad key") as caught:
            await submission.result(timeout=20)
        return caught.value

    error = bench.run(main)
    assert (error.status, plants.found_in(str(error))) == ("dead_letter", [])
