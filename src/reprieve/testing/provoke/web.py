"""Every way in which an HTTP upstream fails, through every HTTP client."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from reprieve.testing import replies
from reprieve.testing.acts import Act, HangUp, Moment, Reply, Reset, Stall
from reprieve.testing.places import UNRESOLVABLE_HOST
from reprieve.testing.provoke.clients import CLIENTS, RAISE_FOR_STATUS, Call
from reprieve.testing.provoke.stage import IMPATIENT, PATIENT, Provocation, Stage
from reprieve.testing.tls import Certificate
from reprieve.testing.upstream import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_EVERY_CLIENT: Final = frozenset(CLIENTS)
_FOLLOW_REDIRECTS: Final = _EVERY_CLIENT - {"urllib3", "http.client"}
_CHECK_SCHEMES: Final = _EVERY_CLIENT - {"http.client"}
_DECOMPRESS: Final = _EVERY_CLIENT - {"urllib", "http.client"}


@dataclass(frozen=True, slots=True)
class Situation:
    """What the upstream does, which call meets it, and which clients notice."""

    prepare: Callable[[Stage], Call]
    clients: frozenset[str] = _EVERY_CLIENT
    secure: bool = False


def _met(
    act: Act,
    *,
    method: str = "GET",
    timeout: float = PATIENT,
    certificate: Certificate | None = None,
    clients: frozenset[str] = _EVERY_CLIENT,
) -> Situation:
    def prepare(stage: Stage) -> Call:
        upstream = stage.web(certificate)
        upstream.always(act)
        return Call(upstream.url("/thing"), method, timeout)

    return Situation(prepare, clients, secure=certificate is not None)


def _shown(certificate: Certificate) -> Situation:
    return _met(Reply(), certificate=certificate)


def _status(status: int, headers: Mapping[str, str] | None = None) -> Situation:
    return _met(Reply(status, "{}", headers or {}), clients=RAISE_FOR_STATUS)


def _at(url: Callable[[Stage], str], *, timeout: float = PATIENT, clients: frozenset[str] = _EVERY_CLIENT) -> Situation:
    return Situation(lambda stage: Call(url(stage), timeout=timeout), clients)


SITUATIONS: Final[Mapping[str, Situation]] = {
    "connection refused": _at(lambda stage: stage.refusing_url),
    "connect timeout": _at(lambda stage: f"http://{HOST}:{stage.deaf_port}/", timeout=IMPATIENT),
    "unknown host": _at(lambda _: f"http://{UNRESOLVABLE_HOST}/"),
    "unsupported scheme": _at(lambda _: f"gopher://{HOST}/", clients=_CHECK_SCHEMES),
    "reset on connect": _met(Reset(at=Moment.CONNECT)),
    "reset while reading": _met(Reset(at=Moment.REQUEST), method="POST"),
    "reset after the request": _met(Reset(at=Moment.REPLY)),
    "reset in the headers": _met(Reset(at=Moment.HEADERS)),
    "reset in the body": _met(Reset(at=Moment.BODY)),
    "no reply": _met(HangUp(at=Moment.REPLY)),
    "headers cut short": _met(HangUp(at=Moment.HEADERS)),
    "body cut short": _met(replies.web.truncated()),
    "read timeout": _met(Stall(at=Moment.REPLY), timeout=IMPATIENT),
    "read timeout of a POST": _met(Stall(at=Moment.REPLY), method="POST", timeout=IMPATIENT),
    "body stalls": _met(Stall(at=Moment.BODY), timeout=IMPATIENT),
    "broken chunks": _met(replies.web.broken_chunks()),
    "chunks cut short": _met(replies.web.cut_chunks()),
    "not HTTP": _met(replies.web.garbage()),
    "malformed JSON": _met(replies.web.malformed_json()),
    "HTML for JSON": _met(replies.web.wrong_content_type()),
    "not gzip": _met(replies.web.not_gzip(), clients=_DECOMPRESS),
    "redirect loop": _met(replies.web.redirect("/thing"), clients=_FOLLOW_REDIRECTS),
    "self-signed certificate": _shown(Certificate.SELF_SIGNED),
    "unknown issuer": _shown(Certificate.UNKNOWN_ISSUER),
    "expired certificate": _shown(Certificate.EXPIRED),
    "wrong host name": _shown(Certificate.WRONG_HOST),
    "plain HTTP for TLS": Situation(lambda stage: Call(stage.web().url("/", scheme="https")), secure=True),
    "handshake stalls": _met(Stall(at=Moment.HANDSHAKE), certificate=Certificate.GOOD, timeout=IMPATIENT),
    "handshake reset": _met(Reset(at=Moment.HANDSHAKE), certificate=Certificate.GOOD),
    "429": _status(429, {"Retry-After": "7"}),
    "503": _status(503, {"Retry-After": "7"}),
    **{
        str(status): _status(status)
        for status in (400, 401, 403, 404, 408, 409, 410, 413, 422, 423, 425, 500, 501, 502, 504, 505)
    },
}
"""By name; a status is named by its number."""


def _ask(client: str, situation: Situation, stage: Stage) -> None:
    CLIENTS[client](stage, situation.prepare(stage))


def provocations() -> Iterator[Provocation]:
    """Each situation through each client that notices it."""
    for client in CLIENTS:
        for name, situation in SITUATIONS.items():
            if client in situation.clients:
                packages = (client, "trustme") if situation.secure else (client,)
                yield Provocation(client, name, partial(_ask, client, situation), packages)
