"""Takes secrets, people's data and prompts out of text; see docs/redaction.md for the rules."""

from reprieve.core.redact.engine import redact, scan
from reprieve.core.redact.mapping import redact_mapping
from reprieve.core.redact.report import RedactionReport
from reprieve.core.redact.secrets import NONE, SHORTEST, Secrets

__all__ = ["NONE", "SHORTEST", "RedactionReport", "Secrets", "redact", "redact_mapping", "scan"]
