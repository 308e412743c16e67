"""`reprieve classify`: the verdict on a failure, its evidence, and what each profile would do about it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from reprieve.app.forecast import Forecast, forecast
from reprieve.app.judging import classify_response, classify_text
from reprieve.app.profiles import SHIPPED, load_profiles
from reprieve.core.failure import Failure
from reprieve.errors import UsageError
from reprieve.faces.cli import verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.core.policy import Profile

_LARGEST_INPUT = 4_000_000
_STACK_KEYS = ("exc_info", "exception", "traceback", "stack_trace", "stack", "error", "message")
_STATUS_KEYS = ("status", "status_code", "statusCode", "http_status", "code")


def classify(  # noqa: PLR0913 - one parameter an option
    *,
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A file with a traceback, a message or JSON; - or nothing reads standard input.", show_default=False
        ),
    ] = None,
    status: Annotated[int | None, typer.Option(help="An HTTP status.", min=300, max=599, show_default=False)] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="A response header, as 'Retry-After: 3'; repeatable.")
    ] = None,
    body: Annotated[str | None, typer.Option(help="The response's body.", show_default=False)] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="An error message.", show_default=False)
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            "-p",
            help="Judge and forecast by this profile only; repeatable. Default: all.",
            show_default=False,
        ),
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option(help="A TOML file with profiles of your own.", show_default=False)
    ] = None,
    stage: Annotated[str, typer.Option(help="The stage it happened in, for the fingerprint.", show_default=False)] = "",
    idempotent: Annotated[bool, typer.Option("--idempotent", help="The stage may safely be repeated.")] = False,
    now: Annotated[
        float | None, typer.Option(help="Seconds since the epoch, for HTTP-dates. Default: now.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for machines.")] = False,
) -> None:
    """Say what went wrong, whether another try is worth it, how we know, and when each profile would retry.

    It reads a status with headers and body, a message, JSON, or a traceback.

    The text of a traceback holds less than the exception itself, so the verdict on it may be less exact.

    Examples:
    reprieve classify --status 429 -H 'Retry-After: 20'

    reprieve classify -m 'connection reset by peer' --profile orchestrator
    """
    book = SHIPPED if profiles is None else load_profiles(profiles)
    chosen = [book.resolve(name) for name in profile or (name for name in book.names() if "." not in name)]
    judge = _judge_of(_facts(source, status, header, body, message), stage, now)
    failure = judge(chosen[0] if profile and len(profile) == 1 else None)
    forecasts = [forecast(judge(each), each, idempotent=idempotent) for each in chosen]
    if as_json:
        print(json.dumps(_as_json(failure, forecasts), indent=2, ensure_ascii=False))  # noqa: T201
    else:
        verdict.show(failure, forecasts)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The facts of an HTTP answer."""

    status: int | None
    headers: object
    body: object


_Facts = _Answer | Failure | str


def _facts(
    source: Path | None, status: int | None, header: list[str] | None, body: str | None, message: str | None
) -> _Facts:
    """What was given: an answer, a record of ours, or text."""
    if source is not None and (status is not None or message is not None):
        raise UsageError("give a file, or --status, or --message: not a file beside one of them")
    if status is None and (header or body is not None):
        raise UsageError("--header and --body belong to an answer: give its --status too")
    if status is not None:
        return _Answer(status, _headers(header), body if body is not None else message and {"message": message})
    if message is not None:
        return message
    text = _read(source)
    if text.lstrip()[:1] != "{":
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _in_json(found)


def _in_json(found: dict[str, object]) -> _Facts:
    inner = found.get("failure")
    found = inner if isinstance(inner, dict) else found  # what `--json` printed
    if {"error_class", "evidence", "fingerprint"} <= found.keys():
        return Failure.from_dict(found)
    pasted = next((value for key in _STACK_KEYS if "Traceback" in str(value := found.get(key))), None)
    if isinstance(pasted, str):  # one line of a structured log
        return pasted
    status = next((found[key] for key in _STATUS_KEYS if isinstance(found.get(key), int)), 0)
    if isinstance(status, int) and 100 <= status < 600:  # noqa: PLR2004 - a status, and no code of another kind
        return _Answer(status, found.get("headers"), found.get("body", found))
    message = found.get("message")
    return message if isinstance(message, str) else _Answer(None, found.get("headers"), found)


def _judge_of(facts: _Facts, stage: str, now: float | None) -> Callable[[Profile | None], Failure]:
    """How a profile judges these facts; a record of ours is judged already."""
    match facts:
        case Failure():
            return lambda _profile: facts
        case _Answer(status, headers, body):
            return lambda profile: classify_response(status, headers, body, profile=profile, stage=stage, now=now)
        case str():
            return lambda profile: classify_text(facts, profile=profile, stage=stage, now=now)
        case _:
            assert_never(facts)


def _read(source: Path | None) -> str:
    if source is None or str(source) == "-":
        if sys.stdin.isatty():
            print("Paste a traceback, a message or JSON; end with Ctrl-D.", file=sys.stderr)  # noqa: T201
        text = sys.stdin.buffer.read(_LARGEST_INPUT + 1).decode("utf-8", "replace")
    else:
        try:
            with source.open(encoding="utf-8", errors="replace") as file:
                text = file.read(_LARGEST_INPUT + 1)
        except OSError as error:
            hint = "" if source.suffix else "; a message is given with -m"
            raise UsageError(f"cannot read {source}: {error.strerror}{hint}") from error
    if len(text) > _LARGEST_INPUT:
        raise UsageError(f"the input is larger than {_LARGEST_INPUT:,} characters; give the traceback alone")
    if not text.strip():
        raise UsageError("nothing to classify: give --status, --message, a file, or text on standard input")
    return text


def _headers(lines: list[str] | None) -> dict[str, str]:
    headers = {}
    for line in lines or ():
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise UsageError("a --header has no name or no colon: --header 'Retry-After: 3' would be right")
        headers[name.strip().lower()] = value.strip()
    return headers


def _as_json(failure: Failure, forecasts: list[Forecast]) -> dict[str, object]:
    return {
        "failure": failure.as_dict(),
        "remedy": failure.remedy,
        "pages": failure.pages,
        "profiles": {each.profile: verdict.as_dict(each) for each in forecasts},
    }
