"""Upstreams that fail on purpose, for your tests and ours: real sockets on loopback, nothing left behind.

from reprieve.testing import FlakyHTTP, Moment, Reset, replies

with FlakyHTTP() as upstream:
    upstream.next(503, Reset(at=Moment.BODY), replies.openai.insufficient_quota())
    ...
"""

from __future__ import annotations

from reprieve.testing import replies
from reprieve.testing.acts import Drip, HangUp, Moment, Raw, Reply, Reset, Stall, WebSocketClose, json_reply
from reprieve.testing.clock import FakeClock
from reprieve.testing.failures import failure_of
from reprieve.testing.mail import Answer, FlakySMTP, Phase
from reprieve.testing.places import UNRESOLVABLE_HOST, nobody_accepting, nobody_listening
from reprieve.testing.retrying import no_sleep, retry_testing
from reprieve.testing.tls import Certificate, authority_pem, trusting_context
from reprieve.testing.web import FlakyHTTP, Request

__all__ = [
    "UNRESOLVABLE_HOST",
    "Answer",
    "Certificate",
    "Drip",
    "FakeClock",
    "FlakyHTTP",
    "FlakySMTP",
    "HangUp",
    "Moment",
    "Phase",
    "Raw",
    "Reply",
    "Request",
    "Reset",
    "Stall",
    "WebSocketClose",
    "authority_pem",
    "failure_of",
    "json_reply",
    "no_sleep",
    "nobody_accepting",
    "nobody_listening",
    "replies",
    "retry_testing",
    "trusting_context",
]
