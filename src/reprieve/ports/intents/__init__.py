"""What a caller wants of the store: small frozen values, applied in batches, each with an answer of its own.

Every intent that a worker sends about a job carries the fence of its claim. The store applies it only while the job is
leased under that very fence; else it changes nothing and answers `STALE`. All times are seconds since the epoch by the
store's clock; all texts are writable (no NUL, no lone surrogates) and sanitized; all bytes are stored as given.

    states.py      where a job stands, what became of an intent, how often a stage was tried
    submitting.py  claiming.py  reporting.py  operating.py  workers.py  letters.py  delivering.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.ports.intents.claiming import Claim, Claimed, Lease, Promote, Promoted, StoredResult
from reprieve.ports.intents.delivering import (
    Begin,
    Correct,
    DeliveryAttempt,
    DeliveryRecord,
    Draft,
    End,
    Prepare,
    Prepared,
    WakeDelivered,
)
from reprieve.ports.intents.letters import (
    Enlist,
    Gather,
    Launch,
    Launched,
    Refused,
    Remedied,
    Remedy,
    Replay,
    Revision,
    Settle,
    Steer,
    Step,
)
from reprieve.ports.intents.operating import Cancel, Cancelled, Close, GiveBack, Hold, Pause, Probe, Resume, Wake
from reprieve.ports.intents.reporting import (
    AttemptRecord,
    Await,
    Bury,
    Checkpoint,
    Complete,
    DeadLetterRecord,
    Finish,
    Release,
    Remember,
    Retry,
    SetAside,
    Stop,
)
from reprieve.ports.intents.states import CODEC_JSON, Counters, QueueState, Written
from reprieve.ports.intents.submitting import KeyTaken, Submit, Submitted, VersionTooLow
from reprieve.ports.intents.workers import Leave, Lost, LostWorker, Register, Renew, Renewed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANSWERS",
    "CODEC_JSON",
    "Answer",
    "AttemptRecord",
    "Await",
    "Begin",
    "Bury",
    "Cancel",
    "Cancelled",
    "Checkpoint",
    "Claim",
    "Claimed",
    "Close",
    "Complete",
    "Correct",
    "Counters",
    "DeadLetterRecord",
    "DeliveryAttempt",
    "DeliveryIntent",
    "DeliveryRecord",
    "Draft",
    "End",
    "Enlist",
    "Finish",
    "Gather",
    "GiveBack",
    "Hold",
    "Intent",
    "JobIntent",
    "KeyTaken",
    "Launch",
    "Launched",
    "Lease",
    "Leave",
    "LetterIntent",
    "Lost",
    "LostWorker",
    "Pause",
    "Prepare",
    "Prepared",
    "Probe",
    "Promote",
    "Promoted",
    "QueueState",
    "Refused",
    "Register",
    "Release",
    "Remedied",
    "Remedy",
    "Remember",
    "Renew",
    "Renewed",
    "Replay",
    "Resume",
    "Retry",
    "Revision",
    "SetAside",
    "Settle",
    "StageIntent",
    "Steer",
    "Step",
    "Stop",
    "StoredResult",
    "Submit",
    "Submitted",
    "VersionTooLow",
    "Wake",
    "WakeDelivered",
    "WorkerIntent",
    "Written",
]

LetterIntent = Bury | Remedy | Replay | Settle | Gather | Enlist | Steer | Launch
DeliveryIntent = Prepare | Begin | End | Correct | WakeDelivered
JobIntent = Checkpoint | Finish | Retry | Bury | SetAside | Await | Release | Remember | Complete | Stop | Cancel
StageIntent = Pause | Resume | Hold | Close | Probe | GiveBack
WorkerIntent = Register | Renew | Leave | Lost
Intent = Submit | Claim | Promote | Wake | JobIntent | LetterIntent | DeliveryIntent | StageIntent | WorkerIntent
Answer = (
    Submitted
    | KeyTaken
    | VersionTooLow
    | Claimed
    | Promoted
    | Written
    | Cancelled
    | Renewed
    | Remedied
    | Launched
    | Prepared
    | int
    | bool
    | None
)  # Register, Gather: the id; Probe: granted or not; Wake, Settle, Enlist: how many; Launch: None where it came too late; Pause, Resume, Hold, Close, GiveBack, Leave: whether anything changed; Lost: whether it is lost

ANSWERS: Final[Mapping[type, type | tuple[type, ...]]] = {
    Submit: (Submitted, KeyTaken, VersionTooLow),
    Claim: Claimed,
    Promote: Promoted,
    Cancel: Cancelled,
    Renew: Renewed,
    **dict.fromkeys((Remedy, Replay), Remedied),
    Launch: (Launched, type(None)),
    Prepare: Prepared,
    **dict.fromkeys((Register, Wake, Settle, Gather, Enlist, WakeDelivered), int),
    **dict.fromkeys((Pause, Resume, Hold, Close, Probe, GiveBack, Leave, Lost, Steer), bool),
    **dict.fromkeys(
        (Checkpoint, Finish, Retry, Bury, SetAside, Await, Release, Remember, Complete, Stop, Begin, End, Correct),
        Written,
    ),
}
"""Which answer each intent gets; the conformance suite holds every store to it."""
