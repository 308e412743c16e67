"""HTTP and WebSocket clients: httpx, httpx2, requests, urllib3, aiohttp, websockets."""

from __future__ import annotations

import re

from reprieve.core import http, provider
from reprieve.core.facts import attribute, headers_of, integer, words_of
from reprieve.core.failure import ErrorClass, Severity
from reprieve.core.finding import Finding, Rules, Weight

_of = ErrorClass
_BUG = Finding(_of.BUG)
_CONFIG = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)
_UNSENT = Finding(_of.CONNECTION_REFUSED, weight=Weight.TRANSPORT)
_BROKEN = Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT)
_SLOW = Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True)
_SLOW_CONNECT = Finding(_of.NETWORK_TIMEOUT)
_GARBLED = Finding(_of.UPSTREAM_ERROR, outcome_unknown=True)
_CERTIFICATE = Finding(_of.TLS_INVALID, weight=Weight.TRANSPORT)
_LOOP = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)


_PROXY_ANSWER = re.compile(r"^([1-5]\d\d)(?= |$)|Tunnel connection failed: ([1-5]\d\d)")
_GIVEN_UP = re.compile(r"too many ([1-5]\d\d) error responses")


def of_given_up(exc: BaseException, now: float) -> Finding:
    """urllib3 gave up on an answer: it tells the status, or that redirects went in circles."""
    words = words_of(exc)
    if "redirect" in words:
        return _LOOP
    answered = _GIVEN_UP.search(words)
    found = None if answered is None else http.of_status(int(answered.group(1)), None, now)
    return found or _GARBLED


def of_answer(exc: BaseException, now: float) -> Finding | None:
    """An answer with an error status, and what its body says."""
    return provider.of_exception(exc, now)


def of_requests(exc: BaseException, now: float) -> Finding:
    """Requests' root class and HTTPError: by the answer, if there was one; else a broken connection."""
    return provider.of_exception(exc, now) or _BROKEN


def of_proxy(exc: BaseException, now: float) -> Finding:
    """A proxy that refused: its status stands in the words only ("407 Proxy Authentication Required")."""
    answered = _PROXY_ANSWER.search(words_of(exc)[:2000])
    found = None if answered is None else http.of_status(int(answered.group(1) or answered.group(2)), None, now)
    return _UNSENT if found is None else found.but(rule=f"proxy.{found.status}", field="args")


def of_aiohttp_answer(exc: BaseException, now: float) -> Finding:
    """Aiohttp's ClientResponseError; status 0 means that the answer could not be read."""
    status = integer(attribute(exc, "status"))
    if not status or not headers_of(exc):  # the client invents a 400 for an answer that it cannot parse
        return _GARBLED
    return provider.of_response(status, headers_of(exc), None, now) or _GARBLED.but(status=status)


def of_content_type(exc: BaseException, now: float) -> Finding:
    """An answer that is no JSON: an error page by its status, else a contract that is not kept."""
    status = integer(attribute(exc, "status"))
    found = None if status is None else provider.of_response(status, headers_of(exc), None, now)
    return found or Finding(_of.SCHEMA_INVALID)


def of_closed_websocket(exc: BaseException, _now: float) -> Finding:
    """A closed WebSocket, by the code that the other side gave."""
    code = integer(attribute(attribute(exc, "rcvd"), "code"))
    table = {
        1002: _of.REQUEST_REJECTED, 1003: _of.REQUEST_REJECTED, 1007: _of.SCHEMA_INVALID, 1008: _of.POLICY_REJECTED,
        1009: _of.PAYLOAD_TOO_LARGE, 1010: _of.CONFIG_INVALID, 1011: _of.UPSTREAM_ERROR, 1012: _of.UPSTREAM_UNAVAILABLE,
        1013: _of.OVERLOADED, 1014: _of.UPSTREAM_UNAVAILABLE, 1015: _of.TLS_INVALID, 3000: _of.AUTH_DENIED,
        3003: _of.PERMISSION_DENIED, 3008: _of.NETWORK_TIMEOUT,
    }  # fmt: skip
    if code is None:
        return Finding(_of.CONNECTION_RESET, outcome_unknown=True)
    found = table.get(code, _of.CONNECTION_RESET)
    return Finding(
        found, rule=f"websocket.{code}", field="rcvd.code", value=str(code), code=str(code), outcome_unknown=True,
        severity=Severity.PERMANENT if found is _of.CONFIG_INVALID else None,
    )  # fmt: skip


def _httpx(package: str) -> Rules:
    return {
        f"{package}.HTTPStatusError": of_answer,
        f"{package}.ConnectTimeout": _SLOW_CONNECT,
        f"{package}.PoolTimeout": Finding(_of.RESOURCE_EXHAUSTED),
        f"{package}.ReadTimeout": _SLOW,
        f"{package}.WriteTimeout": _SLOW,
        f"{package}.TimeoutException": _SLOW,
        f"{package}.ConnectError": _UNSENT,
        f"{package}.ReadError": _BROKEN,
        f"{package}.WriteError": _BROKEN,
        f"{package}.CloseError": _BROKEN,
        f"{package}.NetworkError": _BROKEN,
        f"{package}.RemoteProtocolError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
        f"{package}.LocalProtocolError": _BUG,
        f"{package}.UnsupportedProtocol": _CONFIG,
        f"{package}.ProxyError": of_proxy,
        f"{package}.DecodingError": _GARBLED,
        f"{package}.TooManyRedirects": _LOOP,
        f"{package}.InvalidURL": _CONFIG,
        f"{package}.CookieConflict": _BUG,
        f"{package}.StreamError": _BUG,
        f"{package}.SSEError": _GARBLED,
        f"{package}.TransportError": _BROKEN,
        f"{package}.RequestError": _BROKEN,
        f"{package}.HTTPError": of_answer,
    }


def _httpcore(package: str) -> Rules:
    names = "ConnectTimeout PoolTimeout ReadTimeout WriteTimeout TimeoutException ConnectError ReadError WriteError"
    names += " NetworkError RemoteProtocolError LocalProtocolError UnsupportedProtocol ProxyError"
    rows = _httpx(package)
    return {f"{package}.{name}": rows[f"{package}.{name}"] for name in names.split()} | {
        f"{package}.ConnectionNotAvailable": _UNSENT
    }


RULES: Rules = {
    **_httpx("httpx"),
    **_httpx("httpx2"),
    **_httpcore("httpcore"),
    **_httpcore("httpcore2"),
    "httpx_ws.WebSocketDisconnect": _BROKEN,
    "requests.HTTPError": of_requests,
    "requests.RequestException": of_requests,
    "requests.ConnectionError": _BROKEN,
    "requests.ProxyError": of_proxy,
    "requests.SSLError": _CERTIFICATE,
    "requests.ConnectTimeout": _SLOW_CONNECT,
    "requests.ReadTimeout": _SLOW,
    "requests.Timeout": _SLOW,
    "requests.ChunkedEncodingError": _BROKEN,
    "requests.ContentDecodingError": _GARBLED,
    "requests.JSONDecodeError": Finding(_of.SCHEMA_INVALID),
    "requests.InvalidJSONError": Finding(_of.SCHEMA_INVALID),
    "requests.TooManyRedirects": _LOOP,
    "requests.MissingSchema": _CONFIG,
    "requests.InvalidSchema": _CONFIG,
    "requests.InvalidURL": _CONFIG,
    "requests.InvalidProxyURL": _CONFIG,
    "requests.InvalidHeader": _BUG,
    "requests.URLRequired": _CONFIG,
    "requests.StreamConsumedError": _BUG,
    "requests.UnrewindableBodyError": _BUG,
    "requests.RetryError": _GARBLED.but(weight=Weight.WRAPPER),
    "urllib3.MaxRetryError": Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.WRAPPER),
    "urllib3.ResponseError": of_given_up,
    "urllib3.NameResolutionError": Finding(_of.DNS_FAILURE),
    "urllib3.NewConnectionError": _UNSENT,
    "urllib3.ConnectTimeoutError": _SLOW_CONNECT,
    "urllib3.ReadTimeoutError": _SLOW,
    "urllib3.TimeoutError": _SLOW,
    "urllib3.SSLError": _CERTIFICATE,
    "urllib3.ProxyError": of_proxy,
    "urllib3.ProtocolError": _BROKEN,
    "urllib3.IncompleteRead": _BROKEN,
    "urllib3.InvalidChunkLength": _BROKEN,
    "urllib3.DecodeError": _GARBLED,
    "urllib3.EmptyPoolError": Finding(_of.RESOURCE_EXHAUSTED),
    "urllib3.FullPoolError": Finding(_of.RESOURCE_EXHAUSTED),
    "urllib3.ClosedPoolError": _BUG,
    "urllib3.HostChangedError": _BUG,
    "urllib3.TimeoutStateError": _BUG,
    "urllib3.LocationValueError": _CONFIG,
    "urllib3.LocationParseError": _CONFIG,
    "urllib3.URLSchemeUnknown": _CONFIG,
    "urllib3.ProxySchemeUnknown": _CONFIG,
    "urllib3.ProxySchemeUnsupported": _CONFIG,
    "urllib3.ResponseNotChunked": _GARBLED,
    "urllib3.BodyNotHttplibCompatible": _BUG,
    "urllib3.InvalidHeader": _GARBLED,
    "urllib3.HeaderParsingError": _GARBLED,
    "urllib3.UnrewindableBodyError": _BUG,
    "urllib3.HTTPError": _BROKEN,
    "aiohttp.ClientResponseError": of_aiohttp_answer,
    "aiohttp.ClientHttpProxyError": of_aiohttp_answer,
    "aiohttp.WSServerHandshakeError": of_aiohttp_answer,
    "aiohttp.ContentTypeError": of_content_type,
    "aiohttp.TooManyRedirects": _LOOP,
    "aiohttp.ConnectionTimeoutError": _SLOW_CONNECT,
    "aiohttp.SocketTimeoutError": _SLOW,
    "aiohttp.ServerTimeoutError": _SLOW,
    "aiohttp.ClientConnectorCertificateError": Finding(_of.TLS_INVALID),
    "aiohttp.ServerFingerprintMismatch": Finding(_of.TLS_INVALID),
    "aiohttp.ClientConnectorSSLError": _CERTIFICATE,
    "aiohttp.ClientSSLError": _CERTIFICATE,
    "aiohttp.ClientConnectorDNSError": Finding(_of.DNS_FAILURE),
    "aiohttp.ClientProxyConnectionError": _UNSENT,
    "aiohttp.ClientConnectorError": _UNSENT,
    "aiohttp.ClientConnectionResetError": _BROKEN,
    "aiohttp.ServerDisconnectedError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "aiohttp.ServerConnectionError": _BROKEN,
    "aiohttp.ClientOSError": _BROKEN,
    "aiohttp.ClientConnectionError": _BROKEN,
    "aiohttp.ClientPayloadError": _BROKEN,
    "aiohttp.TransferEncodingError": _BROKEN,
    "aiohttp.ContentLengthError": _BROKEN,
    "aiohttp.BadHttpMessage": _GARBLED,
    "aiohttp.InvalidURL": _CONFIG,
    "aiohttp.NonHttpUrlClientError": _CONFIG,
    "aiohttp.RedirectClientError": _LOOP,
    "aiohttp.WSMessageTypeError": Finding(_of.SCHEMA_INVALID),
    "aiohttp.WebSocketError": _GARBLED,
    "aiohttp.UploadAbortedError": _BROKEN,
    "aiohttp.ClientError": _BROKEN,
    "websockets.ConnectionClosed": of_closed_websocket,
    "websockets.InvalidStatus": of_answer,
    "websockets.InvalidProxyStatus": of_answer,
    "websockets.InvalidURI": _CONFIG,
    "websockets.InvalidProxy": _CONFIG,
    "websockets.InvalidMessage": _BROKEN,
    "websockets.InvalidHandshake": Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT, weight=Weight.TRANSPORT),
    "websockets.SecurityError": _GARBLED,
    "websockets.PayloadTooBig": Finding(_of.PAYLOAD_TOO_LARGE),
    "websockets.ProtocolError": _GARBLED,
    "websockets.InvalidState": _BUG,
    "websockets.ConcurrencyError": _BUG,
    "websockets.WebSocketException": _BROKEN,
    "h11.LocalProtocolError": _BUG,
    "h11.RemoteProtocolError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "h2.ProtocolError": _BROKEN,
    "anyio.EndOfStream": _BROKEN,
    "anyio.BrokenResourceError": _BROKEN,
    "anyio.ClosedResourceError": _BUG,
    "anyio.WouldBlock": Finding(_of.RESOURCE_EXHAUSTED),
}
