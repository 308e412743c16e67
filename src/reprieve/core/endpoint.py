"""What of the environment may go to a model's endpoint: a key that somebody else could read on the way may not."""

from __future__ import annotations

from reprieve.errors import UsageError


def is_https(address: str) -> bool:
    """Whether nobody reads along; what is no address is not."""
    return address.strip().lower().startswith("https://")


def usable_key(key: str | None) -> str | None:
    """The key without the line end that files and shells leave behind it; None for none at all."""
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the key of a model has a sign in it that a header cannot hold: a line end, or no ASCII")
    return key or None


def secret_headers(lines: str | None) -> dict[str, str]:
    """Of headers, a `name: value` on each line, those whose names say that they are secret, without `Bearer` and its like."""
    if not lines:
        return {}
    from reprieve.core.redact.keys import kind_of  # noqa: PLC0415 - heavy, and hardly anybody has such headers

    named = [
        (name.strip(), value.split()) for name, colon, value in (line.partition(":") for line in lines.split("\n"))
    ]
    return {name: words[-1] for name, words in named if words and kind_of(name.encode()) is not None}
