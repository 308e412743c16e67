"""Messages as files: there whole or not at all, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import mailbox
import os
import random
import signal
import stat
import subprocess
import sys
import time
from email import policy
from pathlib import Path

import pytest

from reprieve.adapters.maildir import Maildir
from reprieve.core.delivery import Found, Phase
from reprieve.errors import UsageError
from reprieve.ports.sending import Message, Outgoing, Question

ADA = "mailto:ada@example.org"


def outgoing(token="token", phases=None, **content):
    message = Message(**({"recipient": ADA, "subject": "A review", "text": "All is well."} | content))
    reached = (lambda _: None) if phases is None else phases.append
    return Outgoing(message=message, token=token, timeout=20.0, prepared_at=1_700_000_000.0, reached=reached)


def look_up(sender, token="token", recipient=ADA):
    question = Question(recipient=recipient, token=token, notification_id=None, since=0.0, timeout=20.0)
    return asyncio.run(sender.look_up(question))


def files(path):
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def test_a_message_is_there_for_any_mail_program(tmp_path):
    sender, phases = Maildir(tmp_path / "mail", sender="Reviews <reviews@example.org>"), []
    notification_id = asyncio.run(sender.send(outgoing(phases=phases, subject="Grüße", html="<p>Well.</p>")))
    assert phases == [Phase.BEFORE, Phase.DURING]
    assert files(tmp_path / "mail") == [f"ada@example.org/new/{notification_id}"]
    (message,) = mailbox.Maildir(tmp_path / "mail/ada@example.org", factory=None)
    assert (message["To"], message["Message-ID"]) == ("<ada@example.org>", "<token@example.org>")
    content = (tmp_path / "mail/ada@example.org/new" / notification_id).read_bytes()
    assert b"\r" not in content
    parsed = mailbox.email.message_from_bytes(content, policy=policy.default)
    assert (parsed["Subject"], parsed.get_body(("plain",)).get_content().strip()) == ("Grüße", "All is well.")


def test_a_look_up_finds_it_unread_read_and_flagged_and_denies_what_is_not_there(tmp_path):
    sender = Maildir(tmp_path)
    assert look_up(sender).found is Found.ABSENT
    name = asyncio.run(sender.send(outgoing()))
    unread = look_up(sender)
    assert (unread.found, unread.notification_id) == (Found.FOUND, name)
    assert unread.sent_at == pytest.approx(time.time(), abs=3600)
    program = mailbox.Maildir(tmp_path / "ada@example.org", factory=None)
    (key,) = program.keys()
    message = program[key]
    message.set_subdir("cur")
    for flags in ("", "S", "RS"):
        message.set_flags(flags)
        program[key] = message
        read = look_up(sender)
        assert (read.found, read.notification_id) == (Found.FOUND, name)
        assert "cur/" in read.evidence
    assert look_up(sender, token="toke").found is Found.ABSENT
    assert look_up(sender, token="token2").found is Found.ABSENT
    assert look_up(sender, recipient="mailto:eve@example.org").found is Found.ABSENT


def test_a_name_that_another_program_has_added_to_is_known(tmp_path):
    sender = Maildir(tmp_path)
    name = asyncio.run(sender.send(outgoing()))
    box = tmp_path / "ada@example.org"
    (box / "new" / name).rename(box / "cur" / f"{name},U=7:2,S")
    assert look_up(sender).found is Found.FOUND


def test_two_copies_are_shown(tmp_path):
    sender = Maildir(tmp_path)
    name = asyncio.run(sender.send(outgoing()))
    box = tmp_path / "ada@example.org"
    (box / "cur" / f"{name}:2,S").write_bytes((box / "new" / name).read_bytes())
    assert look_up(sender).found is Found.DUPLICATE


def test_what_cannot_be_looked_at_is_not_denied(tmp_path):
    (tmp_path / "ada@example.org").mkdir()
    (tmp_path / "ada@example.org" / "cur").write_text("not a folder")
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system takes for right
        look_up(Maildir(tmp_path))


def test_the_same_delivery_again_is_the_same_file(tmp_path):
    sender = Maildir(tmp_path)
    first = asyncio.run(sender.send(outgoing()))
    content = (tmp_path / "ada@example.org/new" / first).read_bytes()
    assert asyncio.run(sender.send(outgoing())) == first
    assert files(tmp_path) == [f"ada@example.org/new/{first}"]
    box = tmp_path / "ada@example.org"
    (box / "new" / first).rename(box / "cur" / f"{first}:2,S")
    assert asyncio.run(Maildir(tmp_path).send(outgoing())) == first
    assert files(tmp_path) == [f"ada@example.org/cur/{first}:2,S"]
    assert (box / "cur" / f"{first}:2,S").read_bytes() == content


def test_many_senders_of_the_same_deliveries_leave_one_file_each(tmp_path):
    senders = [Maildir(tmp_path) for _ in range(4)]

    async def run():
        await asyncio.gather(*(sender.send(outgoing(f"token-{n}")) for n in range(25) for sender in senders))

    asyncio.run(run())
    assert files(tmp_path) == sorted(f"ada@example.org/new/reprieve.token-{n}" for n in range(25))


def test_others_cannot_read_it(tmp_path):
    sender = Maildir(tmp_path / "mail")
    name = asyncio.run(sender.send(outgoing()))
    for path in (tmp_path / "mail/ada@example.org", tmp_path / "mail/ada@example.org/new" / name):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize(
    ("recipient", "normal", "folder"),
    [
        ("mailto:Ada@Example.org", "mailto:ada@example.org", "ada@example.org"),
        ("ada@example.org", "mailto:ada@example.org", "ada@example.org"),
        ("maildir:Ada", "maildir:ada", "ada"),
        ("MAILDIR:team.reviews+x", "maildir:team.reviews+x", "team.reviews+x"),
        ("mailto:a%2F..%2Fb@example.org", None, None),
        ("mailto:a%2Fb@example.org", "mailto:a%2Fb@example.org", "a%2Fb@example.org"),
        ("mailto:50%25@example.org", "mailto:50%25@example.org", "50%25@example.org"),
        ("jörg@example.org", "mailto:jörg@example.org", "j%C3%B6rg@example.org"),
    ],
)
def test_a_recipient_has_one_form_and_one_folder_below_the_path(tmp_path, recipient, normal, folder):
    sender = Maildir(tmp_path / "mail")
    if normal is None:
        with pytest.raises(UsageError):
            sender.address(recipient)
        return
    assert sender.address(recipient) == normal == sender.address(normal)
    asyncio.run(sender.send(outgoing(recipient=recipient)))
    assert [each.name for each in (tmp_path / "mail").iterdir()] == [folder]
    assert look_up(sender, recipient=normal).found is Found.FOUND


@pytest.mark.parametrize(
    "recipient", ["maildir:", "maildir:..", "maildir:.ssh", "maildir:a/b", "maildir:a..b", "maildir:a.", "maildir:a\nb", "maildir:ä",
                  "maildir:" + "a" * 101, "maildir:a:b", "slack:C024BE91L", "https://example.org/hook", "ada", "maildir:a\0"]
)  # fmt: skip
def test_a_recipient_that_is_not_safe_is_refused(tmp_path, recipient):
    with pytest.raises(UsageError):
        Maildir(tmp_path).address(recipient)


def test_long_addresses_and_tokens_still_make_names(tmp_path):
    sender = Maildir(tmp_path)
    recipient, token = f"{'ö/' * 20}x@{'long-label-of-a-domain.' * 8}org", "t/" * 400
    name = asyncio.run(sender.send(outgoing(token, recipient=recipient)))
    assert look_up(sender, token, recipient).notification_id == name
    assert look_up(sender, token + "x", recipient).found is Found.ABSENT


CUT_OFF = """
import asyncio, resource, sys
from reprieve.adapters.maildir import Maildir
from reprieve.ports.sending import Message, Outgoing

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
message = Message(recipient="mailto:ada@example.org", subject="A review", text="word " * 1000)
outgoing = Outgoing(message=message, token="token", timeout=20.0, prepared_at=1_700_000_000.0, reached=print)
try:
    asyncio.run(Maildir(sys.argv[1]).send(outgoing))
except OSError as error:
    print(error.strerror)
"""


def test_a_disk_that_takes_no_more_leaves_nothing_and_is_known_to(tmp_path):
    command = [sys.executable, "-c", CUT_OFF, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["before", "File too large"]
    assert files(tmp_path) == []


KILLED_BETWEEN = """
import asyncio, os, signal, sys
from reprieve.adapters.maildir import Maildir
from reprieve.core.delivery import Phase
from reprieve.ports.sending import Message, Outgoing

def reached(phase):
    if phase is Phase.DURING:
        os.kill(os.getpid(), signal.SIGKILL)

message = Message(recipient="mailto:ada@example.org", subject="A review", text="All is well.")
outgoing = Outgoing(message=message, token="token", timeout=20.0, prepared_at=1_700_000_000.0, reached=reached)
asyncio.run(Maildir(sys.argv[1]).send(outgoing))
"""


def test_killed_between_writing_and_showing_it_nothing_is_there_and_it_can_be_sent_again(tmp_path):
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED_BETWEEN, str(tmp_path)], timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL
    sender = Maildir(tmp_path)
    assert look_up(sender).found is Found.ABSENT
    assert list(mailbox.Maildir(tmp_path / "ada@example.org", factory=None)) == []
    asyncio.run(sender.send(outgoing()))
    assert len(mailbox.Maildir(tmp_path / "ada@example.org", factory=None)) == 1
    assert look_up(sender).found is Found.FOUND


KILLED_ANYWHERE = """
import asyncio, sys
from reprieve.adapters.maildir import Maildir
from reprieve.ports.sending import Message, Outgoing

async def main():
    sender = Maildir(sys.argv[1])
    message = Message(recipient="mailto:ada@example.org", subject="A review", text="word " * 50_000 + "the end")
    for number in range(10_000):
        print(number, flush=True)
        await sender.send(
            Outgoing(message=message, token=f"token-{number}", timeout=20.0, prepared_at=1.7e9, reached=lambda _: None)
        )

asyncio.run(main())
"""


def test_killed_anywhere_each_message_is_whole_and_there_once_or_not_at_all(tmp_path):
    draw = random.Random(5)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED_ANYWHERE, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            for _ in range(draw.randrange(1, 12)):
                process.stdout.readline()
            time.sleep(draw.random() / 100)
            os.kill(process.pid, signal.SIGKILL)
    sender = Maildir(tmp_path)
    shown = list((tmp_path / "ada@example.org/new").iterdir())
    reference = asyncio.run(_sent_elsewhere(tmp_path / "elsewhere"))
    assert shown
    for path in shown:
        assert path.read_bytes() == reference.replace(b"token-0", path.name.removeprefix("reprieve.").encode())
    for number in range(30):
        asyncio.run(sender.send(outgoing(f"token-{number}", text="word " * 50_000 + "the end")))
    assert len(list((tmp_path / "ada@example.org/new").iterdir())) == 30


async def _sent_elsewhere(path):
    name = await Maildir(path).send(outgoing("token-0", text="word " * 50_000 + "the end"))
    return (Path(path) / "ada@example.org/new" / name).read_bytes()
