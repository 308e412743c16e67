"""`reprieve streams`: dead letters of Redis Streams from the command line."""

import asyncio
import json
import stat

import pytest

from reprieve.app.redaction import forget_secrets
from support.failed_messages import GROUP, QUEUE, StreamGroup, close_groups

SECRET = "sk-live-abcdefghijklmnop1234567890"


@pytest.fixture(autouse=True)
def _forget_passwords():
    """A password that a URL had is a secret of one test."""
    yield
    forget_secrets("redis")


@pytest.fixture
def on(redis_server):
    """Does something with the group of a test."""

    def act(task):
        async def within():
            try:
                return await task(StreamGroup(redis_server))
            finally:
                await close_groups()

        return asyncio.run(within())

    return act


@pytest.fixture
def streams(command, redis_server, monkeypatch):
    """Runs `reprieve streams ...` on the server of a test."""
    monkeypatch.setenv("REPRIEVE_STREAMS_URL", redis_server.url)
    monkeypatch.setenv("REPRIEVE_ACTOR", "ada")
    return lambda *arguments, **options: command("streams", *arguments, **options)


@pytest.fixture
def letter(on):
    """The id of a dead letter whose message and error hold a secret."""
    body = json.dumps({"api_key": SECRET, "n": 3})
    return on(lambda group: group.fail("data", body, error=ValueError(f"token={SECRET} is bad")))


@pytest.mark.spec("ORC-4.7")
def test_dead_letters_are_listed_with_the_next_command_under_each(streams, letter):
    heading, row, error, below = streams("list", QUEUE).out.splitlines()
    assert heading.split() == ["id", "group", "service", "class", "failed", "attempts"]
    assert row.split()[:3] == [letter, GROUP, "langgraph"]
    assert error.startswith("  ValueError: ")
    assert below == f"  next: reprieve streams replay {QUEUE} {letter}"


def test_pages_for_machines_say_where_the_next_begins(streams, on):
    for _ in range(3):
        on(lambda group: group.fail())
    page = streams("list", QUEUE, "--json", "--limit", 2).json
    assert len(page["dead_letters"]) == 2
    rest = streams("list", QUEUE, "--json", "--after", page["after"]).json
    assert (len(rest["dead_letters"]), rest["after"]) == (1, None)
    assert "--after" in streams("list", QUEUE, "--limit", 1).out


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--group", GROUP, "--service", "langgraph"], 1),
        (["-g", "other"], 0),
        (["--category", "network"], 0),
        (["--class", "BUG"], 1),
        (["--since", "1h"], 1),
        (["--older-than", "1h"], 0),
    ],
)
def test_dead_letters_are_filtered(streams, letter, options, found):
    assert len(streams("list", QUEUE, "--json", *options).json["dead_letters"]) == found


@pytest.mark.spec("ORC-4.7")
def test_a_dead_letter_is_shown_without_secrets_unless_it_is_asked_for_as_it_is(streams, letter):
    page = streams("show", QUEUE, letter)
    for shown in (
        page,
        streams("show", QUEUE, letter, "--json"),
        streams("list", QUEUE, "--json"),
        streams("stats", QUEUE),
    ):
        assert shown.code == 0
        assert SECRET not in shown.out
    assert '"n": 3' in page.out
    assert f"reprieve streams replay {QUEUE} {letter}" in page.out
    assert SECRET in streams("show", QUEUE, letter, "--raw").out
    assert SECRET in streams("show", QUEUE, letter, "--raw", "--json").json["original_message"]


@pytest.mark.spec("ORC-4.7")
def test_a_replay_is_told_with_its_message_and_a_second_one_is_refused(streams, letter, on):
    done = streams("replay", QUEUE, letter)
    assert done.code == 0
    assert f"dead letter {letter}: given back as message" in done.out
    assert "reprieve streams list" in done.out
    again = streams("replay", QUEUE, letter)
    assert again.code == 1
    assert "was replayed already, by ada as message" in again.err
    assert len(on(lambda group: group.claim())) == 1
    assert "was replayed" in streams("show", QUEUE, letter).out
    assert streams("show", QUEUE, letter, "--json").json["closed"]["actor"] == "ada"


def test_replays_for_machines_are_an_object_and_one_that_is_refused_ends_with_1(streams, letter):
    done = streams("replay", QUEUE, letter, "7-7", "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert [each["dead_letter_id"] for each in found["replayed"]] == [letter]
    assert [each["dead_letter_id"] for each in found["refused"]] == ["7-7"]


@pytest.mark.spec("ORC-4.7")
def test_discarding_needs_a_reason_and_keeps_it(streams, letter):
    assert streams("discard", QUEUE, letter).code == 2
    assert streams("discard", QUEUE, letter, "--reason", " ").code == 2
    assert streams("discard", QUEUE, letter, "--reason", "the project was deleted").out == (
        f"dead letter {letter}: discarded\n"
    )
    assert "the project was deleted" in streams("show", QUEUE, letter).out
    assert streams("list", QUEUE).out == "no dead letters\n"
    assert streams("discard", QUEUE, letter, "--reason", "x").code == 1


def test_a_dead_letter_is_shown_in_lines_with_readable_times(streams, on):
    at = 1_795_030_522.774
    context = {
        "error": "ValueError: bad",
        "attempts_by_origin": {"handler": 2, "crash": 1},
        "evidence": [{"rule": "builtins.ValueError", "link": "ValueError", "field": "type", "value": "ValueError"}],
        "history": {"handler": 2, "first_failure_at": at, "opened_at": at, "last_error_class": "BUG"},
        "stack": 'Traceback (most recent call last):\n  File "shop.py", line 9, in pay\nValueError: bad\n',
    }
    entry = ("original_message", '{"n": "1"}', "error_context", json.dumps(context))
    letter = on(lambda group: group.redis.call("XADD", f"{QUEUE}:dlq", "*", *entry)).decode()
    lines = streams("show", QUEUE, letter).out.splitlines()
    start = lines.index("stack")
    assert lines[start + 1 : start + 4] == context["stack"].splitlines()
    start = lines.index("evidence")
    assert lines[start + 1].split() == ["ValueError", "type", "ValueError", "(builtins.ValueError)"]
    start = lines.index("history")
    assert "T" not in lines[start + 2]
    assert {line.split()[0] for line in lines[start + 1 : start + 5]} == {"handler", "first", "opened", "last"}
    assert sum("2026-11-1" in line for line in lines) == 2
    assert "handler 2, crash 1" in "\n".join(lines)
    assert str(at) not in "\n".join(lines)
    assert "{" not in "\n".join(lines)


def test_context_that_another_program_wrote_is_shown_as_it_is(streams, on):
    context = {"error": "x", "evidence": "none", "history": {"first_failure_at": "soon"}, "stack": ["a", 1]}
    entry = ("original_message", '{"n": "1"}', "error_context", json.dumps(context))
    letter = on(lambda group: group.redis.call("XADD", f"{QUEUE}:dlq", "*", *entry)).decode()
    shown = streams("show", QUEUE, letter)
    assert shown.code == 0
    assert all(word in shown.out for word in ("none", "soon", '["a", 1]'))


def test_a_dead_letter_of_an_integration_names_its_own_replay(streams, on):
    origin = json.dumps({"queue": QUEUE, "id": "7c1e@pay", "group": "celery", "integration": "celery"})
    message = json.dumps({"integration": "celery", "task": "shop.pay"})
    entry = ("original_message", message, "error_context", '{"error": "x"}', "origin", origin)
    found = on(lambda group: group.redis.call("XADD", f"{QUEUE}:dlq", "*", *entry)).decode()
    call = f"failures.replay('{QUEUE}', '{found}')"
    assert f"  next: {call}\n" in streams("list", QUEUE).out
    assert f"  {call}\n" in streams("show", QUEUE, found).out
    refused = streams("replay", QUEUE, found)
    assert (refused.code, call in refused.err) == (1, True)
    skipped = streams("bulk-replay", QUEUE, "--yes")
    assert skipped.code == 1
    assert "1 dead letter of integrations skipped" in skipped.out
    assert streams("adopt", QUEUE).out.splitlines()[:2] == [
        "0 dead letters adopted",
        f"1 dead letter of integrations skipped; each names its replay: reprieve streams list {QUEUE}",
    ]


def test_many_are_replayed_only_when_somebody_is_sure(streams, on):
    for _ in range(3):
        on(lambda group: group.fail())
    asked = streams("bulk-replay", QUEUE)
    assert asked.code == 2
    assert "3 dead letters would be replayed: say --yes" in asked.err
    assert streams("bulk-replay", QUEUE, "--yes", "--rate", "0/s").code == 2
    done = streams("bulk-replay", QUEUE, "--yes", "--rate", "100/s", "--class", "BUG")
    assert (done.code, done.out.splitlines()[0]) == (0, "3 of 3 dead letters replayed")
    assert "nothing to do" in streams("bulk-replay", QUEUE, "--yes").out
    assert len(on(lambda group: group.claim())) == 3


def test_a_bulk_replay_that_leaves_one_out_ends_with_1(streams, on):
    on(lambda group: group.redis.call("XADD", f"{QUEUE}:dlq", "*", "original_message", "null"))
    done = streams("bulk-replay", QUEUE, "--yes", "--json")
    assert done.code == 1
    assert json.loads(done.out)["refused"][0]["why"].endswith("it can only be discarded")


def test_the_export_is_byte_for_byte_and_for_its_owner_alone(streams, letter, on, tmp_path):
    ((_, fields),) = on(lambda group: group.dead_letters())
    done = streams("export", QUEUE, "-o", "week.jsonl")
    assert done.out == "1 dead letter written to week.jsonl\n"
    file = tmp_path / "week.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["original_message"].encode() == fields[1]
    assert streams("export", QUEUE).out == f"{line}\n"
    assert streams("export", QUEUE, "-o", "no/where.jsonl").code == 2


def test_figures_are_shown_for_people_and_machines(streams, letter):
    assert "BUG 1" in streams("stats", QUEUE).out
    (figures,) = streams("stats", QUEUE, "--json", "--window", "7d").json
    assert (figures["depth"], figures["inflow_last_hour"]) == (1, 1)


def test_groups_are_paused_and_resumed(streams, letter):
    assert streams("pause", QUEUE, GROUP, "--reason", "until noon").out == f"{GROUP} of {QUEUE} paused\n"
    assert streams("pause", QUEUE).out == f"{GROUP} of {QUEUE} was paused before\n"
    assert streams("resume", QUEUE).out == f"{GROUP} of {QUEUE} resumed\n"
    assert streams("resume", QUEUE).out == f"{GROUP} of {QUEUE} was not paused\n"
    wrong = streams("pause", QUEUE, "worker")
    assert (wrong.code, "did you mean 'workers'" in wrong.err) == (1, True)
    assert streams("pause", "no:queue").code == 1


def test_dead_letters_are_adopted_once_and_replayed_by_a_worker(streams, command, letter, on):
    done = streams("adopt", QUEUE)
    assert done.out.splitlines()[0] == "1 dead letter adopted"
    assert "reprieve dead list --pipeline stream-dead-letters" in done.out
    assert streams("adopt", QUEUE, "--json").json == {"adopted": 0, "adopted_before": 1, "skipped": 0}
    assert command("dead", "replay", 1, "--cause", "data", "--evidence", "INC-1", "--safe").code == 0
    assert command("work", "--app", "reprieve.operations.stream_adoption", "--until-idle").code == 0
    assert len(on(lambda group: group.claim())) == 1
    assert "replayed" in command("dead", "list", "--pipeline", "stream-dead-letters").out


def test_a_dead_letter_stream_of_the_wrong_type_is_told(streams, on):
    on(lambda group: group.redis.call("SET", f"{QUEUE}:dlq", "x"))
    for arguments in (["list", QUEUE], ["stats", QUEUE], ["show", QUEUE, "1-1"], ["bulk-replay", QUEUE, "-y"]):
        done = streams(*arguments)
        assert done.code == 1
        assert "another program uses that name" in done.err
    refused = streams("replay", QUEUE, "1-1")
    assert (refused.code, "another program" in refused.err) == (1, True)


@pytest.mark.parametrize("wrong", [["list", f"{QUEUE}:dlq"], ["show", QUEUE, "x"], ["list", QUEUE, "--after", "x"]])
def test_a_slip_is_told_with_what_would_be_right(streams, wrong):
    done = streams(*wrong)
    assert done.code == 2
    assert "name its queue" in done.err or "is no id of a dead letter" in done.err


@pytest.mark.spec("ORC-4.2")
def test_a_redis_that_is_away_is_tried_three_times_more_then_told_without_its_password(command):
    done = command("streams", "list", QUEUE, "--redis-url", "redis://ada:hunter2pw@127.0.0.1:1/0")
    assert done.code == 2
    assert done.err.count("trying again") == 3
    assert "System unavailable, try again later: the Redis at 127.0.0.1:1" in done.err
    assert "hunter2pw" not in done.err


def test_a_missing_url_is_told_with_the_ways_to_give_it(command, monkeypatch):
    monkeypatch.delenv("REPRIEVE_STREAMS_URL", raising=False)
    done = command("streams", "list", QUEUE)
    assert done.code == 2
    for way in ("--redis-url", "REPRIEVE_STREAMS_URL", "[streams]"):
        assert way in done.err


def test_settings_name_the_redis_the_queues_and_the_groups(command, redis_server, letter, tmp_path, monkeypatch):
    monkeypatch.delenv("REPRIEVE_STREAMS_URL", raising=False)
    (tmp_path / "reprieve.toml").write_text(
        f'[streams]\nurl = "{redis_server.url}"\nqueues = ["{QUEUE}"]\ngroups = ["other"]\n[critic]\noff = []\n'
    )
    assert letter in command("streams", "list").out
    assert "none of the groups in [streams]; it has: workers" in command("streams", "pause", QUEUE).err
    monkeypatch.setenv("REPRIEVE_STREAMS_QUEUES", "a, b")
    assert command("streams", "list").out == "no dead letters\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[streams]\nurls = 3", "did you mean 'url'"),
        ("[streams]\nurl = 3", "streams.url"),
        ("[streams]\nqueues = 'a'", "streams.queues"),
        ("streams = 3", "is a section"),
        ("[streams", "is not TOML"),
    ],
)
def test_a_wrong_setting_is_told(command, tmp_path, monkeypatch, text, told):
    monkeypatch.delenv("REPRIEVE_STREAMS_URL", raising=False)
    (tmp_path / "reprieve.toml").write_text(text)
    done = command("streams", "list", QUEUE)
    assert done.code == 2
    assert told in done.err
    assert command("streams", "list", QUEUE, "--settings", "no.toml").code == 2


def test_what_a_message_holds_cannot_drive_a_terminal(streams, on):
    letter = on(lambda group: group.fail("a\x1b[2J", "b\x1b]0;title\x07", error=ValueError("x\x1b[31m")))
    for shown in (streams("show", QUEUE, letter), streams("list", QUEUE), streams("export", QUEUE)):
        assert "\x1b" not in shown.out


def test_review_settings_leave_the_section_of_streams_alone(command, tmp_path):
    (tmp_path / "reprieve.toml").write_text('[streams]\nqueues = ["a"]\n')
    from reprieve.review.settings import load  # noqa: PLC0415 - an extra

    assert load(repository=str(tmp_path), folder=tmp_path).facts
