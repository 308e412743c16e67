"""The Lua scripts: each runs on the server as a whole, so that no crash and no other consumer comes between its steps."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class Script:
    """A script by its text, and the SHA-1 that the server knows it by."""

    name: str
    text: bytes
    sha: str

    def is_unknown(self, reply: object) -> bool:
        """Whether a reply says that the server does not know the script: after a restart, or on another node."""
        if not isinstance(reply, Exception):
            return False
        return type(reply).__name__ == "NoScriptError" or str(reply).startswith("NOSCRIPT")


def load_script(name: str) -> Script:
    """Read a script of this package."""
    text = files("reprieve.streams").joinpath("lua", f"{name}.lua").read_bytes()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest())


HEARTBEAT: Final = load_script("heartbeat")
CLAIM_DUE: Final = load_script("claim_due")
CLAIM_SUSPECT: Final = load_script("claim_suspect")
SCHEDULE_RETRY: Final = load_script("schedule_retry")
DEAD_LETTER: Final = load_script("dead_letter")
ACKNOWLEDGE: Final = load_script("acknowledge")
RELEASE: Final = load_script("release")
RESCUE: Final = load_script("rescue")
RESTORE_DUE_TIMES: Final = load_script("restore_due_times")
TRIM: Final = load_script("trim")
COMPARE_AND_SET: Final = load_script("compare_and_set")
UPDATE_ALERT: Final = load_script("update_alert")
CLAIM_NOTIFICATION: Final = load_script("claim_notification")
COUNT_AFTER: Final = load_script("count_after")
