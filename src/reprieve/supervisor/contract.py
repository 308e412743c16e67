"""How a supervisor and its workers talk, and `serve`, the worker's side of it in Python.

The task is one JSON document: on standard input, or in the file that REPRIEVE_TASK_FILE names. A worker says that it is
ready by a byte to the descriptor REPRIEVE_READY_FD (4), or by making the file REPRIEVE_READY_FILE. The result is one
JSON object, `{"status": "finished", "result": ...}` or `{"status": "error", "error": "..."}`, of at most 1 MiB, to the
descriptor REPRIEVE_RESULT_FD (3) or into the file REPRIEVE_RESULT_FILE. Without one, exit code 0 means a result of null.

Only the standard library is loaded here until something fails: a worker starts as fast as its own modules allow.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

TASK_FILE: Final = "REPRIEVE_TASK_FILE"
TASK_ID: Final = "REPRIEVE_TASK_ID"
TASK_ATTEMPT: Final = "REPRIEVE_TASK_ATTEMPT"
READY_FD: Final = "REPRIEVE_READY_FD"
READY_FILE: Final = "REPRIEVE_READY_FILE"
RESULT_FD: Final = "REPRIEVE_RESULT_FD"
RESULT_FILE: Final = "REPRIEVE_RESULT_FILE"
RESULT_NUMBER: Final = 3
READY_NUMBER: Final = 4
"""Descriptors of a worker process: single digits, since a POSIX shell redirects to no others."""
MAX_RESULT_BYTES: Final = 1024 * 1024
MAX_ERROR_CHARACTERS: Final = 2000
MAX_STACK_CHARACTERS: Final = 4000


def serve(handler: Callable[[Any], Any]) -> None:
    """Handle the one task of this process: call the function with it, and hand over what it returns.

    The function may be async. Its argument and its result are JSON values. An exception becomes the result
    `status="error"` with the sanitized message; the process then exits with 0, since it has answered.
    """
    say_ready()
    try:
        task = json.loads(_read_task())
        result = handler(task)
        if inspect.isawaitable(result):
            import asyncio  # noqa: PLC0415 - only for async functions

            result = asyncio.run(_awaited(result))
        document = _finished(result)
    except Exception as error:  # noqa: BLE001 - whatever the function raises is its result
        document = describe_exception(error)
    write_result(document)


def say_ready() -> None:
    """Tell the supervisor that this process has started well. `serve` does it by itself."""
    descriptor, file = os.environ.pop(READY_FD, None), os.environ.pop(READY_FILE, None)
    if descriptor is not None:
        os.write(int(descriptor), b"\n")
        os.close(int(descriptor))
    if file is not None:
        _write_file(file, b"")


def write_result(document: bytes) -> None:
    """Hand the result over; to standard output where no supervisor started this process."""
    descriptor, file = os.environ.pop(RESULT_FD, None), os.environ.pop(RESULT_FILE, None)
    if descriptor is not None:
        with os.fdopen(int(descriptor), "wb") as stream:
            stream.write(document)
    elif file is not None:
        _write_file(file, document)
    else:
        sys.stdout.write(document.decode() + "\n")


def describe_exception(error: Exception) -> bytes:
    """Return the result document of an exception: its message, stack and classification, all without secrets."""
    from reprieve.app.judging import classify  # noqa: PLC0415 - only what failed waits for it
    from reprieve.app.redaction import redact, redact_exception  # noqa: PLC0415 - the same

    failure = classify(error, profile="orchestrator")
    message = redact(str(error)) or type(error).__name__
    described = {
        "status": "error",
        "error": message[:MAX_ERROR_CHARACTERS],
        "exception_type": type(error).__name__,
        "error_class": str(failure.error_class),
        "retryable": failure.retryable,
        "retry_after": failure.retry_after,
        "stack": redact_exception(error, limit=MAX_STACK_CHARACTERS),
        "failure": failure.as_dict(),
    }
    return json.dumps(described).encode()


def _finished(result: object) -> bytes:
    document = json.dumps({"status": "finished", "result": result}, allow_nan=False).encode()
    if len(document) > MAX_RESULT_BYTES:
        raise ValueError(
            f"the result has {len(document)} bytes of JSON; at most {MAX_RESULT_BYTES} can be handed over: "
            "store it elsewhere and return where it is"
        )
    return document


def _read_task() -> bytes:
    file = os.environ.get(TASK_FILE)
    if file is None:
        return sys.stdin.buffer.read()
    with open(file, "rb") as stream:  # noqa: PTH123 - pathlib would be loaded for this line alone
        return stream.read()


def _write_file(file: str, data: bytes) -> None:
    with open(file, "wb") as stream:  # noqa: PTH123 - the same
        stream.write(data)


async def _awaited(result: Any) -> Any:  # noqa: ANN401 - what the user's function returns
    return await result
