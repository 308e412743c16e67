"""The history of a message that failed: what the group's `state` hash holds for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from reprieve.core.policy import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_EVENTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHistory:
    """Runs of a message by origin, and its last failures. A message that never failed has none.

    `crash`, `out_of_memory` and `lost_lease` are counted by scripts, in fields of their own, and only read here.
    They are about the consumer. What became of worker processes of a consumer that lived on is counted beside them.
    """

    handler: int = 0
    deploy: int = 0
    crash: int = 0
    out_of_memory: int = 0
    lost_lease: int = 0
    worker_crash: int = 0
    worker_out_of_memory: int = 0
    first_failure_at: float | None = None
    opened_at: float | None = None
    """When the first attempt of this budget began, for a policy's deadline."""
    last_error_class: str = ""
    events: tuple[Mapping[str, Any], ...] = ()
    """The last failures: `at`, `error_class`, `error`, `origin`."""
    replays: int = 0
    replayed_from: str = ""
    """The id of the dead letter that it was replayed from last."""
    original_id: str = ""
    """The id of the first entry, where a replay had to add a new one."""

    def count(self, cause: Cause) -> int:
        """Return the runs that this origin ended."""
        return int(getattr(self, cause.value)) + int(getattr(self, f"worker_{cause.value}", 0))

    def by_origin(self) -> dict[str, int]:
        """Return the runs of every origin that ended one."""
        return {cause.value: self.count(cause) for cause in Cause if self.count(cause)}

    def with_failure(self, cause: Cause, *, at: float, started: float, error_class: str, error: str) -> MessageHistory:
        """Return the history with one more failed run."""
        event = {"at": round(at, 3), "error_class": error_class, "error": error, "origin": cause.value}
        return replace(
            self,
            handler=self.handler + (cause is Cause.HANDLER),
            deploy=self.deploy + (cause is Cause.DEPLOY),
            worker_crash=self.worker_crash + (cause is Cause.CRASH),
            worker_out_of_memory=self.worker_out_of_memory + (cause is Cause.OUT_OF_MEMORY),
            first_failure_at=at if self.first_failure_at is None else self.first_failure_at,
            opened_at=started if self.opened_at is None else self.opened_at,
            last_error_class=error_class,
            events=(*self.events, event)[-MAX_EVENTS:],
        )

    def to_json(self) -> str:
        """Return the JSON of the hash field, `handler` first: a script reads it there."""
        known = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _COUNTED}
        return json.dumps({name: value for name, value in known.items() if value or name == "handler"})


_COUNTED: Final = ("crash", "out_of_memory", "lost_lease")


def read_history(
    text: bytes | None, *, lost_lease: int = 0, crash: int = 0, out_of_memory: int = 0
) -> MessageHistory | None:
    """Return the history in a hash field, or None where there is none. Unknown and damaged values are left out."""
    if text is None and not (lost_lease or crash or out_of_memory):
        return None
    try:
        stored = json.loads(text or b"{}")
    except ValueError:
        stored = {}
    if not isinstance(stored, dict):
        stored = {}
    known = {each.name: stored[each.name] for each in fields(MessageHistory) if each.name in stored}
    known["events"] = tuple(each for each in known.get("events", ()) if isinstance(each, dict))
    history = MessageHistory(**known)
    return replace(history, crash=crash, out_of_memory=out_of_memory, lost_lease=lost_lease)
