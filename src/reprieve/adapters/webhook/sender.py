"""The sender of webhooks."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import httpx2

from reprieve.adapters.webhook.signing import key_of, signed
from reprieve.adapters.webhook.targets import normal_url, origin_of
from reprieve.adapters.webhook.wire import Reply, Wire
from reprieve.core.delivery import Capability, Found, Phase
from reprieve.core.redact.keys import kind_of
from reprieve.errors import UsageError
from reprieve.ports.sending import Answer, Question

if TYPE_CHECKING:
    import ssl

    from reprieve.ports.sending import Outgoing

StatusUrl = str | Callable[[Question], str]
"""Where to ask after a message: a URL with `{token}` in it, or a function of what is asked."""

_OUR_HEADERS: Final = frozenset({
    "host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "idempotency-key",
    "webhook-id", "webhook-timestamp", "webhook-signature",
})  # fmt: skip
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?|")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]{1,200}")
_KEPT_HEADERS: Final = ("retry-after", "retry-after-ms", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id")
_HAS_IT: Final = frozenset({"received", "accepted", "queued", "processing", "processed", "delivered", "sent", "done"})
_HAS_IT_NOT: Final = frozenset({"absent", "not_found"})
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_REQUEST_TIMEOUT: Final = 408


class Webhook:
    """Posts messages as JSON to the URL that is their recipient.

    Webhook(secret="whsec_...", takes_key=timedelta(hours=24), status_url="https://example.org/deliveries/{token}")
    """

    def __init__(  # noqa: PLR0913 - settings by keyword, most of them never given
        self,
        name: str = "webhook",
        *,
        secret: str | Sequence[str] = (),
        takes_key: float | timedelta | None = None,
        status_url: StatusUrl | None = None,
        lag: float = 0.0,
        retention: float | timedelta | None = None,
        timeout: float = 30.0,
        allow_private: bool = False,
        headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Take how long receivers drop a second message with the same `Idempotency-Key`, and where they can be asked.

        Of several secrets each signs. `lag` and `retention` are those of the status URL. `headers` go to every receiver.
        """
        self.name = name
        secrets = (secret,) if isinstance(secret, str) else tuple(secret)
        self._keys = tuple(key_of(each) for each in secrets)
        self._headers = _checked_headers({} if headers is None else headers)
        self.secrets = (*secrets, *_credentials(self._headers))
        """What no text may hold."""
        self._allow_private = allow_private
        self._status_url = self._checked_status_url(status_url)
        self.capability = Capability(
            key_window=None if takes_key is None else _seconds("takes_key", takes_key),
            looks_up=status_url is not None,
            lag=0.0 if lag == 0 else _seconds("lag", lag),
            retention=None if retention is None else _seconds("retention", retention),
            send_timeout=_seconds("timeout", timeout),
        )  # fmt: skip
        settles_doubt = takes_key is not None or status_url is not None
        self._wire = Wire(allow_private=allow_private, reuse=settles_doubt, ssl_context=ssl_context)

    def address(self, recipient: str) -> str:
        """The URL in its one normal form; refused where it is none, or not safe."""
        return normal_url(recipient, allow_private=self._allow_private)

    async def send(self, outgoing: Outgoing) -> str:
        """Post it, and return the receiver's id of it, or the token where it names none."""
        outgoing.reached(Phase.BEFORE)
        url = self.address(outgoing.message.recipient)
        body = _body(outgoing)
        headers = {
            "user-agent": "reprieve",
            **self._headers,
            "content-type": "application/json",
            "accept-encoding": "identity",
            "idempotency-key": outgoing.token,
            **signed(self._keys, message_id=f"msg_{outgoing.token}", at=int(time.time()), body=body),
        }
        reply = await self._wire.exchange(
            "POST", url, headers=headers, body=body, timeout=outgoing.timeout,
            leaving=lambda: outgoing.reached(Phase.DURING),
        )  # fmt: skip
        if 200 <= reply.status < 300:  # noqa: PLR2004 - the classes of RFC 9110
            return _id_in(reply) or outgoing.token
        if self._is_refusal(reply.status):
            outgoing.reached(Phase.REJECTED)
        raise _error(url, reply)

    async def look_up(self, question: Question) -> Answer:
        """Ask the status URL: 200 with a state, 404, or something that says nothing."""
        if self._status_url is None:
            return Answer.unknown("this receiver has no status URL")
        if isinstance(self._status_url, str):
            asked = self._status_url.replace("{token}", quote(question.token, safe=""))
        else:
            asked = self._status_url(question)
        url = self.address(asked)
        reply = await self._wire.exchange(
            "GET", url, headers={**self._headers, "accept": "application/json", "accept-encoding": "identity"},
            timeout=question.timeout,
        )  # fmt: skip
        return _answer(origin_of(url), reply)

    async def close(self) -> None:
        """Let go of connections; may be called twice, and be used again after."""
        await self._wire.close()

    def _is_refusal(self, status: int) -> bool:
        """Whether it was not taken: redirects, which are not followed, and client errors."""
        if status == _CONFLICT and self.capability.key_window is not None:
            return False  # an earlier try with this key is still being worked on
        return 300 <= status < 500 and status != _REQUEST_TIMEOUT  # noqa: PLR2004 - the classes of RFC 9110

    def _checked_status_url(self, status_url: StatusUrl | None) -> StatusUrl | None:
        if isinstance(status_url, str):
            if "{token}" not in status_url:
                raise UsageError("status_url= is a URL with {token} in it, or a function that makes one of a question")
            self.address(status_url.replace("{token}", "token"))
        return status_url


def _body(outgoing: Outgoing) -> bytes:
    """The same bytes on every try."""
    message = outgoing.message
    content = {
        "token": outgoing.token,
        "subject": message.subject,
        "text": message.text,
        "html": message.html,
        "data": dict(message.data),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


def _error(url: str, reply: Reply) -> httpx2.HTTPStatusError:
    """What was answered, with what is judged of it; not the URL's path nor what was sent, which may be credentials."""
    origin = origin_of(url)
    request = httpx2.Request("POST", origin)
    headers = {name: reply.headers[name] for name in _KEPT_HEADERS if name in reply.headers}
    response = httpx2.Response(reply.status, headers=headers, content=reply.body, request=request)
    moved = ": redirects are not followed" if 300 <= reply.status < 400 else ""  # noqa: PLR2004 - as above
    return httpx2.HTTPStatusError(f"{origin} answered {reply.status}{moved}", request=request, response=response)


def _fields(reply: Reply) -> Mapping[str, object]:
    try:
        value = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _id_in(reply: Reply) -> str | None:
    """The receiver's own id of a message: of its JSON, or of a header."""
    for value in (_fields(reply).get("id"), reply.headers.get("x-message-id"), reply.headers.get("x-request-id")):
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if _VISIBLE.fullmatch(text):
            return text
    return None


def _answer(origin: str, reply: Reply) -> Answer:
    if reply.status == _NOT_FOUND:
        return Answer(found=Found.ABSENT, evidence=f"{origin} answered 404")
    fields = _fields(reply)
    state = fields.get("state", fields.get("status"))
    if reply.status != 200 or not isinstance(state, str):  # noqa: PLR2004 - as above
        return Answer.unknown(f"{origin} answered {reply.status} without a state")
    evidence = f"{origin} has it as {state[:40]!r}"
    match state.lower():
        case word if word in _HAS_IT:
            return Answer(found=Found.FOUND, notification_id=_id_in(reply), evidence=evidence)
        case word if word in _HAS_IT_NOT:
            return Answer(found=Found.ABSENT, evidence=evidence)
        case "duplicate":
            return Answer(found=Found.DUPLICATE, notification_id=_id_in(reply), evidence=evidence)
        case _:
            return Answer.unknown(evidence)


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that are one line each, and none that is ours; the words of a refusal hold no value."""
    for name, value in headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            raise UsageError(f"headers= has a name or a value that is not one line of ASCII: {name!r}")
        if name.lower() in _OUR_HEADERS:
            raise UsageError(f"headers= may not set {name!r}, which the sender sets itself")
    return {name.lower(): value for name, value in headers.items()}


def _credentials(headers: Mapping[str, str]) -> list[str]:
    """The values of headers whose names say that they are secret, without the scheme that may stand before them."""
    return [value.split()[-1] for name, value in headers.items() if value and kind_of(name.encode()) is not None]


def _seconds(what: str, duration: float | timedelta) -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"{what}= is above 0 seconds, not {seconds!r}")
    return seconds
