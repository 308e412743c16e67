"""The suite for senders: a good one passes, and every way to be wrong is found and named."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from reprieve.errors import Permanent, UsageError
from reprieve.senders import Answer, Capability, Found, Phase
from reprieve.testing import Rig, Trouble, check_sender
from reprieve.testing.sending import checks

SECRET = "pigeon-" + "s" * 20


class Loft:
    """A provider of carrier pigeons, and its trouble."""

    def __init__(self, trouble):
        self.trouble, self.messages = trouble, {}


class Pigeon:
    """A sender as it should be."""

    name = "pigeon"
    capability = Capability(looks_up=True, send_timeout=5.0)
    numbers = itertools.count(1)

    def __init__(self, loft):
        self.loft = loft

    def address(self, recipient):
        channel, _, who = recipient.partition(":")
        if channel != "pigeon" or not who.isalnum():
            raise UsageError("a recipient is pigeon: and a name")
        return recipient.lower()

    def reach(self, outgoing, phase):
        outgoing.reached(phase)

    async def send(self, outgoing):
        self.reach(outgoing, Phase.BEFORE)
        if self.loft.trouble is Trouble.UNREACHABLE:
            raise ConnectionRefusedError("no pigeons")
        self.reach(outgoing, Phase.DURING)
        if self.loft.trouble is Trouble.REFUSES:
            self.reach(outgoing, Phase.REJECTED)
            raise Permanent("too heavy", error_class="RECIPIENT_INVALID")
        body = self.body(outgoing)
        self.loft.messages.setdefault(outgoing.token, []).append(body)
        await self.after(outgoing)
        return f"ring-{outgoing.token}"

    def body(self, outgoing):
        return json.dumps([outgoing.message.text, dict(outgoing.message.data), outgoing.prepared_at]).encode()

    async def after(self, outgoing):
        match self.loft.trouble:
            case Trouble.DROPS:
                raise ConnectionResetError("a hawk")
            case Trouble.SILENT:
                await asyncio.sleep(3600)

    async def look_up(self, question):
        if self.loft.trouble in {Trouble.HIDES, Trouble.UNREACHABLE}:
            raise ConnectionRefusedError("nobody at the loft")
        found = question.token in self.loft.messages
        return Answer(found=Found.FOUND if found else Found.ABSENT)

    async def close(self):
        pass


def provider(kind, **options):
    @contextmanager
    def make(trouble):
        loft = Loft(trouble)
        yield Rig(
            sender=lambda: kind(loft),
            recipient="pigeon:Ada",
            arrived=lambda token: loft.messages.get(token, []),
            **options,
        )

    return make


def test_a_good_sender_passes_everything():
    assert check_sender(provider(Pigeon, secrets=(SECRET,))) == ()


def test_what_could_not_be_tried_is_told():
    assert check_sender(provider(Pigeon)) == ("check_secrets: no secrets are named",)


def test_a_provider_that_cannot_be_made_to_fail_is_skipped():
    whole = provider(Pigeon)

    def make(trouble):
        if trouble in {Trouble.DROPS, Trouble.SILENT}:
            raise NotImplementedError
        return whole(trouble)

    skipped = check_sender(make)
    assert [line.partition(":")[0] for line in skipped] == [
        "check_drop",
        "check_timeout",
        "check_cancellation",
        "check_secrets",
    ]
    assert "cannot be made to be drops" in skipped[0]


def test_a_sender_that_tells_no_phase_is_assumed_to_have_got_as_far_as_it_may_have():
    class Quiet(Pigeon):
        def reach(self, outgoing, phase):
            pass

    check_sender(provider(Quiet))


class Nameless(Pigeon):
    name = "my pigeon!"


class Restless(Pigeon):
    def __init__(self, loft):
        super().__init__(loft)
        self.name = f"pigeon-{next(self.numbers)}"


class Hasty(Pigeon):
    capability = Capability(send_timeout=0.0)


class Forgetful(Pigeon):
    capability = Capability(looks_up=True, lag=60.0, retention=30.0)


class Vague(Pigeon):
    capability = {"looks_up": True}  # noqa: RUF012 - it is meant to be wrong


class Blocking(Pigeon):
    def close(self):
        pass


class Lax(Pigeon):
    def address(self, recipient):
        return f"pigeon:{recipient}"


class Trusting(Pigeon):
    def address(self, recipient):
        return recipient if ":" in recipient else f"pigeon:{recipient}"


class Rude(Pigeon):
    def address(self, recipient):
        channel, name = recipient.split(":")
        return {"pigeon": f"pigeon:{name}"}[channel]


class Mute(Pigeon):
    async def send(self, outgoing):
        await super().send(outgoing)


class Twice(Pigeon):
    async def send(self, outgoing):
        await super().send(outgoing)
        return await super().send(outgoing)


class Dated(Pigeon):
    def body(self, outgoing):
        return super().body(outgoing) + str(next(self.numbers)).encode()


class Single(Pigeon):
    async def send(self, outgoing):
        await super().send(outgoing)
        return "the pigeon"


class Sure(Pigeon):
    async def look_up(self, question):
        return Answer(found=Found.FOUND)


class Blind(Pigeon):
    async def look_up(self, question):
        return Answer(found=Found.ABSENT)


class BlindAndWithoutLookUp(Blind):
    capability = Capability()


class Renaming(Pigeon):
    async def look_up(self, question):
        answer = await super().look_up(question)
        return Answer(found=answer.found, notification_id="another")


class Guessing(Pigeon):
    async def look_up(self, question):
        try:
            return await super().look_up(question)
        except ConnectionError:
            return Answer(found=Found.ABSENT)


class Wordless(Pigeon):
    async def look_up(self, question):
        return True


class Swallowing(Pigeon):
    async def send(self, outgoing):
        try:
            return await super().send(outgoing)
        except (ConnectionError, Permanent):
            return "surely"


class Certain(Pigeon):
    async def after(self, outgoing):
        outgoing.reached(Phase.REJECTED)
        await super().after(outgoing)


class Late(Pigeon):
    def reach(self, outgoing, phase):
        if phase is not Phase.DURING:
            super().reach(outgoing, phase)


class Sleeping(Pigeon):
    async def after(self, outgoing):
        if self.loft.trouble is Trouble.SILENT:
            time.sleep(0.6)  # noqa: ASYNC251 - it is meant to be wrong
        await super().after(outgoing)


class Stubborn(Pigeon):
    async def after(self, outgoing):
        try:
            await super().after(outgoing)
        except asyncio.CancelledError:
            return


class Once(Pigeon):
    closed = False

    async def close(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class Settled(Pigeon):
    loop = None

    async def send(self, outgoing):
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return await super().send(outgoing)


class Talkative(Pigeon):
    async def after(self, outgoing):
        if self.loft.trouble is Trouble.DROPS:
            raise ConnectionResetError(f"refused {SECRET}")
        await super().after(outgoing)


class Chatty(Pigeon):
    async def look_up(self, question):
        logging.getLogger("pigeon").debug("asking with %s", SECRET)
        return await super().look_up(question)


@pytest.mark.parametrize(
    ("kind", "check", "message"),
    [
        (Nameless, checks.check_record, "the name of a sender has letters"),
        (Restless, checks.check_record, "different names"),
        (Hasty, checks.check_record, "send_timeout is not above 0"),
        (Forgetful, checks.check_record, "retention is over before lag"),
        (Vague, checks.check_record, "its capability is a dict"),
        (Blocking, checks.check_methods, "close is not an `async def`"),
        (Lax, checks.check_address, "the normal form of .* is another one"),
        (Trusting, checks.check_address, "'' is taken for a recipient"),
        (Rude, checks.check_address, "is refused by ValueError, not UsageError"),
        (Mute, checks.check_send, "send returned None"),
        (Twice, checks.check_send, "one send, and 2 messages"),
        (Dated, checks.check_same_bytes, "tries of one message differ"),
        (Single, checks.check_together, "two messages have the same id"),
        (Sure, checks.check_look_up, "what was never sent is found"),
        (Blind, checks.check_look_up, "what was sent is absent"),
        (BlindAndWithoutLookUp, checks.check_look_up, "it cannot look up, and answers absent"),
        (Renaming, checks.check_look_up, "another id of the message"),
        (Wordless, checks.check_look_up, "answers a bool, not an Answer"),
        (Guessing, checks.check_failing_look_up, "did not say, and the answer is absent"),
        (Guessing, checks.check_unreachable, "the answer of a look-up is absent"),
        (Swallowing, checks.check_unreachable, "nobody is there, and send returned 'surely'"),
        (Swallowing, checks.check_refusal, "refused it, and send returned 'surely'"),
        (Swallowing, checks.check_drop, "no answer came, and send returned 'surely'"),
        (Certain, checks.check_drop, "the phase is rejected: it would be sent again, or given up"),
        (Late, checks.check_drop, "the phase is before"),
        (Late, checks.check_timeout, "the phase is before"),
        (Sleeping, checks.check_timeout, "holds up the event loop"),
        (Stubborn, checks.check_timeout, "no answer came, and send returned"),
        (Stubborn, checks.check_cancellation, "swallows its cancellation"),
        (Once, checks.check_close, "closed already"),
        (Settled, checks.check_close, "attached to a different loop"),
        (Talkative, checks.check_secrets, "when the provider is drops"),
        (Chatty, checks.check_secrets, "a secret is in an error or a log"),
    ],
)
def test_each_way_to_be_wrong_is_found_and_named(kind, check, message):
    with pytest.raises((AssertionError, RuntimeError), match=message):
        check(provider(kind, secrets=(SECRET,)))


def test_everything_that_is_wrong_is_told_at_once():
    class Hopeless(Mute, Guessing, Once):
        name = ""

    with pytest.raises(AssertionError) as caught:
        check_sender(provider(Hopeless))
    told = [line.partition(":")[0] for line in str(caught.value).splitlines() if line.startswith("check_")]
    assert {"check_record", "check_send", "check_failing_look_up", "check_unreachable", "check_close"} <= set(told)


USER_TEST = """
from contextlib import contextmanager

from reprieve.errors import UsageError
from reprieve.senders import Answer, Capability
from reprieve.testing import Rig, SenderSuite, Trouble


class Note:
    name = "note"
    capability = Capability()

    def __init__(self, notes):
        self.notes = notes

    def address(self, recipient):
        if not recipient.removeprefix("note:").isalnum() or not recipient.startswith("note:"):
            raise UsageError("note:name")
        return recipient

    async def send(self, outgoing):
        self.notes.setdefault(outgoing.token, []).append(outgoing.message.text.encode())
        return {result}

    async def look_up(self, question):
        return Answer.unknown()

    async def close(self):
        pass


class TestNote(SenderSuite):
    @contextmanager
    def provider(self, trouble):
        if trouble is not Trouble.NONE:
            raise NotImplementedError
        notes = {{}}
        yield Rig(sender=lambda: Note(notes), recipient="note:ada", arrived=lambda token: notes.get(token, []))
"""


@pytest.mark.parametrize(
    ("result", "outcome"), [("outgoing.token", "8 passed, 7 skipped"), ("''", "2 failed, 6 passed")]
)
def test_it_runs_as_a_class_of_tests_of_a_user(tmp_path, result, outcome):
    (tmp_path / "test_note.py").write_text(USER_TEST.format(result=result))
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert outcome in run.stdout, run.stdout + run.stderr
