"""Dramatiq with a real worker: retried when the profile says, dead-lettered once, replayed by the broker."""

import json

import pytest

from support.hosts import check_delays

LATE_SECONDS = 1.2


@pytest.fixture(scope="module")
def host(start_host):
    host = start_host("dramatiq", "dramatiq_shop", "--processes", "1", "--threads", "4", restarts=True)
    send(host, "ok", "ready")
    host.wait(lambda: host.events("ready", "done"))
    return host


def send(host, *kinds_and_keys):
    sends = "".join(
        f"dramatiq_shop.work.send({kind!r}, {key!r});"
        for kind, key in zip(kinds_and_keys[::2], kinds_and_keys[1::2], strict=True)
    )
    host.python(f"import dramatiq_shop; {sends}")


def message_of(letter):
    flat = letter.original
    fields = {flat[at].decode(): flat[at + 1] for at in range(0, len(flat), 2)}
    return json.loads(fields["message"]) if "message" in fields else fields


def letters_of(host, key):
    return [each for each in host.dead_letters("default") if key in message_of(each).get("args", [])]


def test_a_transient_failure_is_retried_after_its_delays_and_dead_lettered_when_the_budget_is_spent(host):
    keys = ["spent 1", "spent 2", "spent 3"]
    send(host, *(word for key in keys for word in ("transient", key)))
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


def test_a_message_that_kills_its_workers_is_dead_lettered_and_its_neighbours_are_not(host):
    send(host, "slow", "beside 1", "poison", "poison", "slow", "beside 2")
    host.wait(lambda: letters_of(host, "poison"))
    for key in ("beside 1", "beside 2"):
        host.wait(lambda key=key: host.events(key, "done"))
        assert letters_of(host, key) == []
    (letter,) = letters_of(host, "poison")
    # The first start was beside others; three more are charged.
    assert host.counts("poison") == {"start": 4}
    assert (letter.error_class, letter.context["origin"], letter.attempts) == ("WORKER_LOST", "crash", 3)
    send(host, "ok", "after")
    host.wait(lambda: host.events("after", "done"))
    host.wait(lambda: not host.server.call("KEYS", "*starts*"))


def test_a_message_for_an_actor_that_is_gone_is_dead_lettered(host):
    host.python(
        "import dramatiq_shop, dramatiq\n"
        "dramatiq_shop.broker.enqueue(dramatiq.Message('default', 'removed', ('gone',), {}, {}))"
    )
    (letter,) = host.wait(lambda: letters_of(host, "gone"))
    assert (letter.error_class, letter.attempts) == ("SCHEMA_INVALID", 0)
    assert "no actor is named 'removed'" in letter.error


def test_a_message_that_cannot_be_decoded_is_dead_lettered_and_the_next_one_is_handled(host):
    host.python("import dramatiq_shop; dramatiq_shop.broker.do_enqueue('default', 'id-1', b'{ no json')")
    send(host, "ok", "next")
    host.wait(lambda: host.events("next", "done"))
    letters = host.wait(lambda: host.dead_letters("default"))
    (letter,) = [each for each in letters if "unreadable" in message_of(each)]
    assert message_of(letter)["unreadable"] == b"{ no json"
    assert host.server.call("HGET", "dramatiq:default.msgs", "id-1") is None


def test_a_dead_letter_is_replayed_once_through_the_broker_and_its_history_is_kept(host):
    send(host, "fixed", "again")
    (letter,) = host.wait(lambda: letters_of(host, "again"))
    call = f"dramatiq_shop.broker.failures.replay('default', {letter.dead_letter_id!r})"
    replay = f"import dramatiq_shop; print({call})"
    assert host.python(replay) == message_of(letter)["message_id"]
    (second,) = host.wait(lambda: [each for each in letters_of(host, "again") if each.replays])
    assert (second.replays, second.history["replayed_from"], second.attempts) == (1, letter.dead_letter_id, 1)
    host.server.call("SET", "fixed:again", 1)
    host.python(replay.replace(letter.dead_letter_id, second.dead_letter_id))
    host.wait(lambda: host.events("again", "done"))
    assert letters_of(host, "again") == []
