"""The suite for senders, on Slack: a workspace that keeps what is posted and shows it with its metadata."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import count

from reprieve.senders import Slack
from reprieve.testing import FlakyHTTP, HangUp, Rig, SenderSuite, Stall, Trouble, json_reply, replies
from reprieve.testing.acts import OK

CREDENTIAL = "xo" + "xb-" + "2" * 12 + "-" + "t" * 24
POST, HISTORY = "/api/chat.postMessage", "/api/conversations.history"
FAULTS = {Trouble.REFUSES: replies.slack.channel_not_found(), Trouble.DROPS: HangUp(), Trouble.SILENT: Stall()}


class Workspace(FlakyHTTP):
    """Keeps messages before it answers."""

    def __init__(self):
        super().__init__()
        self.messages, self.numbers = [], count(1)

    def arrived(self, token):
        return [body for body, message in self.messages if message["metadata"]["event_payload"]["token"] == token]

    def _perform(self, wire, request, act):
        if request.path == POST and act is not FAULTS[Trouble.REFUSES]:
            message = json.loads(request.body) | {"ts": f"1700000000.{next(self.numbers):06}"}
            self.messages.append((request.body, message))
            act = json_reply({"ok": True, "channel": message["channel"], "ts": message["ts"]}) if act is OK else act
        elif request.path == HISTORY and act is OK:
            shown = [message for _, message in self.messages]
            act = json_reply({"ok": True, "messages": shown, "has_more": False})
        return super()._perform(wire, request, act)


class TestSlack(SenderSuite):
    @contextmanager
    def provider(self, trouble):
        with Workspace() as workspace:
            if trouble in FAULTS:
                workspace.always(FAULTS[trouble])
            elif trouble is Trouble.HIDES:
                workspace.always(replies.slack.internal_error(), path=HISTORY)
            url = workspace.url("/api/")
            if trouble is Trouble.UNREACHABLE:
                workspace.stop()
            yield Rig(
                sender=lambda: Slack(CREDENTIAL, base_url=url),
                recipient="slack:C024BE91L",
                arrived=workspace.arrived,
                secrets=(CREDENTIAL,),
            )
