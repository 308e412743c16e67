"""Every HTTP client against every way in which an upstream fails: what it really raises, and the facts inside."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

import pytest

from reprieve.testing import HangUp, Stall
from reprieve.testing.provoke import catalogue
from reprieve.testing.provoke.clients import CLIENTS, RAISE_FOR_STATUS
from reprieve.testing.provoke.web import SITUATIONS

LIBRARIES = ("httpx", "requests", "aiohttp", "urllib3", "urllib", "http.client")

# By situation, a column a library: `package.Class`, for httpx and httpx2 the class alone. Where several are named, which
# one comes depends on whether the reset overtakes the client's next write. None: this client does not notice.
# fmt: off
EXPECTED = {
    "connection refused": ("ConnectError", "requests.ConnectionError", "aiohttp.ClientConnectorError", "urllib3.NewConnectionError", "urllib.URLError", "ConnectionRefusedError"),
    "connect timeout": ("ConnectTimeout", "requests.ConnectTimeout", "aiohttp.ConnectionTimeoutError", "urllib3.ConnectTimeoutError", "urllib.URLError", "TimeoutError"),
    "unknown host": ("ConnectError", "requests.ConnectionError", "aiohttp.ClientConnectorDNSError", "urllib3.NameResolutionError", "urllib.URLError", "socket.gaierror"),
    "unsupported scheme": ("UnsupportedProtocol", "requests.InvalidSchema", "aiohttp.NonHttpUrlClientError", "urllib3.URLSchemeUnknown", "urllib.URLError", None),
    "reset on connect": ("ReadError|WriteError|ConnectError|RemoteProtocolError", "requests.ConnectionError", "aiohttp.ClientOSError|aiohttp.ClientConnectorError|aiohttp.ServerDisconnectedError", "urllib3.ProtocolError|urllib3.NewConnectionError", "ConnectionResetError|urllib.URLError|http.RemoteDisconnected", "ConnectionResetError|BrokenPipeError|http.RemoteDisconnected"),
    "reset while reading": ("ReadError", "requests.ConnectionError", "aiohttp.ClientOSError", "urllib3.ProtocolError", "ConnectionResetError|urllib.URLError|http.RemoteDisconnected", "ConnectionResetError|BrokenPipeError|http.RemoteDisconnected"),
    "reset after the request": ("ReadError", "requests.ConnectionError", "aiohttp.ClientOSError", "urllib3.ProtocolError", "ConnectionResetError", "ConnectionResetError"),
    "reset in the headers": ("ReadError", "requests.ConnectionError", "aiohttp.ClientOSError", "urllib3.ProtocolError", "ConnectionResetError", "ConnectionResetError"),
    "reset in the body": ("ReadError", "requests.ChunkedEncodingError", "aiohttp.ClientPayloadError", "urllib3.ProtocolError", "ConnectionResetError", "ConnectionResetError"),
    "no reply": ("RemoteProtocolError", "requests.ConnectionError", "aiohttp.ServerDisconnectedError", "urllib3.ProtocolError", "http.RemoteDisconnected", "http.RemoteDisconnected"),
    "headers cut short": ("RemoteProtocolError", "requests.JSONDecodeError", "aiohttp.ServerDisconnectedError", "json.JSONDecodeError", "json.JSONDecodeError", "json.JSONDecodeError"),
    "body cut short": ("RemoteProtocolError", "requests.ChunkedEncodingError", "aiohttp.ClientPayloadError", "urllib3.ProtocolError", "http.IncompleteRead", "http.IncompleteRead"),
    "read timeout": ("ReadTimeout", "requests.ReadTimeout", "aiohttp.SocketTimeoutError", "urllib3.ReadTimeoutError", "TimeoutError", "TimeoutError"),
    "read timeout of a POST": ("ReadTimeout", "requests.ReadTimeout", "aiohttp.SocketTimeoutError", "urllib3.ReadTimeoutError", "TimeoutError", "TimeoutError"),
    "body stalls": ("ReadTimeout", "requests.ConnectionError", "aiohttp.SocketTimeoutError", "urllib3.ReadTimeoutError", "TimeoutError", "TimeoutError"),
    "broken chunks": ("RemoteProtocolError", "requests.ChunkedEncodingError", "aiohttp.ClientResponseError", "urllib3.ProtocolError", "http.IncompleteRead", "http.IncompleteRead"),
    "chunks cut short": ("RemoteProtocolError", "requests.ChunkedEncodingError", "aiohttp.ClientPayloadError", "urllib3.ProtocolError", "http.IncompleteRead", "http.IncompleteRead"),
    "not HTTP": ("RemoteProtocolError", "requests.ConnectionError", "aiohttp.ClientResponseError", "urllib3.ProtocolError", "http.BadStatusLine", "http.BadStatusLine"),
    "malformed JSON": ("json.JSONDecodeError", "requests.JSONDecodeError", "json.JSONDecodeError", "json.JSONDecodeError", "json.JSONDecodeError", "json.JSONDecodeError"),
    "HTML for JSON": ("json.JSONDecodeError", "requests.JSONDecodeError", "aiohttp.ContentTypeError", "json.JSONDecodeError", "json.JSONDecodeError", "json.JSONDecodeError"),
    "not gzip": ("DecodingError", "requests.ContentDecodingError", "aiohttp.ClientPayloadError", "urllib3.DecodeError", None, None),
    "redirect loop": ("TooManyRedirects", "requests.TooManyRedirects", "aiohttp.TooManyRedirects", None, "urllib.HTTPError", None),
    "plain HTTP for TLS": ("ConnectError", "requests.SSLError", "aiohttp.ClientConnectorSSLError", "urllib3.SSLError", "urllib.URLError", "ssl.SSLError"),
    "handshake stalls": ("ConnectTimeout", "requests.ReadTimeout", "aiohttp.ConnectionTimeoutError", "urllib3.ReadTimeoutError", "urllib.URLError", "TimeoutError"),
    "handshake reset": ("ConnectError", "requests.ConnectionError", "aiohttp.ClientConnectorError", "urllib3.ProtocolError", "urllib.URLError", "ConnectionResetError"),
    "self-signed certificate": ("ConnectError", "requests.SSLError", "aiohttp.ClientConnectorCertificateError", "urllib3.SSLError", "urllib.URLError", "ssl.SSLCertVerificationError"),
    "unknown issuer": ("ConnectError", "requests.SSLError", "aiohttp.ClientConnectorCertificateError", "urllib3.SSLError", "urllib.URLError", "ssl.SSLCertVerificationError"),
    "expired certificate": ("ConnectError", "requests.SSLError", "aiohttp.ClientConnectorCertificateError", "urllib3.SSLError", "urllib.URLError", "ssl.SSLCertVerificationError"),
    "wrong host name": ("ConnectError", "requests.SSLError", "aiohttp.ClientConnectorCertificateError", "urllib3.SSLError", "urllib.URLError", "ssl.SSLCertVerificationError"),
}
# fmt: on
STATUS_ERRORS = {
    "httpx": "httpx.HTTPStatusError",
    "httpx2": "httpx2.HTTPStatusError",
    "requests": "requests.HTTPError",
    "aiohttp": "aiohttp.ClientResponseError",
    "urllib": "urllib.HTTPError",
}
STATUSES = [name for name in SITUATIONS if name.isdigit()]
CERTIFICATES = {
    "self-signed certificate": {18},
    "unknown issuer": {20},
    "expired certificate": {10},
    "wrong host name": {62, 64},  # a name that does not match, an address that does not match
}


def expected_kinds(library, situation):
    kinds = EXPECTED[situation][LIBRARIES.index("httpx" if library == "httpx2" else library)]
    if library in {"httpx", "httpx2"}:
        return {kind if "." in kind else f"{library}.{kind}" for kind in kinds.split("|")}
    return set(kinds.split("|"))


WEB = [(item.library, item.situation) for item in catalogue(list(CLIENTS)) if item.situation not in STATUSES]


@pytest.mark.parametrize(("library", "situation"), WEB)
def test_each_client_raises_its_own_error_for_each_way_to_fail(fail, kind_of, library, situation):
    assert kind_of(fail(f"{library}: {situation}")) in expected_kinds(library, situation)


def test_no_situation_is_left_out_of_the_table():
    assert set(EXPECTED) == set(SITUATIONS) - set(STATUSES)
    noticed = {(library, situation) for library, situation in WEB if library != "httpx2"}
    assert noticed == {
        (library, situation)
        for situation, kinds in EXPECTED.items()
        for library, kind in zip(LIBRARIES, kinds, strict=True)
        if kind is not None
    }


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("library", sorted(RAISE_FOR_STATUS))
def test_a_status_arrives_with_its_number_and_its_headers(fail, kind_of, library, status):
    error = fail(f"{library}: {status}")
    assert kind_of(error) == STATUS_ERRORS[library]
    seen = error if library in {"aiohttp", "urllib"} else error.response
    assert (getattr(seen, "status_code", None) or seen.status) == int(status)
    assert seen.headers.get("Retry-After") == ("7" if status in {"429", "503"} else None)


@pytest.mark.parametrize("situation", CERTIFICATES)
@pytest.mark.parametrize("library", CLIENTS)
def test_a_bad_certificate_keeps_its_verify_code_at_the_end_of_the_chain(fail, chain_of, library, situation):
    codes = {
        link.verify_code
        for link in chain_of(fail(f"{library}: {situation}"))
        # aiohttp's own certificate error is one of these by type and yet has no code.
        if isinstance(link, ssl.SSLCertVerificationError) and hasattr(link, "verify_code")
    }
    assert codes
    assert codes <= CERTIFICATES[situation]


ERRNOS = {
    "connection refused": errno.ECONNREFUSED,
    "reset after the request": errno.ECONNRESET,
    "reset in the body": errno.ECONNRESET,
    "handshake reset": errno.ECONNRESET,
}
IN_THE_MESSAGE_ONLY = ("aiohttp", "reset in the body")


@pytest.mark.parametrize(
    ("library", "situation"),
    [pair for pair in WEB if pair[1] in ERRNOS and pair != IN_THE_MESSAGE_ONLY],
)
def test_the_errno_survives_in_the_chain(fail, chain_of, library, situation):
    numbers = {getattr(link, "errno", None) for link in chain_of(fail(f"{library}: {situation}"))}
    assert ERRNOS[situation] in numbers


@pytest.mark.parametrize("library", CLIENTS)
def test_a_name_that_does_not_exist_ends_in_a_resolver_error(fail, chain_of, library):
    numbers = {link.errno for link in chain_of(fail(f"{library}: unknown host")) if isinstance(link, socket.gaierror)}
    assert numbers
    assert numbers <= {socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_NODATA}


@pytest.mark.parametrize("library", CLIENTS)
def test_a_post_that_timed_out_had_arrived_whole(stage, fail, library):
    fail(f"{library}: read timeout of a POST")
    (request,) = stage.web().wait_for_requests(1, within=60)
    assert request.json() == {"note": "a body worth losing"}


def test_the_total_timeout_of_aiohttp_is_a_bare_timeout_with_a_cancellation_inside(stage, chain_of):
    aiohttp = pytest.importorskip("aiohttp")
    upstream = stage.web()
    upstream.forget()
    upstream.always(Stall())

    async def ask():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.1)) as session:
            await session.get(upstream.url())

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(ask())
    assert type(caught.value) is TimeoutError
    assert any(isinstance(link, asyncio.CancelledError) for link in chain_of(caught.value))


@pytest.mark.parametrize("situation", ["not HTTP", "broken chunks"])
def test_aiohttp_gives_its_own_parse_errors_the_status_400(fail, situation):
    assert fail(f"aiohttp: {situation}").status == 400


def test_retries_of_urllib3_end_in_an_error_that_holds_the_last_one(stage):
    urllib3 = pytest.importorskip("urllib3")
    upstream = stage.web()
    upstream.forget()
    upstream.always(HangUp())
    with urllib3.PoolManager(retries=2) as pool, pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
        pool.request("GET", upstream.url())
    assert type(caught.value.reason) is urllib3.exceptions.ProtocolError
    assert len(upstream.requests) == 3
