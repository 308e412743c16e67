"""The suite for senders, on Slack: a workspace that keeps what is posted and shows it with its metadata."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count

from reprieve.senders import Slack
from reprieve.testing import Answering, FlakyHTTP, HangUp, Rig, SenderSuite, Stall, Trouble, json_reply, replies

CREDENTIAL = "xo" + "xb-" + "2" * 12 + "-" + "t" * 24


class Workspace:
    """Keeps what is posted and shows it, or fails in one way."""

    def __init__(self, trouble):
        self.trouble, self.messages, self.numbers = trouble, [], count(1)

    def arrived(self, token):
        return [body for body, message in self.messages if message["metadata"]["event_payload"]["token"] == token]

    def answer(self, request):
        if request.path == "/api/conversations.history":
            shown = [message for _, message in self.messages]
            hidden = self.trouble in {Trouble.HIDES, Trouble.SILENT}
            return (
                replies.slack.internal_error()
                if hidden
                else json_reply({"ok": True, "messages": shown, "has_more": False})
            )
        if self.trouble is Trouble.REFUSES:
            return replies.slack.channel_not_found()
        message = request.json() | {"ts": f"1700000000.{next(self.numbers):06}"}
        self.messages.append((request.body, message))
        well = json_reply({"ok": True, "channel": message["channel"], "ts": message["ts"]})
        return {Trouble.DROPS: HangUp(), Trouble.SILENT: Stall()}.get(self.trouble, well)


class TestSlack(SenderSuite):
    @contextmanager
    def provider(self, trouble):
        with FlakyHTTP() as upstream:
            workspace, url = Workspace(trouble), upstream.url("/api/")
            upstream.always(Answering(workspace.answer))
            if trouble is Trouble.UNREACHABLE:
                upstream.stop()
            yield Rig(
                sender=lambda: Slack(CREDENTIAL, base_url=url),
                recipient="slack:C024BE91L",
                arrived=workspace.arrived,
                secrets=(CREDENTIAL,),
            )
