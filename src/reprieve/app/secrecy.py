"""The credentials that a model or a sender holds: known to redaction from the moment that it is made."""

from __future__ import annotations

from functools import wraps
from typing import Any, TypeVar, cast

Kind = TypeVar("Kind", bound=type)


def keep_secrets(holder: Any, what: str) -> None:  # noqa: ANN401 - a model or a sender, which need have no secrets
    """Take the credentials that it names out of every text from now on; those too short to be found are left."""
    secrets: tuple[str, ...] = getattr(holder, "secrets", ())
    if secrets:
        from reprieve.app import redaction  # noqa: PLC0415 - its rules are heavy
        from reprieve.core.redact import SHORTEST  # noqa: PLC0415 - the same

        known = {value for _, value in redaction.DEFAULT.secrets.values}  # registering one anew is work for all
        for secret in secrets:
            if len(secret) >= SHORTEST and secret not in known:
                redaction.register_secret(secret, name=f"{what} {holder.name}")


def keeping_secrets(kind: Kind, what: str) -> Kind:
    """The same class for who uses it; whatever is made of it has its credentials registered."""
    made = cast("Any", kind).__init__

    @wraps(made)
    def __init__(self: object, *values: object, **settings: object) -> None:  # noqa: N807 - it becomes one
        made(self, *values, **settings)
        keep_secrets(self, what)

    body = {"__init__": __init__, "__doc__": kind.__doc__, "__module__": f"reprieve.{what}s"}
    return type(kind)(kind.__name__, (kind,), body)
