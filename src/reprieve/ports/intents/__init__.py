"""What a caller wants of the store: small frozen values, applied in batches, each with an answer of its own.

Every intent that a worker sends about a job carries the fence of its claim. The store applies it only while the job is
leased under that very fence; else it changes nothing and answers `STALE`. All times are seconds since the epoch by the
store's clock; all texts are writable (no NUL, no lone surrogates) and sanitized; all bytes are stored as given.

    states.py      where a job stands, what became of an intent, how often a stage was tried
    submitting.py  claiming.py  reporting.py  operating.py  workers.py  letters.py  delivering.py  analysing.py  reviewing.py
    alerting.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reprieve.ports.intents.alerting import (
    Acknowledge,
    NoticeRecord,
    NoticesTaken,
    Raise,
    Raised,
    Resolve,
    Resolved,
    TakeNotices,
    Told,
    Weigh,
)
from reprieve.ports.intents.analysing import (
    AnalysisRow,
    Conclude,
    Fault,
    LetGo,
    Material,
    Prolong,
    Recall,
    Reserve,
    Reserved,
    Reset,
    WasReset,
)
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
from reprieve.ports.intents.reviewing import Continuation, Rule, Ruled
from reprieve.ports.intents.states import CODEC_JSON, Counters, QueueState, Written
from reprieve.ports.intents.submitting import HIGHEST_VERSION, KeyTaken, Submit, Submitted, VersionTooLow
from reprieve.ports.intents.workers import Leave, Lost, LostWorker, Register, Renew, Renewed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANSWERS",
    "CODEC_JSON",
    "HIGHEST_VERSION",
    "Acknowledge",
    "AlertIntent",
    "AnalysisIntent",
    "AnalysisRow",
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
    "Conclude",
    "Continuation",
    "Correct",
    "Counters",
    "DeadLetterRecord",
    "DeliveryAttempt",
    "DeliveryIntent",
    "DeliveryRecord",
    "Draft",
    "End",
    "Enlist",
    "Fault",
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
    "LetGo",
    "LetterIntent",
    "Lost",
    "LostWorker",
    "Material",
    "NoticeRecord",
    "NoticesTaken",
    "Pause",
    "Prepare",
    "Prepared",
    "Probe",
    "Prolong",
    "Promote",
    "Promoted",
    "QueueState",
    "Raise",
    "Raised",
    "Recall",
    "Refused",
    "Register",
    "Release",
    "Remedied",
    "Remedy",
    "Remember",
    "Renew",
    "Renewed",
    "Replay",
    "Reserve",
    "Reserved",
    "Reset",
    "Resolve",
    "Resolved",
    "Resume",
    "Retry",
    "Revision",
    "Rule",
    "Ruled",
    "SetAside",
    "Settle",
    "StageIntent",
    "Steer",
    "Step",
    "Stop",
    "StoredResult",
    "Submit",
    "Submitted",
    "TakeNotices",
    "Told",
    "VersionTooLow",
    "Wake",
    "WakeDelivered",
    "WasReset",
    "Weigh",
    "WorkerIntent",
    "Written",
]

LetterIntent = Bury | Remedy | Replay | Settle | Gather | Enlist | Steer | Launch
DeliveryIntent = Prepare | Begin | End | Correct | WakeDelivered
AnalysisIntent = Reserve | Prolong | Conclude | Fault | LetGo | Recall | Reset | Rule
AlertIntent = Raise | Weigh | Resolve | Acknowledge | TakeNotices | Told
JobIntent = Checkpoint | Finish | Retry | Bury | SetAside | Await | Release | Remember | Complete | Stop | Cancel
StageIntent = Pause | Resume | Hold | Close | Probe | GiveBack
WorkerIntent = Register | Renew | Leave | Lost
Intent = (
    Submit
    | Claim
    | Promote
    | Wake
    | JobIntent
    | LetterIntent
    | DeliveryIntent
    | AnalysisIntent
    | StageIntent
    | WorkerIntent
    | AlertIntent
)
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
    | Reserved
    | WasReset
    | Ruled
    | Raised
    | Resolved
    | NoticesTaken
    | int
    | bool
    | None
)  # Register, Gather: the id; Probe: granted or not; Wake, Settle, Enlist, Prolong: how many; Launch: None where it came too late; Pause, Resume, Hold, Close, GiveBack, Leave: whether anything changed; Lost: whether it is lost

ANSWERS: Final[Mapping[type, type | tuple[type, ...]]] = {
    Submit: (Submitted, KeyTaken, VersionTooLow),
    Claim: Claimed,
    Promote: Promoted,
    Cancel: Cancelled,
    Renew: Renewed,
    **dict.fromkeys((Remedy, Replay), Remedied),
    Launch: (Launched, type(None)),
    Prepare: Prepared,
    Reserve: Reserved,
    Reset: WasReset,
    Rule: Ruled,
    **dict.fromkeys((Raise, Weigh), Raised),
    Resolve: Resolved,
    TakeNotices: NoticesTaken,
    Gather: (int, type(None)),
    **dict.fromkeys((Register, Wake, Settle, Enlist, WakeDelivered, Prolong), int),
    **dict.fromkeys((Pause, Resume, Hold, Close, Probe, GiveBack, Leave, Lost, Steer, Acknowledge), bool),
    **dict.fromkeys(
        (
            Checkpoint,
            Finish,
            Retry,
            Bury,
            SetAside,
            Await,
            Release,
            Remember,
            Complete,
            Stop,
            Begin,
            End,
            Correct,
            Conclude,
            Fault,
            LetGo,
            Recall,
            Told,
        ),
        Written,
    ),
}
"""Which answer each intent gets; the conformance suite holds every store to it."""
