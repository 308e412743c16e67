"""What is said about signatures: whoever may ask the model of one holds it under a fence, and writes what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprieve.core.value import value

if TYPE_CHECKING:
    from reprieve.core.analysis import AnalysisStatus
    from reprieve.ports.modelling import Usage


@value
class AnalysisRow:
    """What is known of one signature."""

    signature: str
    question: str
    status: AnalysisStatus
    is_human_verified: bool
    answer: bytes | None
    """As given."""
    model: str | None
    error_type: str | None
    error_reason: str | None
    failure_count: int
    last_error_at: float | None
    retry_after: float | None
    fence: int
    leased_by: str | None
    leased_until: float | None
    changed_at: float
    usage: Usage
    """What all that was asked about it has taken so far, as far as the provider said."""


@value
class Material:
    """What a reviewer needs, each as JSON, as given."""

    schema: bytes | None = None
    samples: bytes | None = None
    answers: bytes | None = None
    """What the model answered, each with how it ended and what is wrong with it."""


@value
class Reserve:
    """Reserve those of these signatures that may be asked of the model, each for one alone; make those that are not there yet."""

    signatures: tuple[str, ...]
    """At most 1,000, each once."""
    question: str
    owner: str
    """Unlike any other who asks."""
    until: float
    now: float
    unfit: tuple[tuple[str, int], ...] = ()
    """Signatures with their fences: what the model answered about these does not fit any more, though the question is the same."""


@value
class Reserved:
    """All of them as they are now, in the order of asking."""

    rows: tuple[AnalysisRow, ...]
    mine: frozenset[str]
    """Those that the one who asked holds now, under the fence in its row."""


@value
class Prolong:
    """Hold signatures for longer, as long as they are still held under their fences; answered by how many are."""

    holds: tuple[tuple[str, int], ...]
    """Each with its fence."""
    until: float


@value
class Conclude:
    """The model's answer fits: analyzed."""

    signature: str
    fence: int
    answer: bytes
    model: str
    now: float
    usage: Usage | None = None


@value
class Fault:
    """One error (LLM-6.1), sanitized, and what the signature is after it; a lease is kept where another try follows."""

    signature: str
    fence: int
    status: AnalysisStatus
    """active, skipped or needs_review."""
    error_type: str
    error_reason: str
    now: float
    retry_after: float | None = None
    """None where it is permanent."""
    until: float | None = None
    """The lease is kept so long: the same one tries again."""
    material: Material | None = None
    """With `needs_review`."""
    usage: Usage | None = None
    """Of what was answered, where something was."""


@value
class LetGo:
    """Give the lease back without an answer; nothing else has changed."""

    signature: str
    fence: int
    now: float


@value
class Recall:
    """A verified answer does not fit the question as it is now: back to a person."""

    signature: str
    fence: int
    question: str
    reason: str
    now: float
    material: Material


@value
class Reset:
    """Have skipped signatures asked of the model again."""

    signatures: tuple[str, ...]
    """At most 1,000, each once."""
    actor: str
    note: str
    now: float


@value
class WasReset:
    """Those that were skipped, and are active now."""

    signatures: tuple[str, ...]
