"""Those who tell people things or take money: slack, stripe, twilio, sendgrid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import slack_sdk
import stripe
from sendgrid import SendGridAPIClient
from sendgrid.helpers.mail import Mail
from slack_sdk.web.async_client import AsyncWebClient
from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    POLICY,
    RATE_LIMIT,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    secret,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

SLACK: Final = secret("xo", "xb-", "123456789012-", "AbCdEfGhIjKlMnOpQrStUvWx")
STRIPE: Final = secret("sk_", "te", "st_", "51Audit9Zy8Xw7Vu6Ts5Rq4Po3Nm2Lk1")
SENDGRID: Final = secret("SG", ".auditaudit0123456789Ab", ".0123456789abcdefghijklmnopqrstuvwxyzABCDEFG")
TWILIO: Final = (secret("AC", "0123456789abcdef", "0123456789abcdef"), secret("fedcba9876543210", "fedcba9876543210"))
MONEY: Final = RATE_LIMIT | AUTH | POLICY | CONFIGURATION | VALIDATION
PEOPLE: Final = NOT_FOUND | VALIDATION | AUTH


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _slack()
    yield from _stripe()
    yield from _twilio()
    yield from _sendgrid()


def post(lab: Lab, status: int, body: object, headers: dict[str, str] | None = None) -> object:
    """Post a message to Slack."""
    client = slack_sdk.WebClient(
        SLACK, base_url=lab.http.url(status, headers, body) + "/", retry_handlers=[], timeout=5
    )
    return client.chat_postMessage(channel="C1", text="a review is ready")


async def post_async(lab: Lab, status: int, body: object, headers: dict[str, str] | None = None) -> object:
    """Post a message to Slack, awaited."""
    url = lab.http.url(status, headers, body) + "/"
    return await AsyncWebClient(SLACK, base_url=url, retry_handlers=[], timeout=5).chat_postMessage(
        channel="C1", text="x"
    )


WORDS: Final[dict[str, tuple[bool, Any, str]]] = {
    "invalid_auth": (False, AUTH, "CRIT-1.6"),
    "not_authed": (False, AUTH, "CRIT-1.6"),
    "token_revoked": (False, AUTH, "CRIT-1.6"),
    "token_expired": (False, AUTH, "CRIT-1.6"),
    "account_inactive": (False, AUTH, "CRIT-1.6"),
    "missing_scope": (False, AUTH, "CRIT-1.6"),
    "not_allowed_token_type": (False, AUTH, "CRIT-1.6"),
    "channel_not_found": (False, NOT_FOUND, "a deleted destination channel: CRIT-1.7"),
    "is_archived": (False, NOT_FOUND, "a permanent state of the destination: CRIT-1.7"),
    "user_not_found": (False, NOT_FOUND, "CRIT-1.7"),
    "not_in_channel": (False, AUTH | NOT_FOUND | CONFIGURATION, "someone has to invite it"),
    "no_text": (False, VALIDATION, "CRIT-1.5"),
    "msg_too_long": (False, VALIDATION, "CRIT-1.5"),
    "invalid_blocks": (False, VALIDATION, "CRIT-1.5"),
    "invalid_arguments": (False, VALIDATION, "CRIT-1.5"),
    "restricted_action": (False, POLICY | AUTH, "a deny policy: CRIT-1.8"),
    "access_denied": (False, AUTH, "CRIT-1.6"),
    "no_permission": (False, AUTH, "CRIT-1.6"),
    "message_not_found": (False, NOT_FOUND, "CRIT-1.7"),
    "unknown_method": (False, CONFIGURATION | VALIDATION | NOT_FOUND, "a wrong call"),
    "invalid_form_data": (False, VALIDATION, "CRIT-1.5"),
    "ratelimited": (True, RATE_LIMIT, "CRIT-1.2"),
    "rate_limited": (True, RATE_LIMIT, "CRIT-1.2"),
    "internal_error": (True, UPSTREAM, "CRIT-1.3"),
    "fatal_error": (True, UPSTREAM, "CRIT-1.3"),
    "service_unavailable": (True, AWAY, "CRIT-1.1"),
    "request_timeout": (True, AWAY, "CRIT-1.1"),
}


def _slack() -> Iterator[Case]:
    for word, (retryable, categories, reason) in WORDS.items():
        for name, run in (("slack", post), ("slack awaited", post_async)):
            if name == "slack" or word in {"invalid_auth", "ratelimited", "channel_not_found"}:
                yield Case(
                    label=f"{name} 200 {word}",
                    library="slack_sdk",
                    provoke=lambda lab, run=run, word=word: run(lab, 200, {"ok": False, "error": word}),
                    retryable=retryable,
                    categories=categories,
                    reason=f"notes: ok:false may be HTTP 200; {reason}",
                )
    limited = {"ok": False, "error": "ratelimited"}
    for name, run in (("slack", post), ("slack awaited", post_async)):
        yield retry(
            "slack_sdk", f"{name} 429", lambda lab, run=run: run(lab, 429, limited, {"Retry-After": "30"}), RATE_LIMIT,
            "CRIT-1.2", retry_after=30.0,
        )  # fmt: skip
        yield retry(
            "slack_sdk",
            f"{name} 503 that is a page",
            lambda lab, run=run: run(lab, 503, b"<html>down</html>"),
            AWAY,
            "CRIT-1.1",
        )
        yield retry(
            "slack_sdk",
            f"{name} 500",
            lambda lab, run=run: run(lab, 500, {"ok": False, "error": "internal_error"}),
            UPSTREAM,
            "CRIT-1.3",
        )
    dead = slack_sdk.WebClient(SLACK, base_url="http://127.0.0.1:9/", retry_handlers=[], timeout=2)
    yield retry("slack_sdk", "slack refused", lambda _: dead.api_test(), NETWORK, "CRIT-1.1")
    yield retry(
        "slack_sdk", "slack timeout",
        lambda lab: slack_sdk.WebClient(SLACK, base_url=lab.http.broken("silent") + "/", retry_handlers=[], timeout=0.05).api_test(),
        NETWORK, "CRIT-1.1",
    )  # fmt: skip
    yield stop(
        "slack_sdk", "slack without a channel", lambda _: dead.chat_postMessage(), CONFIGURATION | VALIDATION, "a bug"
    )


def pay(lab: Lab, status: int, error: dict[str, object], headers: dict[str, str] | None = None) -> object:
    """Ask Stripe for a customer."""
    client = stripe.StripeClient(
        STRIPE, base_addresses={"api": lab.http.url(status, headers, {"error": error})}, max_network_retries=0
    )
    return client.v1.customers.retrieve("cus_1")


def _stripe() -> Iterator[Case]:
    card = {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}
    wrong = {
        "type": "invalid_request_error",
        "code": "parameter_missing",
        "message": "Missing required param: currency.",
    }
    gone = {"type": "invalid_request_error", "code": "resource_missing", "message": "No such customer: 'cus_1'"}
    locked = {
        "type": "invalid_request_error",
        "code": "lock_timeout",
        "message": "This object cannot be accessed right now",
    }
    twice = {
        "type": "idempotency_error",
        "message": "Keys for idempotent requests can only be used with the same parameters",
    }
    key = {"type": "invalid_request_error", "message": f"Invalid API Key provided: {STRIPE}"}
    limit = {"type": "invalid_request_error", "code": "rate_limit", "message": "Too many requests"}
    broken = {"type": "api_error", "message": "An unknown error occurred"}
    yes, no = {"Stripe-Should-Retry": "true"}, {"Stripe-Should-Retry": "false"}
    rows: tuple[tuple[str, int, dict[str, object], dict[str, str], bool, Any, str, dict[str, Any]], ...] = (
        ("402 card_declined", 402, card, {}, False, MONEY, "a business rule: CRIT-1.8", {}),
        ("400 parameter_missing", 400, wrong, {}, False, VALIDATION, "CRIT-1.5", {}),
        ("404 resource_missing", 404, gone, {}, False, NOT_FOUND, "CRIT-1.7", {}),
        ("401", 401, key, {}, False, AUTH, "CRIT-1.6", {"secrets": (STRIPE,)}),
        ("403", 403, {"type": "invalid_request_error", "message": "not permitted"}, {}, False, AUTH, "CRIT-1.6", {}),
        ("409 conflict", 409, wrong, {}, True, CONFLICT, "decision 4", {}),
        ("429 rate_limit", 429, limit, {}, True, RATE_LIMIT, "CRIT-1.2", {}),
        ("429 lock_timeout", 429, locked, {}, True, RATE_LIMIT | CONFLICT | UPSTREAM, "a lock", {}),
        ("400 idempotency_error", 400, twice, {}, False, VALIDATION | CONFLICT | CONFIGURATION, "the same key, other parameters", {}),
        ("500 api_error", 500, broken, {}, True, UPSTREAM, "CRIT-1.3", {}),
        ("503", 503, broken, {}, True, AWAY, "CRIT-1.1", {}),
        ("429 with Retry-After", 429, limit, {"Retry-After": "2"}, True, RATE_LIMIT, "CRIT-2.2", {"retry_after": 2.0}),
        ("500 that must not be retried", 500, broken, no, False, UPSTREAM, "notes: honour stripe-should-retry", {}),
        ("400 that may be retried", 400, wrong, yes, True, VALIDATION | UPSTREAM | CONFLICT | NETWORK, "notes: honour stripe-should-retry", {}),
    )  # fmt: skip
    for label, status, error, headers, retryable, categories, reason, more in rows:
        yield Case(
            label=f"stripe {label}",
            library="stripe",
            provoke=lambda lab, status=status, error=error, headers=headers: pay(lab, status, error, headers),
            retryable=retryable,
            categories=categories,
            reason=reason,
            **more,
        )
    yield retry("stripe", "stripe refused", _stripe_refused, NETWORK, "CRIT-1.1")
    yield stop(
        "stripe", "stripe webhook signature", lambda _: stripe.Webhook.construct_event("{}", "t=1,v1=bad", secret("wh", "sec_1")),
        AUTH | VALIDATION, "a forged call stays forged",
    )  # fmt: skip


def _stripe_refused(lab: Lab) -> object:
    client = stripe.StripeClient(STRIPE, base_addresses={"api": lab.refused}, max_network_retries=0)
    return client.v1.customers.retrieve("cus_1")


class Detour(TwilioHttpClient):
    """Sends what is meant for Twilio to the lab."""

    def __init__(self, url: str) -> None:
        super().__init__(timeout=5)
        self.url = url

    def request(self, method: str, url: str, *args: Any, **options: Any) -> Any:
        """Keep all but the address."""
        return super().request(method, self.url, *args, **options)


def text(url: str) -> object:
    """Send a text message by Twilio."""
    return Client(*TWILIO, http_client=Detour(url)).messages.create(to="+15005550006", from_="+15005550001", body="x")


def _twilio() -> Iterator[Case]:
    rows: tuple[tuple[int, int, str, bool, Any, str], ...] = (
        (400, 21211, "The 'To' number is not a valid phone number.", False, PEOPLE, "an invalid recipient: REV-6.3"),
        (400, 21610, "Attempt to send to unsubscribed recipient", False, POLICY | PEOPLE, "a deny policy: REV-6.3"),
        (400, 21602, "Message body is required.", False, VALIDATION, "CRIT-1.5"),
        (401, 20003, "Authenticate", False, AUTH, "CRIT-1.6"),
        (403, 20403, "Forbidden", False, AUTH, "CRIT-1.6"),
        (404, 20404, "The requested resource was not found", False, NOT_FOUND, "CRIT-1.7"),
        (429, 20429, "Too Many Requests", True, RATE_LIMIT, "CRIT-1.2"),
        (500, 20500, "Internal Server Error", True, UPSTREAM, "CRIT-1.3"),
        (503, 20503, "Service unavailable", True, AWAY, "CRIT-1.1"),
    )
    for status, code, message, retryable, categories, reason in rows:
        body = {"code": code, "message": message, "more_info": f"https://docs.example/{code}", "status": status}
        yield Case(
            label=f"twilio {status} {code}",
            library="twilio",
            provoke=lambda lab, status=status, body=body: text(lab.http.url(status, {}, body)),
            retryable=retryable,
            categories=categories,
            reason=reason,
        )
    yield retry("twilio", "twilio refused", lambda lab: text(lab.refused), NETWORK, "CRIT-1.1")


def mail(url: str) -> object:
    """Send a mail by SendGrid."""
    message = Mail("ci@lab.example", "ada@lab.example", "review", plain_text_content="x")
    return SendGridAPIClient(SENDGRID, host=url).send(message)


def _sendgrid() -> Iterator[Case]:
    rows: tuple[tuple[int, dict[str, str], bool, Any, str, Any], ...] = (
        (400, {}, False, VALIDATION, "CRIT-1.5", ...),
        (401, {}, False, AUTH, "CRIT-1.6", ...),
        (403, {}, False, AUTH, "CRIT-1.6", ...),
        (404, {}, False, NOT_FOUND, "CRIT-1.7", ...),
        (413, {}, False, VALIDATION, "CRIT-1.5", ...),
        (429, {}, True, RATE_LIMIT, "CRIT-1.2", None),
        (429, {"Retry-After": "5"}, True, RATE_LIMIT, "CRIT-2.2", 5.0),
        (500, {}, True, UPSTREAM, "CRIT-1.3", ...),
        (502, {}, True, AWAY, "CRIT-1.1", ...),
        (503, {}, True, AWAY, "CRIT-1.1", ...),
    )
    for status, headers, retryable, categories, reason, wait in rows:
        body = {"errors": [{"message": "as asked", "field": None, "help": None}]}
        yield Case(
            label=f"sendgrid {status}{' with Retry-After' if headers else ''}",
            library="sendgrid",
            provoke=lambda lab, status=status, headers=headers, body=body: mail(lab.http.url(status, headers, body)),
            retryable=retryable,
            categories=categories,
            reason=reason,
            retry_after=wait,
        )
    yield retry("sendgrid", "sendgrid refused", lambda lab: mail(lab.refused), NETWORK, "CRIT-1.1")
