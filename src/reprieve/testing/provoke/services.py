"""How the services that are told things fail, through their own libraries, and WebSockets."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.testing import replies
from reprieve.testing.acts import Act, Reply, Reset, Stall, WebSocketClose
from reprieve.testing.provoke.clients import CLIENTS, Call
from reprieve.testing.provoke.stage import IMPATIENT, KEY, PATIENT, Provocation, Stage, library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    MakeAct = Callable[[], Act]


def _slack(url: str, timeout: float) -> None:
    options = {"base_url": f"{url}api/", "timeout": timeout, "retry_handlers": []}
    library("slack_sdk").WebClient(token=KEY, **options).chat_postMessage(channel="C1", text="hello")


def _stripe(url: str, timeout: float) -> None:
    stripe = library("stripe")
    client = stripe.RequestsClient(timeout=timeout)
    try:
        options = {"base_addresses": {"api": url.rstrip("/")}, "max_network_retries": 0, "http_client": client}
        stripe.StripeClient(KEY, **options).v1.customers.create({"email": "someone@example.org"})
    finally:
        client.close()


def _websocket(url: str, timeout: float) -> None:
    connect = library("websockets.sync.client").connect
    with connect(url.replace("http", "ws", 1), open_timeout=timeout, proxy=None) as connection:
        connection.recv(timeout=timeout)


def _github(url: str, timeout: float) -> None:
    with Stage() as stage:
        CLIENTS["httpx"](stage, Call(f"{url}repos/a/b", timeout=timeout))


_SLACK: Final[Mapping[str, MakeAct]] = {
    "channel_not_found": replies.slack.channel_not_found,
    "invalid_auth": replies.slack.invalid_auth,
    "missing_scope": replies.slack.missing_scope,
    "msg_too_long": replies.slack.message_too_long,
    "ratelimited": replies.slack.ratelimited,
    "fatal_error": replies.slack.fatal_error,
    "internal_error": replies.slack.internal_error,
    "reset": Reset,
}
_STRIPE: Final[Mapping[str, MakeAct]] = {
    "card_declined": replies.stripe.card_declined,
    "rate limited": replies.stripe.rate_limited,
    "invalid key": replies.stripe.invalid_key,
    "missing resource": replies.stripe.missing_resource,
    "idempotency mismatch": replies.stripe.idempotency_mismatch,
    "conflict": replies.stripe.conflict,
    "api_error": replies.stripe.api_error,
}
_WEBSOCKETS: Final[Mapping[str, MakeAct]] = {
    "403": partial(Reply, 403),
    "503": partial(Reply, 503, headers={"Retry-After": "7"}),
    "reset": Reset,
    "not HTTP": replies.web.garbage,
    "closed with 1008": partial(WebSocketClose, 1008, "policy"),
    "closed with 1011": partial(WebSocketClose, 1011, "internal error"),
    "closed with 1013": partial(WebSocketClose, 1013, "try again later"),
    "dropped": WebSocketClose,
}
_GITHUB: Final[Mapping[str, MakeAct]] = {
    "rate limit": lambda: replies.github.rate_limit(int(time.time()) + 60),
    "secondary rate limit": replies.github.secondary_rate_limit,
    "forbidden": replies.github.forbidden,
    "bad credentials": replies.github.bad_credentials,
    "validation failed": replies.github.validation_failed,
}


def _play(ask: Callable[[str, float], None], make: MakeAct, timeout: float, stage: Stage) -> None:
    upstream = stage.web()
    upstream.always(make())
    ask(upstream.url("/"), timeout)


def provocations() -> Iterator[Provocation]:
    """Each service's own errors."""
    for name, package, ask, table in (
        ("slack", "slack_sdk", _slack, _SLACK),
        ("stripe", "stripe", _stripe, _STRIPE),
        ("websockets", "websockets", _websocket, _WEBSOCKETS),
        ("github", "httpx", _github, _GITHUB),
    ):
        for situation, make in table.items():
            yield Provocation(name, situation, partial(_play, ask, make, PATIENT), (package,))
    yield Provocation("stripe", "timeout", partial(_play, _stripe, Stall, IMPATIENT))
    yield Provocation("websockets", "timeout", partial(_play, _websocket, Stall, IMPATIENT))
