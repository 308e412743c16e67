"""Upstreams that fail on purpose, for your tests and ours: real sockets on loopback, nothing left behind.

from reprieve.testing import FlakyHTTP, Moment, Reset, replies

with FlakyHTTP() as upstream:
    upstream.next(503, Reset(at=Moment.BODY), replies.openai.insufficient_quota())
    ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.testing import replies
from reprieve.testing.acts import Answering, Drip, HangUp, Moment, Raw, Reply, Reset, Stall, WebSocketClose, json_reply
from reprieve.testing.clock import FakeClock
from reprieve.testing.failures import failure_of
from reprieve.testing.mail import Answer, FlakySMTP, Phase
from reprieve.testing.places import UNRESOLVABLE_HOST, nobody_accepting, nobody_listening
from reprieve.testing.retrying import no_sleep, retry_testing
from reprieve.testing.tls import Certificate, authority_pem, trusting_context
from reprieve.testing.web import FlakyHTTP, Request

if TYPE_CHECKING:
    from reprieve.testing.inline_app import InlineApp, InlineRunner, Outcome, inline, run_inline
    from reprieve.testing.inline_consumer import InlineRun, run_consumer_inline
    from reprieve.testing.sending import Rig, SenderSuite, Trouble, check_sender

_HOME_OF = dict.fromkeys(["InlineApp", "InlineRunner", "Outcome", "inline", "run_inline"], "inline_app")
_HOME_OF |= dict.fromkeys(["InlineRun", "run_consumer_inline"], "inline_consumer")
_HOME_OF |= dict.fromkeys(["Rig", "SenderSuite", "Trouble", "check_sender"], "sending")
"""Loaded when they are first used: they need the database's libraries, and every run of pytest imports this package."""

__all__ = [
    "UNRESOLVABLE_HOST",
    "Answer",
    "Answering",
    "Certificate",
    "Drip",
    "FakeClock",
    "FlakyHTTP",
    "FlakySMTP",
    "HangUp",
    "InlineApp",
    "InlineRun",
    "InlineRunner",
    "Moment",
    "Outcome",
    "Phase",
    "Raw",
    "Reply",
    "Request",
    "Reset",
    "Rig",
    "SenderSuite",
    "Stall",
    "Trouble",
    "WebSocketClose",
    "authority_pem",
    "check_sender",
    "failure_of",
    "inline",
    "json_reply",
    "no_sleep",
    "nobody_accepting",
    "nobody_listening",
    "replies",
    "retry_testing",
    "run_consumer_inline",
    "run_inline",
    "trusting_context",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reprieve.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when a name is first used

    value: object = getattr(import_module(f"reprieve.testing.{home}"), name)
    globals()[name] = value
    return value
