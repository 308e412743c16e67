"""The program that parses files of strangers: one request on a line of its input, one answer on a line of its output.

It is started with `python -I -S`, under limits of memory, and is killed by its parent where an answer takes too long.
A request is `[kind, text]` as JSON; an answer is an object. Without an error, `error` is null.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from typing import Any, Final

_MEMORY: Final = 1 << 30
_ROOT: Final = os.path.abspath(f"{__file__}/../../../..")  # noqa: PTH100 - pathlib takes as long to load as a file to parse
_JSON_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')


def main() -> None:
    """Answer requests until the input ends; the first argument is the folder that PyYAML is in, or empty."""
    import resource  # noqa: PLC0415 - for this program alone

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    warnings.simplefilter("ignore")
    sys.path.append(_ROOT)
    if sys.argv[1]:
        sys.path.append(sys.argv[1])
    for request in sys.stdin:
        kind, text = json.loads(request)
        print(json.dumps(answer(kind, text)), flush=True)  # noqa: T201 - the pipe to the parent


def answer(kind: str, text: str) -> dict[str, Any]:
    """Parse one text; an error is `[line, message]`."""
    try:
        found = _PARSERS[kind](text)
    except (RecursionError, MemoryError):
        return {"error": None, "gave_up": "it is nested too deeply"}
    return {"error": None, **found}


def _python(text: str) -> dict[str, Any]:
    from reprieve.review.critic.python_source import read_python  # noqa: PLC0415 - only where a file is Python

    found: dict[str, Any] = read_python(text)
    return found


def _json(text: str) -> dict[str, Any]:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return {"error": [error.lineno, error.msg]}
    return {}


def _json_with_comments(text: str) -> dict[str, Any]:
    plain = _JSON_COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else _blank(found[0]), text)
    return _json(_TRAILING_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else " ", plain))


def _blank(text: str) -> str:
    return "".join(sign if sign == "\n" else " " for sign in text)


def _toml(text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - only where a file is TOML

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        message = re.sub(r" \(at .*\)$", "", str(error))
        return {"error": [int(line[1]) if line else text.count("\n") + 1, message]}
    return {}


def _yaml(text: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - only where a file is YAML

    anchors: set[str] = set()
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # no objects are built
            if isinstance(event, yaml.DocumentStartEvent):
                anchors.clear()
            elif isinstance(event, yaml.AliasEvent) and event.anchor not in anchors:
                return {"error": [event.start_mark.line + 1, f"there is no anchor {event.anchor[:60]!r}"]}
            elif isinstance(event, yaml.NodeEvent) and event.anchor:
                anchors.add(event.anchor)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return {"error": [mark.line + 1 if mark else 1, error.problem or "it is not YAML"]}
    except yaml.YAMLError as error:
        return {"error": [1, str(error).partition("\n")[0]]}
    return {}


_PARSERS: Final = {
    "python": _python,
    "json": _json,
    "json-with-comments": _json_with_comments,
    "toml": _toml,
    "yaml": _yaml,
}

if __name__ == "__main__":
    main()
