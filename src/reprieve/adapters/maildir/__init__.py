"""Messages as files on this machine: one Maildir a recipient, which any mail program reads."""

from __future__ import annotations

from reprieve.adapters.maildir.sender import Maildir

__all__ = ["Maildir"]
