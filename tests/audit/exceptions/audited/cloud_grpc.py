"""A real gRPC server's status codes, blocking and awaited, and google.api_core's wrappings."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
import requests
from google.api_core import exceptions, grpc_helpers
from google.api_core import retry as google_retry

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    RATE_LIMIT,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

CODE: Final = CONFIGURATION | VALIDATION
CODES: Final[dict[str, tuple[bool, Any, str]]] = {
    "INVALID_ARGUMENT": (False, VALIDATION, "CRIT-1.5"),
    "DEADLINE_EXCEEDED": (True, AWAY, "notes: retry if idempotent"),
    "NOT_FOUND": (False, NOT_FOUND, "CRIT-1.7"),
    "ALREADY_EXISTS": (True, CONFLICT, "a duplicate write, as 409: decision 4"),
    "PERMISSION_DENIED": (False, AUTH, "CRIT-1.6"),
    "RESOURCE_EXHAUSTED": (True, RATE_LIMIT, "notes: retry"),
    "FAILED_PRECONDITION": (False, CODE | CONFLICT, "not before the state is mended"),
    "ABORTED": (True, CONFLICT, "notes: retry"),
    "OUT_OF_RANGE": (False, VALIDATION, "CRIT-1.5"),
    "UNIMPLEMENTED": (False, CODE | UPSTREAM, "as 501: decision 4"),
    "INTERNAL": (True, UPSTREAM, "CRIT-1.3"),
    "UNAVAILABLE": (True, AWAY, "notes: retry"),
    "DATA_LOSS": (False, UPSTREAM | CONFIGURATION, "beyond recovery"),
    "UNAUTHENTICATED": (False, AUTH, "CRIT-1.6"),
    "CANCELLED": (True, AWAY | UNKNOWN, "whoever cancelled it"),
    "UNKNOWN": (True, UPSTREAM | UNKNOWN, "ING-1.8"),
}
OPEN: Final = {"CANCELLED", "DATA_LOSS", "ALREADY_EXISTS"}


class Refuse(grpc.GenericRpcHandler):
    """Answers `/audit/<CODE>` with that status."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Abort with the code that the method names."""
        code = getattr(grpc.StatusCode, details.method.rsplit("/", 1)[1])

        def refuse(_: bytes, context: grpc.ServicerContext) -> bytes:
            context.abort(code, "as asked")
            return b""

        return grpc.unary_unary_rpc_method_handler(refuse)


def address(lab: Lab) -> str:
    """Where the server of this lab listens; started on first use."""
    if not hasattr(lab, "grpc_address"):
        server = grpc.server(futures.ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((Refuse(),))
        lab.grpc_address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        lab.stack.callback(lambda: server.stop(0).wait())
    return lab.grpc_address


def call(lab: Lab, code: str) -> object:
    """One blocking call that fails so."""
    with grpc.insecure_channel(address(lab)) as channel:
        return channel.unary_unary(f"/audit/{code}")(b"", timeout=5)


async def call_async(lab: Lab, code: str) -> object:
    """One awaited call that fails so."""
    async with grpc.aio.insecure_channel(address(lab)) as channel:
        return await channel.unary_unary(f"/audit/{code}")(b"", timeout=5)


def wrapped(lab: Lab, code: str) -> object:
    """One call through google.api_core's own wrapper."""
    with grpc.insecure_channel(address(lab)) as channel:
        return grpc_helpers.wrap_errors(channel.unary_unary(f"/audit/{code}"))(b"", timeout=5)


def cases() -> Iterator[Case]:
    """All of them."""
    ways = (
        ("grpc", "grpc", call),
        ("grpc.aio", "grpc", call_async),
        ("api_core over grpc", "google.api_core", wrapped),
    )
    for name, library, run in ways:
        for code, (retryable, categories, reason) in CODES.items():
            yield Case(
                label=f"{name} {code}",
                library=library,
                provoke=lambda lab, run=run, code=code: run(lab, code),
                retryable=retryable,
                categories=categories,
                reason=reason,
                arguable=code in OPEN,
            )
    yield from _transport()
    yield from _http()


def _nobody(lab: Lab) -> object:
    with grpc.insecure_channel(f"127.0.0.1:{lab.closed_port}") as channel:
        return channel.unary_unary("/audit/OK")(b"", timeout=2)


async def _nobody_async(lab: Lab) -> object:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{lab.closed_port}") as channel:
        return await channel.unary_unary("/audit/OK")(b"", timeout=2)


def _late(lab: Lab) -> object:
    with grpc.insecure_channel(f"127.0.0.1:{lab.silent_port}") as channel:
        return channel.unary_unary("/audit/OK")(b"", timeout=0.1)


def _not_ready(lab: Lab) -> object:
    with grpc.insecure_channel(f"127.0.0.1:{lab.closed_port}") as channel:
        return grpc.channel_ready_future(channel).result(timeout=0.1)


def _transport() -> Iterator[Case]:
    yield retry("grpc", "grpc refused", _nobody, NETWORK | UPSTREAM, "UNAVAILABLE: CRIT-1.1")
    yield retry("grpc", "grpc.aio refused", _nobody_async, NETWORK | UPSTREAM, "UNAVAILABLE: CRIT-1.1")
    yield retry("grpc", "grpc deadline on a silent server", _late, NETWORK | UPSTREAM, "a timeout: CRIT-1.1")
    yield retry("grpc", "grpc channel not ready in time", _not_ready, NETWORK | UPSTREAM, "a timeout: CRIT-1.1")


STATUSES: Final[dict[int, tuple[bool, Any]]] = {
    400: (False, VALIDATION),
    401: (False, AUTH),
    403: (False, AUTH),
    404: (False, NOT_FOUND),
    409: (True, CONFLICT),
    429: (True, RATE_LIMIT),
    500: (True, UPSTREAM),
    501: (False, CODE | UPSTREAM),
    502: (True, AWAY),
    503: (True, AWAY),
    504: (True, AWAY),
}


def from_http(lab: Lab, status: int, body: object, headers: dict[str, str] | None = None) -> object:
    """What google.api_core makes of a response that requests brought."""
    with requests.get(lab.http.url(status, headers, body), timeout=5) as response:
        return exceptions.from_http_response(response)


def _spent(_: Lab) -> object:
    @google_retry.Retry(initial=0.01, maximum=0.01, timeout=0.03)
    def call() -> object:
        raise exceptions.ServiceUnavailable("down")

    return call()


def _http() -> Iterator[Case]:
    for status, (retryable, categories) in STATUSES.items():
        body = {"error": {"code": status, "message": "as asked", "errors": [], "details": []}}
        yield Case(
            label=f"api_core over HTTP {status}",
            library="google.api_core",
            provoke=lambda lab, status=status, body=body: from_http(lab, status, body),
            retryable=retryable,
            categories=categories,
            reason="as the status",
        )
    yield retry(
        "google.api_core", "api_core 429 with Retry-After",
        lambda lab: from_http(lab, 429, {"error": {"message": "slow"}}, {"Retry-After": "14"}), RATE_LIMIT, "CRIT-2.2",
        retry_after=14.0,
    )  # fmt: skip
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}
    yield retry(
        "google.api_core", "api_core 429 with RetryInfo",
        lambda lab: from_http(lab, 429, {"error": {"message": "slow", "details": [info]}}), RATE_LIMIT, "notes: RetryInfo",
        retry_after=2.5,
    )  # fmt: skip
    limited = {"error": {"message": "limit", "errors": [{"reason": "rateLimitExceeded", "domain": "usageLimits"}]}}
    yield retry(
        "google.api_core", "api_core 403 rateLimitExceeded", lambda lab: from_http(lab, 403, limited), RATE_LIMIT,
        "a rate limit in a 403's clothes",
    )  # fmt: skip
    yield retry("google.api_core", "api_core RetryError", _spent, AWAY, "unwrap the cause: 503")
    yield stop(
        "google.api_core", "api_core 403 without permission",
        lambda lab: from_http(lab, 403, {"error": {"message": "no", "errors": [{"reason": "forbidden"}]}}), AUTH, "CRIT-1.6",
    )  # fmt: skip
