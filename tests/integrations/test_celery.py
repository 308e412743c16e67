"""Celery with a real worker: retried when the profile says, dead-lettered once, replayed through Celery."""

import json

import pytest

from reprieve.core.failure import ErrorClass
from support.hosts import check_delays

LATE_SECONDS = 0.5


@pytest.fixture(scope="module")
def host(start_host):
    host = start_host("celery", "-A", "celery_shop", "worker", "--pool", "prefork", "-c", "1", "-l", "INFO")
    send(host, "ok", "ready")
    host.wait(lambda: host.events("ready", "done"))
    return host


def send(host, kind, key, **options):
    host.python(f"import celery_shop; celery_shop.work.apply_async(({kind!r}, {key!r}), **{options!r})")


def letters_of(host, key):
    return [each for each in host.dead_letters("celery") if key.encode() in dict_of(each).get("body", b"")]


def dict_of(letter):
    fields = letter.original
    return {fields[at].decode(): fields[at + 1] for at in range(0, len(fields), 2)}


def test_a_transient_failure_is_retried_after_its_delays_and_dead_lettered_when_the_budget_is_spent(host):
    keys = ["spent 1", "spent 2", "spent 3"]
    for key in keys:
        send(host, "transient", key)
    for key in keys:
        (letter,) = host.wait(lambda key=key: letters_of(host, key))
    check_delays(host, keys, [0.3, 0.6, 1.2], late=LATE_SECONDS)
    assert (letter.attempts, letter.reason, letter.error_class) == (4, "budget_spent", "CONNECTION_RESET")


def test_a_failure_that_passes_is_over_after_the_retry(host):
    send(host, "once", "once")
    host.wait(lambda: host.events("once", "done"))
    assert host.counts("once") == {"start": 2, "done": 1}
    assert letters_of(host, "once") == []


def test_a_permanent_failure_is_dead_lettered_after_one_attempt_without_its_secrets(host):
    send(host, "permanent", "wrong")
    (letter,) = host.wait(lambda: letters_of(host, "wrong"))
    assert host.counts("wrong") == {"start": 1}
    assert (letter.attempts, letter.reason, letter.service) == (1, "non_retryable", "shop")
    assert "in act" in letter.context["stack"]
    assert "hunter2" not in json.dumps(letter.context)
    assert dict_of(letter)["task"] == b"celery_shop.work"


def test_a_task_that_kills_its_workers_is_dead_lettered_and_its_neighbours_run(host):
    send(host, "poison", "poison")
    send(host, "ok", "neighbour")
    host.wait(lambda: letters_of(host, "poison"))
    host.wait(lambda: host.events("neighbour", "done"))
    (letter,) = letters_of(host, "poison")
    # The first start cannot be told from a deployment; three more are charged.
    assert host.counts("poison") == {"start": 4}
    assert (letter.error_class, letter.context["origin"], letter.attempts) == (
        ErrorClass.WORKER_LOST,
        "crash",
        3,
    )
    send(host, "ok", "after")
    host.wait(lambda: host.events("after", "done"))
    assert len(letters_of(host, "poison")) == 1
    assert list(host.server.call("KEYS", "*starts*")) == []


def test_a_task_that_exceeds_its_hard_time_limit_is_killed_dead_lettered_and_can_be_replayed(host):
    host.python("import celery_shop; celery_shop.limited.delay('hang', 'hung')")
    (letter,) = host.wait(lambda: letters_of(host, "hung"))
    assert (letter.error_class, letter.reason, letter.attempts) == ("OPERATION_TIMEOUT", "non_retryable", 1)
    host.server.call("SET", "fixed:hung", 1)
    host.python(f"import celery_shop; celery_shop.failures.replay('celery', {letter.dead_letter_id!r})")
    host.wait(lambda: host.events("hung", "done"))
    assert letters_of(host, "hung") == []


@pytest.mark.parametrize(
    ("name", "body", "headers"),
    [
        ("body", "{ no json", {"task": "celery_shop.work", "id": "u1"}),
        ("unknown", "[[], {}, {}]", {"task": "celery_shop.removed", "id": "u2"}),
        ("foreign", '{"order": 7}', {}),
        ("noise", "\x00noise", {}),
    ],
)
def test_a_message_that_is_no_task_of_the_application_is_dead_lettered(host, name, body, headers):
    letter = published(host, body, headers)
    assert (letter.error_class, letter.attempts) == ("SCHEMA_INVALID", 0)
    assert dict_of(letter)["body"].decode() == body
    assert json.loads(dict_of(letter)["headers"]).items() >= headers.items()


def published(host, body, headers):
    """The dead letter of a message that no client of the application would send."""
    before = len(host.dead_letters("celery"))
    host.python(
        "import celery_shop\n"
        "with celery_shop.app.connection_for_write() as connection:\n"
        "    producer = connection.Producer()\n"
        f"    producer.publish({body!r}, routing_key='celery', headers={headers!r},"
        " content_type='application/json', content_encoding='utf-8', serializer=None)\n"
    )
    host.wait(lambda: len(host.dead_letters("celery")) > before)
    return host.dead_letters("celery")[-1]


def test_a_dead_letter_is_replayed_once_through_celery_and_its_history_is_kept(host):
    send(host, "fixed", "again")
    (letter,) = host.wait(lambda: letters_of(host, "again"))
    replay = f"import celery_shop; print(celery_shop.failures.replay('celery', {letter.dead_letter_id!r}))"
    host.python(replay)
    (second,) = host.wait(lambda: [each for each in letters_of(host, "again") if each.replays])
    assert (second.replays, second.history["replayed_from"]) == (1, letter.dead_letter_id)
    assert dict_of(second)["id"] == dict_of(letter)["id"]
    host.server.call("SET", "fixed:again", 1)
    host.python(replay.replace(letter.dead_letter_id, second.dead_letter_id))
    host.wait(lambda: host.events("again", "done"))
    assert letters_of(host, "again") == []


def test_a_message_that_could_not_be_read_is_not_sent_again(host):
    letter = published(host, "{ no json", {})
    said = host.python(
        "import celery_shop\n"
        f"try: celery_shop.failures.replay('celery', {letter.dead_letter_id!r})\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    assert said.startswith("UsageError this message could not be read")
    assert letter.dead_letter_id in [each.dead_letter_id for each in host.dead_letters("celery")]


def test_nothing_of_ours_in_the_log_shows_a_secret_of_a_task(host):
    send(host, "permanent", "logged")
    host.wait(lambda: letters_of(host, "logged"))
    lines = host.log.read_text().splitlines()
    ours = [line for line in lines if "reprieve" in line or "dead-lettered" in line]
    assert any("dead-lettered (non_retryable)" in line for line in ours)
    assert "hunter2" not in "\n".join(ours)
