"""The suite for senders, on webhooks: a receiver that stores what it is sent, and drops what it has already."""

from __future__ import annotations

import base64
from contextlib import contextmanager

from reprieve.senders import Webhook
from reprieve.testing import FlakyHTTP, HangUp, Reply, Rig, SenderSuite, Stall, Trouble, json_reply
from reprieve.testing.acts import OK

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
PASSWORD = "Basic " + base64.b64encode(b"us:" + b"p" * 20).decode()
PATH = "/hook-" + "h" * 20
FAULTS = {Trouble.REFUSES: Reply(422, "no"), Trouble.DROPS: HangUp(), Trouble.SILENT: Stall()}


class Receiver(FlakyHTTP):
    """Takes messages and tells of them."""

    def __init__(self):
        super().__init__()
        self.bodies = {}

    def _perform(self, wire, request, act):
        if request.method == "POST":
            refused = act is FAULTS[Trouble.REFUSES]
            if not refused:
                self.bodies.setdefault(request.idempotency_key, []).append(request.body)
            act = json_reply({"id": f"r-{request.idempotency_key}"}, 202) if act is OK else act
        elif act is OK:
            token = request.path.rpartition("/")[2]
            known = token in self.bodies
            act = json_reply({"state": "received", "id": f"r-{token}"}) if known else Reply(404)
        return super()._perform(wire, request, act)


class Common(SenderSuite):
    """A receiver with all that webhooks can have."""

    def options(self, receiver):
        return {"takes_key": 3600.0, "status_url": receiver.url("/status/{token}")}

    @contextmanager
    def provider(self, trouble):
        with Receiver() as receiver:
            options = self.options(receiver)
            if trouble is Trouble.HIDES:
                receiver.always(503)
                receiver.always(OK, path=PATH)
            elif trouble in FAULTS:
                receiver.always(FAULTS[trouble])
            url = receiver.url(PATH)
            if trouble is Trouble.UNREACHABLE:
                receiver.stop()
            yield Rig(
                sender=lambda: Webhook(
                    secret=SECRET, headers={"Authorization": PASSWORD}, allow_private=True, **options
                ),
                recipient=url,
                arrived=lambda token: receiver.bodies.get(token, []),
                secrets=(SECRET, PASSWORD, PATH),
            )


class TestWithKeyAndStatus(Common):
    pass


class TestWithStatusOnly(Common):
    def options(self, receiver):
        return {"status_url": receiver.url("/status/{token}")}


class TestWithNeither(Common):
    def options(self, receiver):
        return {}
