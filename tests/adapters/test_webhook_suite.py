"""The suite for senders, on webhooks: a receiver that stores what it is sent, and drops what it has already."""

from __future__ import annotations

import base64
from contextlib import contextmanager

from reprieve.senders import Webhook
from reprieve.testing import Answering, FlakyHTTP, HangUp, Rig, SenderSuite, Stall, Trouble, json_reply

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
PASSWORD = "Basic " + base64.b64encode(b"us:" + b"p" * 20).decode()
PATH = "/hook-" + "h" * 20


class Receiver:
    """Takes messages and tells of them, or fails in one way."""

    def __init__(self, trouble):
        self.trouble, self.bodies = trouble, {}

    def arrived(self, token):
        return self.bodies.get(token, [])

    def answer(self, request):
        if request.method == "GET":
            token = request.path.rpartition("/")[2]
            if self.trouble in {Trouble.HIDES, Trouble.SILENT}:
                return 503
            return json_reply({"state": "received", "id": f"r-{token}"}) if self.arrived(token) else 404
        if self.trouble is Trouble.REFUSES:
            return 422
        self.bodies.setdefault(request.idempotency_key, []).append(request.body)
        well = json_reply({"id": f"r-{request.idempotency_key}"}, 202)
        return {Trouble.DROPS: HangUp(), Trouble.SILENT: Stall()}.get(self.trouble, well)


class Common(SenderSuite):
    """A receiver with all that webhooks can have."""

    def options(self, upstream):
        return {"takes_key": 3600.0, "status_url": upstream.url("/status/{token}")}

    @contextmanager
    def provider(self, trouble):
        with FlakyHTTP() as upstream:
            receiver, url, options = Receiver(trouble), upstream.url(PATH), self.options(upstream)
            upstream.always(Answering(receiver.answer))
            if trouble is Trouble.UNREACHABLE:
                upstream.stop()
            yield Rig(
                sender=lambda: Webhook(
                    secret=SECRET, headers={"Authorization": PASSWORD}, allow_private=True, **options
                ),
                recipient=url,
                arrived=receiver.arrived,
                secrets=(SECRET, PASSWORD, PATH),
            )


class TestWithKeyAndStatus(Common):
    pass


class TestWithStatusOnly(Common):
    def options(self, upstream):
        return {"status_url": upstream.url("/status/{token}")}


class TestWithNeither(Common):
    def options(self, upstream):
        return {}
