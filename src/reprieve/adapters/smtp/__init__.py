"""Messages by mail, and a journal mailbox in which they are found again.

sender.py       the sender;  connections.py  the dialogue with the server, step by step, on connections kept for a burst
journal.py      the look-up;  imap.py  as much of IMAP as that takes;  security.py  what may travel in the clear
"""

from __future__ import annotations

from reprieve.adapters.smtp.journal import Imap
from reprieve.adapters.smtp.sender import SMTP

__all__ = ["SMTP", "Imap"]
