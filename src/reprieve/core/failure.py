"""The taxonomy as one table, and the record that every failure becomes.

An error class earns its place by a remedy of its own. `docs/taxonomy.md` is generated from `TAXONOMY`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Category(StrEnum):
    """The nine rows of the Criticizer's table (8.1), and what fits none of them."""

    NETWORK = "network"
    RATE_LIMIT = "rate_limit"
    UPSTREAM = "upstream"
    CONFLICT = "conflict"
    VALIDATION = "validation"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    POLICY = "policy"
    CONFIGURATION = "configuration"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """How far the damage goes: a glitch, a sick upstream, this item for good, or every item until someone acts."""

    TRANSIENT = "transient"
    UPSTREAM = "upstream"
    PERMANENT = "permanent"
    FATAL = "fatal"


class Scope(StrEnum):
    """What has to be done again for a retry to make sense."""

    SAME_REQUEST = "same_request"
    NEW_CONNECTION = "new_connection"
    WHOLE_TRANSACTION = "whole_transaction"
    AFTER_REPAIR = "after_repair"
    HUMAN = "human"


class ErrorClass(StrEnum):
    """The stable names; users may add their own, which are plain strings."""

    NETWORK_TIMEOUT = "NETWORK_TIMEOUT"
    CONNECTION_RESET = "CONNECTION_RESET"
    CONNECTION_REFUSED = "CONNECTION_REFUSED"
    DNS_FAILURE = "DNS_FAILURE"
    UPSTREAM_UNAVAILABLE = "UPSTREAM_UNAVAILABLE"
    RATE_LIMITED = "RATE_LIMITED"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"
    UPSTREAM_ERROR = "UPSTREAM_ERROR"
    OVERLOADED = "OVERLOADED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    LOCK_TIMEOUT = "LOCK_TIMEOUT"
    DATABASE_UNAVAILABLE = "DATABASE_UNAVAILABLE"
    OPERATION_TIMEOUT = "OPERATION_TIMEOUT"
    DECLARED_RETRYABLE = "DECLARED_RETRYABLE"
    WRITE_CONFLICT = "WRITE_CONFLICT"
    SCHEMA_INVALID = "SCHEMA_INVALID"
    REQUEST_REJECTED = "REQUEST_REJECTED"
    OUTPUT_INVALID = "OUTPUT_INVALID"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    CONSTRAINT_VIOLATED = "CONSTRAINT_VIOLATED"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    AUTH_DENIED = "AUTH_DENIED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    RECIPIENT_INVALID = "RECIPIENT_INVALID"
    POLICY_REJECTED = "POLICY_REJECTED"
    DECLARED_PERMANENT = "DECLARED_PERMANENT"
    BUG = "BUG"
    CONFIG_INVALID = "CONFIG_INVALID"
    TLS_INVALID = "TLS_INVALID"
    STORAGE_CORRUPT = "STORAGE_CORRUPT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    WORKER_LOST = "WORKER_LOST"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the taxonomy: all that is known of an error class before any evidence is seen."""

    category: Category
    severity: Severity
    retryable: bool
    pages: bool
    scope: Scope
    remedy: str
    requires_idempotent: bool = False
    fatal_when_spent: bool = False


def _rows() -> dict[str, Kind]:
    network, upstream = Category.NETWORK, Category.UPSTREAM
    validation, configuration = Category.VALIDATION, Category.CONFIGURATION
    transient, sick = Severity.TRANSIENT, Severity.UPSTREAM
    permanent, fatal = Severity.PERMANENT, Severity.FATAL
    same, connect, transaction = Scope.SAME_REQUEST, Scope.NEW_CONNECTION, Scope.WHOLE_TRANSACTION
    repair, human = Scope.AFTER_REPAIR, Scope.HUMAN
    yes, no = True, False
    of = ErrorClass
    # fmt: off
    return {
        of.NETWORK_TIMEOUT: Kind(network, transient, yes, no, same,
            "Check the upstream's latency; raise the stage's timeout if the work is honestly that slow."),
        of.CONNECTION_RESET: Kind(network, transient, yes, no, connect,
            "Look for restarts or an idle timeout between here and the upstream; retries open a new connection."),
        of.CONNECTION_REFUSED: Kind(network, transient, yes, no, connect,
            "Check that the service is up and that host and port are right."),
        of.DNS_FAILURE: Kind(network, transient, yes, no, connect,
            "Check the host name and the resolver; a misspelt name never resolves."),
        of.UPSTREAM_UNAVAILABLE: Kind(network, transient, yes, no, same,
            "Check the upstream's status page and the gateway in front of it; it answered 502, 503 or 504."),
        of.RATE_LIMITED: Kind(Category.RATE_LIMIT, sick, yes, no, same,
            "Lower the stage's concurrency or ask the provider for a higher limit; Retry-After is honoured."),
        of.QUOTA_EXHAUSTED: Kind(Category.RATE_LIMIT, fatal, no, yes, human,
            "Top up the account or raise its spend limit; waiting does not help."),
        of.UPSTREAM_ERROR: Kind(upstream, sick, yes, no, same,
            "Report it to the upstream with the request id if it goes on; it failed inside."),
        of.OVERLOADED: Kind(upstream, sick, yes, no, same,
            "Wait, lower the load, or switch to another model or region until the provider has capacity."),
        of.RESOURCE_EXHAUSTED: Kind(upstream, sick, yes, no, same,
            "Free disk, memory, file handles or database connections on the machine that ran out."),
        of.LOCK_TIMEOUT: Kind(upstream, transient, yes, no, transaction,
            "Find who holds the lock for so long; shorten that transaction."),
        of.DATABASE_UNAVAILABLE: Kind(network, transient, yes, no, connect,
            "Check that the database is up, reachable and not failing over.", fatal_when_spent=yes),
        of.OPERATION_TIMEOUT: Kind(upstream, permanent, no, no, human,
            "See why it took so long, end what goes on, and replay; or raise its timeout in the profile."),
        of.DECLARED_RETRYABLE: Kind(upstream, transient, yes, no, same,
            "Read the message: the stage's author asked for another try."),
        of.WRITE_CONFLICT: Kind(Category.CONFLICT, transient, yes, no, transaction,
            "Declare the stage idempotent if repeating it is safe; else see who wrote first.",
            requires_idempotent=yes),
        of.SCHEMA_INVALID: Kind(validation, permanent, no, no, repair,
            "Correct the payload or the mapping that made it, then replay."),
        of.REQUEST_REJECTED: Kind(validation, permanent, no, no, repair,
            "Read what the upstream says is wrong with the request; correct the payload or the call."),
        of.OUTPUT_INVALID: Kind(validation, permanent, no, no, repair,
            "Read the model's output and what was expected; correct it by hand, or the prompt or schema."),
        of.CONTEXT_LENGTH_EXCEEDED: Kind(validation, permanent, no, no, repair,
            "Split or shorten the input, or use a model with a longer context."),
        of.PAYLOAD_TOO_LARGE: Kind(validation, permanent, no, no, repair,
            "Split the payload or raise the receiver's limit."),
        of.CONSTRAINT_VIOLATED: Kind(validation, permanent, no, no, repair,
            "Correct the data that the database refused, or the constraint."),
        of.NEEDS_REVIEW: Kind(validation, permanent, no, no, human,
            "Look at the item: its stage asked for a person."),
        of.AUTH_DENIED: Kind(Category.AUTH, fatal, no, yes, human,
            "Rotate or correct the credential, then resume the stage."),
        of.PERMISSION_DENIED: Kind(Category.AUTH, permanent, no, no, human,
            "Grant the missing permission or correct the policy that denies it."),
        of.NOT_FOUND: Kind(Category.NOT_FOUND, permanent, no, no, human,
            "Check the reference; the thing is gone or was never there."),
        of.RECIPIENT_INVALID: Kind(Category.NOT_FOUND, permanent, no, no, human,
            "Correct or remove the recipient; the channel or mailbox does not exist."),
        of.POLICY_REJECTED: Kind(Category.POLICY, permanent, no, no, human,
            "Read which policy refused the content; escalate if that was not expected."),
        of.DECLARED_PERMANENT: Kind(Category.POLICY, permanent, no, no, human,
            "Read the message: the stage's author ruled out another try."),
        of.BUG: Kind(configuration, permanent, no, yes, human,
            "Fix the code at the top of the stack, deploy, then replay."),
        of.CONFIG_INVALID: Kind(configuration, fatal, no, yes, human,
            "Correct the setting, endpoint or deployment that the message names, then resume the stage."),
        of.TLS_INVALID: Kind(configuration, fatal, no, yes, human,
            "Renew the certificate, or correct the host name or the trusted authorities."),
        of.STORAGE_CORRUPT: Kind(configuration, fatal, no, yes, human,
            "Stop writing, restore the file from a backup, then resume."),
        of.OUT_OF_MEMORY: Kind(configuration, permanent, no, yes, human,
            "Give the worker more memory or make the job smaller; it would fail again as it is."),
        of.WORKER_LOST: Kind(Category.UNKNOWN, transient, yes, no, same,
            "See why the worker died: killed, out of memory, or a crash in native code."),
        of.UNKNOWN: Kind(Category.UNKNOWN, transient, yes, no, same,
            "Read the stack; add a rule for this exception if it should be judged otherwise."),
    }
    # fmt: on


TAXONOMY: Final[Mapping[str, Kind]] = _rows()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why: which rule spoke, about which link of the chain, from which field and value."""

    rule: str
    link: str
    """The way from the raised exception to the one that was read, as `httpx.ConnectError > ssl.SSLError`."""
    field: str
    value: str
    """What the field held, sanitized; never free text from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong, whether another try is worth it, and how we know; holds nothing secret."""

    category: Category
    error_class: str
    retryable: bool
    requires_idempotent: bool
    retry_after: float | None
    """Seconds; None where the upstream did not say."""
    status_code: int | None
    severity: Severity
    outcome_unknown: bool
    """The request may have taken effect: look before doing it again."""
    scope: Scope
    message: str
    """Sanitized, at most 1000 characters."""
    signature: str
    """For reading: numbers and UUIDs masked, at most 100 characters."""
    fingerprint: str
    """For grouping: `v1:` and a hash that does not change with arrival order or line numbers."""
    exception_type: str
    """The raised exception, as `package.module.Name`; empty for bare HTTP facts."""
    code: str | None
    """The provider's own word for it: an error code, SQLSTATE, errno name or gRPC status."""
    evidence: tuple[Evidence, ...]
    redactions: tuple[tuple[str, int], ...] = ()
    """Which redaction rules had to act on the message, and how often."""

    @property
    def pages(self) -> bool:
        """Whether an operator is woken; classes that a user added page when they are fatal."""
        kind = TAXONOMY.get(self.error_class)
        return self.severity is Severity.FATAL if kind is None else kind.pages

    @property
    def remedy(self) -> str:
        """One line for the operator."""
        return TAXONOMY.get(self.error_class, TAXONOMY[ErrorClass.UNKNOWN]).remedy

    def to_json(self) -> str:
        """One JSON object; `from_json` gives an equal Failure."""
        return json.dumps(self.as_dict(), separators=(",", ":"), ensure_ascii=False)

    def as_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "category": self.category,
            "error_class": self.error_class,
            "retryable": self.retryable,
            "requires_idempotent": self.requires_idempotent,
            "retry_after": self.retry_after,
            "status_code": self.status_code,
            "severity": self.severity,
            "outcome_unknown": self.outcome_unknown,
            "scope": self.scope,
            "message": self.message,
            "signature": self.signature,
            "fingerprint": self.fingerprint,
            "exception_type": self.exception_type,
            "code": self.code,
            "evidence": [{"rule": e.rule, "link": e.link, "field": e.field, "value": e.value} for e in self.evidence],
            "redactions": dict(self.redactions),
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Failure:
        """Read back what `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Failure:
        """Read back what `as_dict` gave, also what another version did: unknown fields are left, new ones have defaults."""
        try:
            return cls._from_known({**_LATER_FIELDS, **{key: values[key] for key in values if key in cls.__slots__}})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"this is no record of a failure: {type(error).__name__}") from None

    @classmethod
    def _from_known(cls, values: dict[str, Any]) -> Failure:
        error_class, retry_after = values["error_class"], values["retry_after"]
        if not isinstance(error_class, str) or not isinstance(values["retryable"], bool):
            raise TypeError("error_class or retryable")
        return cls(**{
            **values,
            "error_class": ErrorClass(error_class) if error_class in TAXONOMY else error_class,
            "retry_after": None if retry_after is None else float(retry_after),
            "category": Category(values["category"]),
            "severity": Severity(values["severity"]),
            "scope": Scope(values["scope"]),
            "evidence": tuple(Evidence(**item) for item in values["evidence"]),
            "redactions": tuple(dict(values["redactions"]).items()),
        })  # fmt: skip


_LATER_FIELDS: Final[Mapping[str, object]] = {"code": None, "exception_type": "", "redactions": {}}
"""What records of earlier versions may lack."""
