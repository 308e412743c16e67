"""`reprieve deliveries`: looking, asking providers, and settling by hand what cannot be known."""

import asyncio
import json
import sys

import pytest

import reprieve

NOTICES = '''
from pathlib import Path

import reprieve
from reprieve.senders import Answer, Capability, Found, Maildir, Phase


class Provider:
    """It has what stands in a file; it takes messages without a word, or refuses them."""

    def __init__(self, name, looks_up):
        self.name, self.capability = name, Capability(looks_up=looks_up, send_timeout=5.0)
        self.file = Path(f"{name}.txt")

    def address(self, recipient):
        return recipient

    async def send(self, outgoing):
        if "nobody" in outgoing.message.recipient:
            outgoing.reached(Phase.REJECTED)
            raise reprieve.Permanent("no such person", error_class="RECIPIENT_INVALID")
        outgoing.reached(Phase.DURING)
        silent = not self.file.exists()
        with self.file.open("a") as file:
            file.write(outgoing.token + "\\\\n")
        if silent:
            raise ConnectionResetError("not a word, password=hunter2hunter2")
        return f"id-{outgoing.token[:4]}"

    async def look_up(self, question):
        has = question.token in self.file.read_text()
        return Answer(found=Found.FOUND if has else Found.ABSENT, notification_id="id-9" if has else None)

    async def close(self):
        pass


notices = reprieve.Pipeline(
    "notices", senders=[Provider("blind", False), Provider("asked", True), Maildir("outgoing")], breaker=None
)


@notices.stage(delivers=True)
async def notify(job: reprieve.Job[dict]) -> int:
    messages = [reprieve.Message(recipient=each, subject="s", text="secret plans") for each in job.payload["to"]]
    return len((await reprieve.deliver(job, messages, via=job.payload["by"])).sent)
'''


@pytest.fixture
def told(command, tmp_path, monkeypatch):
    """Runs `reprieve deliveries ...` where 1 was sent, 2 is held, 3 was refused."""
    (tmp_path / "notices.py").write_text(NOTICES.replace("\\\\n", "\\n"))
    monkeypatch.delitem(sys.modules, "notices", raising=False)
    monkeypatch.setenv("REPRIEVE_APP", "notices")
    work({"by": "maildir", "to": ["maildir:ada"]}, {"by": "blind", "to": ["ben", "nobody"]})
    return lambda *arguments: command("deliveries", *arguments)


def work(*payloads, version=1):
    from notices import notices  # noqa: PLC0415 - there only now

    async def main():
        async with reprieve.connect("sqlite:///reprieve.db") as app, asyncio.timeout(60):
            for number, payload in enumerate(payloads, 1):
                await app.submit(notices, payload, subject=f"cl-{number}", version=version)
            await app.work(notices, until_idle=True)

    asyncio.run(main())


def statuses(told):
    return {row["delivery_id"]: row["status"] for row in told("list", "--json").json}


def test_deliveries_are_listed_the_newest_first_with_why(told):
    done = told("list")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines() if line.split()]
    assert lines[0] == ["id", "status", "recipient", "changelist", "version", "job", "by", "sends", "notified", "why"]
    assert [line[:3] for line in lines[-3:]] == [
        ["3", "failed", "nobody"],
        ["2", "held", "ben"],
        ["1", "sent", "maildir:ada"],
    ]
    assert "can neither be asked" in done.out
    assert "secret plans" not in done.out


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--status", "held"], [2]),
        (["-s", "held", "-s", "failed"], [3, 2]),
        (["--status", "pending"], []),
        (["--job", 2], [3, 2]),
        (["--changelist", "cl-1"], [1]),
        (["--recipient", "ben"], [2]),
        (["--sender", "maildir"], [1]),
        (["--after", 3, "--limit", 1], [2]),
    ],
)
def test_deliveries_can_be_filtered_and_paged(told, options, found):
    assert [row["delivery_id"] for row in told("list", "--json", *options).json] == found


def test_a_page_says_where_the_next_begins_and_an_empty_one_that_it_is(told):
    assert told("list", "-n", 2).out.endswith("more: --after 2\n")
    assert told("list", "--job", 99).out == "no deliveries\n"


def test_one_is_shown_with_all_that_was_tried_what_comes_next_and_no_secret(told):
    done = told("show", 2)
    assert "send 1" in done.out
    assert "CONNECTION_RESET" in done.out
    assert "next: find out whether it was received: reprieve deliveries confirm 2" in done.out
    assert "reprieve deliveries resend 2" in done.out
    shown = told("show", 2, "--json").json
    assert (shown["status"], shown["required"], shown["notified_at"]) == ("held", True, None)
    assert [(entry["kind"], entry["answer"]) for entry in shown["log"]] == [("send", "doubt"), ("sweep", "held")]
    assert "body" not in shown
    for output in (done.out, str(shown), told("show", 3).out):
        assert "hunter2" not in output
        assert "secret plans" not in output
    assert "reprieve dead show job:2" in told("show", 3).out


def test_a_message_is_printed_only_for_who_asks_for_it(told):
    assert '"text":"secret plans"' in told("show", 2, "--body").out


@pytest.mark.parametrize("options", [["show", 4, "--body"], ["list", "--json"]])
def test_what_was_written_by_others_commands_no_terminal_and_reaches_a_file_as_it_is(told, monkeypatch, options):
    odd = "ha\x9b2J\u202e\x7f\U000e0001é"
    work({"by": "asked", "to": [odd]}, version=2)
    assert odd in told(*options).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = told(*options).out
    assert "ha\\u009b2J\\u202e\\u007f\\udb40\\udc01é" in shown
    assert all(each.isprintable() or each == "\n" for each in shown)
    assert odd in json.dumps(json.loads(shown), ensure_ascii=False)


def test_what_was_received_is_confirmed_and_its_job_goes_on(told, command):
    done = told("confirm", 2, "--evidence", "Ben has answered it", "--actor", "eve")
    assert done.code == 0
    assert "Ben has answered it" in done.out
    assert told("show", 2, "--json").json["log"][-1]["actor"] == "eve"
    assert told("confirm", 3, "--evidence", "met him", "--json").json["status"] == "sent"
    work()
    assert command("jobs", "show", 2, "--json").json["status"] == "succeeded"


def test_what_was_not_received_is_sent_again_once(told, tmp_path):
    assert told("resend", 2, "--reason", "the cat ate it", "--actor", "eve").code == 0
    assert statuses(told)[2] == "pending"
    work()
    assert statuses(told)[2] == "sent"
    assert len((tmp_path / "blind.txt").read_text().splitlines()) == 2
    assert [entry["kind"] for entry in told("show", 2, "--json").json["log"]] == ["send", "sweep", "resend", "send"]


def test_what_nobody_needs_is_given_up_and_its_job_is_a_dead_letter(told, command):
    assert told("give-up", 2, "--reason", "outdated").code == 0
    work()
    assert statuses(told)[2] == "failed"
    assert command("dead", "list", "--json").json["dead_letters"][0]["job_id"] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["confirm", 1, "--evidence", "x"], "delivery 1 is sent, and can be confirmed only while it is held or failed"),
        (["resend", 1, "--reason", "x"], "delivery 1 is sent, and can be put back to be sent only while it is held or failed"),
        (["give-up", 3, "--reason", "x"], "delivery 3 is failed, and can be given up only while it is held or pending"),
        (["show", 99], "no delivery is named '99'"),
        (["show", 2**70], "no delivery is named"),
        (["confirm", 0, "--evidence", "x"], "no delivery is named '0'"),
        (["reconcile", 99], "no delivery is named '99'"),
        (["reconcile", 2], "the provider of blind cannot be asked: confirm or resend it by hand"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_one_line_and_nothing_changes(told, arguments, says):
    before = statuses(told)
    done = told(*arguments)
    assert (done.code, done.out) == (1, "")
    assert says in done.err
    assert len(done.err.splitlines()) <= 2
    assert statuses(told) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["confirm", 2], "--evidence"),
        (["resend", 2], "--reason"),
        (["give-up", 2], "--reason"),
        (["list", "--limit", 0], "--limit"),
        (["confirm", 2, "--evidence", " "], "say evidence: it is kept with the delivery"),
        (["resend", 2, "--reason", ""], "say a reason: it is kept with the delivery"),
    ],
)
def test_what_is_missing_or_wrong_is_a_mistake_of_use(told, arguments, says):
    done = told(*arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_a_provider_is_asked_about_one_that_is_marked_and_it_is_sent_where_it_is_missing(told, tmp_path):
    work({"by": "asked", "to": ["cy"]}, version=2)
    (cy,) = told("list", "--recipient", "cy", "--json").json
    assert cy["status"] == "sent"
    assert told("reconcile", cy["delivery_id"]).out == f"delivery {cy['delivery_id']} was sent, and is sent\n"
    assert len((tmp_path / "asked.txt").read_text().splitlines()) == 1
    (tmp_path / "asked.txt").write_text("")
    after = told("reconcile", cy["delivery_id"], "--json").json
    assert (after["before"], after["status"], after["attempts"]) == ("sent", "sent", 2)
    assert (tmp_path / "asked.txt").read_text() == f"{cy['token']}\n"


def test_everything_that_is_due_is_reconciled_at_once(told):
    assert told("reconcile").out == "0 deliveries seen to\n"
    assert told("reconcile", "--json").json == {"looked_at": 0, "given_up": 0, "woken": 0}


def test_who_asks_a_provider_says_where_the_senders_are(told, monkeypatch):
    monkeypatch.delenv("REPRIEVE_APP")
    done = told("reconcile", 1)
    assert done.code == 2
    assert "--app" in done.err
