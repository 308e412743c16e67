"""Classes that no table names: users' own subclasses, ill-behaved ones, and libraries below the ones we know."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

import anyio
import filelock
import google.auth.exceptions
import h11
import httpcore
import httpx
import jinja2
import openai
import pydantic
import requests
import werkzeug.exceptions
from google.protobuf.message import DecodeError

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
from audited.http_clients import by_httpx, by_requests
from audited.models_openai import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from audited.lab import Lab

EITHER: Final = CONFIGURATION | VALIDATION


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _subclasses()
    yield from _ill_behaved()
    yield from _below()


class GitHostError(requests.HTTPError):
    """A user's own, of requests."""


class TrackerError(httpx.HTTPStatusError):
    """A user's own, of httpx."""


class MissingFieldError(KeyError):
    """A user's own, of a KeyError."""


class LinkDownError(ConnectionError):
    """A user's own, of a ConnectionError."""


class SlowLinkError(TimeoutError):
    """A user's own, of a TimeoutError."""


class BadRowError(ValueError):
    """A user's own, of a ValueError."""


class ModelBusyError(openai.RateLimitError):
    """A user's own, of openai's."""


def recast(call: Callable[[], object], kind: Callable[[Any], BaseException]) -> object:
    """The exception of a call, made one of a user's own, the first one gone."""
    try:
        return call()
    except Exception as exc:  # noqa: BLE001 - whatever the library raises is recast
        return kind(exc)


def _subclasses() -> Iterator[Case]:
    def hosted(exc: Any) -> BaseException:
        return GitHostError(str(exc), response=exc.response)

    def tracked(exc: Any) -> BaseException:
        return TrackerError(str(exc), request=exc.request, response=exc.response)

    def busy(exc: Any) -> BaseException:
        return ModelBusyError(exc.message, response=exc.response, body=exc.body)

    mro = "notes: match over the MRO"
    for status, retryable, categories in (
        (404, False, NOT_FOUND),
        (401, False, AUTH),
        (429, True, RATE_LIMIT),
        (503, True, AWAY),
    ):
        make = retry if retryable else stop
        wait = {"Retry-After": "33"} if retryable else {}
        yield make(
            "user", f"a subclass of requests.HTTPError {status}",
            lambda lab, status=status, wait=wait: recast(lambda: by_requests(lab.http.url(status, wait)), hosted),
            categories, mro, retry_after=33.0 if retryable else None,
        )  # fmt: skip
        yield make(
            "user", f"a subclass of httpx.HTTPStatusError {status}",
            lambda lab, status=status, wait=wait: recast(lambda: by_httpx(lab.http.url(status, wait)), tracked),
            categories, mro, retry_after=33.0 if retryable else None,
        )  # fmt: skip
    yield retry(
        "user", "a subclass of openai.RateLimitError",
        lambda lab: recast(lambda: ask(lab.http.url(429, {"retry-after": "8"}, {})), busy), RATE_LIMIT, mro, retry_after=8.0,
    )  # fmt: skip
    yield stop("user", "a subclass of KeyError", lambda _: MissingFieldError("verdict"), EITHER, mro)
    yield retry("user", "a subclass of ConnectionError", lambda _: LinkDownError("down"), NETWORK, mro)
    yield retry("user", "a subclass of TimeoutError", lambda _: SlowLinkError("slow"), NETWORK, mro)
    yield stop("user", "a subclass of ValueError", lambda _: BadRowError("row 7"), EITHER, mro)
    yield stop(
        "user",
        "a group of subclasses",
        lambda _: ExceptionGroup("g", [SlowLinkError("slow"), BadRowError("row 7")]),
        EITHER,
        mro,
    )
    yield retry(
        "user",
        "a subclass of ExceptionGroup",
        lambda _: type("Many", (ExceptionGroup,), {})("g", [SlowLinkError("x")]),
        NETWORK,
        mro,
    )


def _odd(name: str, base: type[Exception] = Exception, **body: object) -> Exception:
    return type(name, (base,), body)("x")


def _broken(*_: object) -> object:
    raise ZeroDivisionError("ill-behaved")


class _Eager(Exception):
    def __getattr__(self, name: str) -> object:
        raise ZeroDivisionError(f"no {name} here")


class _Generous(Exception):
    def __getattr__(self, name: str) -> object:
        return self


def _ill_behaved() -> Iterator[Case]:
    unknown = "CRIT-1.0, decision 5"
    yield retry("user", "a class without a module", lambda _: _odd("Nameless", __module__=None), UNKNOWN, unknown)
    yield retry("user", "a class whose module is a number", lambda _: _odd("Numbered", __module__=7), UNKNOWN, unknown)
    yield retry(
        "user", "repr and str fail", lambda _: _odd("Silent", __str__=_broken, __repr__=_broken), UNKNOWN, unknown
    )
    yield retry("user", "every attribute fails", lambda _: _Eager("x"), UNKNOWN, unknown)
    yield retry("user", "every attribute is there", lambda _: _Generous("x"), UNKNOWN, unknown, arguable=True)
    yield retry("user", "arguments of bytes", lambda _: RuntimeError(b"\xff\x00", object()), UNKNOWN, unknown)
    yield retry("user", "a lone surrogate", lambda _: RuntimeError("\ud800 broke"), UNKNOWN, unknown)
    yield stop(
        "user", "a file whose name is no UTF-8", lambda lab: (lab.folder / "gone-\udcff").read_text(), NOT_FOUND | CONFIGURATION,
        "ENOENT; a name as os.fsdecode gives it",
    )  # fmt: skip
    yield retry("user", "NULs and escapes", lambda _: RuntimeError("a\x00b\x1b[31mred"), UNKNOWN, unknown)
    yield retry("user", "a million characters", lambda _: RuntimeError("word " * 200_000), UNKNOWN, unknown)
    yield retry("user", "a status of text", lambda _: _odd("Texty", status_code="503"), UNKNOWN | AWAY, unknown)
    yield retry("user", "a status beyond HTTP", lambda _: _odd("Beyond", status_code=99999), UNKNOWN, unknown)
    yield retry("user", "a status of nan", lambda _: _odd("NotANumber", status_code=float("nan")), UNKNOWN, unknown)
    yield retry("user", "its own cause", lambda _: _itself(), UNKNOWN, unknown)
    yield retry("user", "an errno of text", lambda _: _errno("ECONNRESET"), UNKNOWN | NETWORK, unknown)
    yield retry("user", "an errno beyond any", lambda _: OSError(99999, "what?"), UNKNOWN | NETWORK | UPSTREAM, unknown)
    yield stop(
        "user",
        "a bug with a status 503",
        lambda _: _odd("Bug", KeyError, status_code=503),
        EITHER | AWAY,
        "type or status?",
        arguable=True,
    )
    yield retry(
        "user",
        "a group of one thousand",
        lambda _: ExceptionGroup("g", [TimeoutError(str(i)) for i in range(1000)]),
        NETWORK,
        "it ends",
    )
    yield from _misleading()


def _misleading() -> Iterator[Case]:
    yield retry("user", "groups two hundred deep", lambda _: _nested(200), NETWORK, "it ends")
    yield stop(
        "user",
        "SystemExit's number in an AssertionError",
        lambda _: AssertionError(401),
        CONFIGURATION,
        "notes: 401 here is no status",
    )
    yield retry(
        "user",
        "a TimeoutError that says 401",
        lambda _: TimeoutError("after 401 seconds, forbidden to wait"),
        NETWORK,
        "decision 1",
    )
    yield retry(
        "user",
        "ETIMEDOUT with invalid in its words",
        lambda _: OSError(errno.ETIMEDOUT, "invalid authentication timeout"),
        NETWORK,
        "decision 1",
    )
    yield stop(
        "user",
        "a ValueError that says timeout",
        lambda _: ValueError("timeout must be positive"),
        EITHER,
        "decision 1: the type decides",
    )
    yield stop(
        "user",
        "a KeyError that says rate limit",
        lambda _: KeyError("rate limit"),
        EITHER,
        "decision 1: the type decides",
    )


def _itself() -> Exception:
    exc = RuntimeError("me")
    exc.__cause__ = exc
    return exc


def _errno(value: object) -> Exception:
    exc = OSError("odd")
    exc.errno = value
    return exc


def _nested(depth: int) -> BaseException:
    inner: Exception = TimeoutError("slow")
    for _ in range(depth):
        inner = ExceptionGroup("g", [inner])
    return inner


def _lock(lab: Lab) -> object:
    path = lab.folder / "held.lock"
    with filelock.FileLock(path), filelock.FileLock(path, timeout=0.01, is_singleton=False):
        return None


def _core(lab: Lab, wire: str) -> object:
    with httpcore.ConnectionPool() as pool:
        return pool.request("GET", lab.http.broken(wire), extensions={"timeout": {"read": 0.05}})


async def _stream(_: Lab) -> object:
    sender, receiver = anyio.create_memory_object_stream(0)
    await receiver.aclose()
    try:
        return await sender.send(1)
    finally:
        await sender.aclose()


def _below() -> Iterator[Case]:
    open_ = {"arguable": True}
    yield retry("httpcore", "httpcore ReadTimeout", lambda lab: _core(lab, "silent"), NETWORK, "CRIT-1.1")
    yield retry("httpcore", "httpcore RemoteProtocolError", lambda lab: _core(lab, "hang-up"), AWAY, "CRIT-1.1")
    yield retry(
        "h11",
        "h11 RemoteProtocolError",
        lambda _: h11.RemoteProtocolError("closed"),
        AWAY | VALIDATION,
        "the peer's fault",
        **open_,
    )
    yield stop(
        "h11",
        "h11 LocalProtocolError",
        lambda _: h11.LocalProtocolError("Illegal header"),
        EITHER,
        "our fault",
        **open_,
    )
    yield retry(
        "anyio", "anyio BrokenResourceError", _stream, NETWORK | UPSTREAM | UNKNOWN, "the other end left", **open_
    )
    yield retry("filelock", "filelock Timeout", _lock, NETWORK | UPSTREAM, "a subclass of TimeoutError")
    yield stop(
        "google.auth",
        "google.auth DefaultCredentialsError",
        lambda _: google.auth.exceptions.DefaultCredentialsError("none found"),
        AUTH | CONFIGURATION,
        "ORC-1.4",
        **open_,
    )
    yield stop(
        "google.auth",
        "google.auth RefreshError",
        lambda _: google.auth.exceptions.RefreshError("invalid_grant"),
        AUTH,
        "CRIT-1.6: no refresh path",
        **open_,
    )
    yield retry(
        "google.auth",
        "google.auth TransportError",
        lambda _: google.auth.exceptions.TransportError("refused"),
        NETWORK | UPSTREAM,
        "CRIT-1.1",
        **open_,
    )
    yield from _far_below()


def _far_below() -> Iterator[Case]:
    open_ = {"arguable": True}
    yield stop(
        "jinja2",
        "jinja2 UndefinedError",
        lambda _: jinja2.Environment(undefined=jinja2.StrictUndefined).from_string("{{ a }}").render(),
        EITHER,
        "a bug",
        **open_,
    )
    yield stop(
        "jinja2",
        "jinja2 TemplateSyntaxError",
        lambda _: jinja2.Environment().from_string("{% if"),
        EITHER,
        "a bug",
        **open_,
    )
    yield stop(
        "protobuf", "protobuf DecodeError", lambda _: DecodeError("Error parsing message"), EITHER, "CRIT-1.5", **open_
    )
    yield stop("pydantic", "pydantic ValidationError under a RuntimeError", _under, VALIDATION, "notes: walk the chain")
    for status, retryable, categories in (
        (404, False, NOT_FOUND),
        (403, False, AUTH),
        (429, True, RATE_LIMIT),
        (503, True, AWAY),
        (409, True, CONFLICT),
    ):
        make = retry if retryable else stop
        yield make(
            "werkzeug",
            f"werkzeug {status}",
            lambda _, status=status: werkzeug.exceptions.default_exceptions[status](),
            categories,
            "a status by another name",
            **open_,
        )
    yield retry(
        "werkzeug",
        "werkzeug 500",
        lambda _: werkzeug.exceptions.InternalServerError(),
        UPSTREAM,
        "a status by another name",
        **open_,
    )


def _under(_: Lab) -> object:
    try:
        return pydantic.TypeAdapter(int).validate_python("x")
    except pydantic.ValidationError as exc:
        raise RuntimeError("the answer could not be read") from exc
