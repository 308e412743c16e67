"""The outbox: people are told once, whatever breaks.

freezing.py   a message as the bytes that are sent on every try, and the token that stands for it
courier.py    one delivery through one send or one look-up: begun on disk, done, ended on disk
delivering.py what a stage calls;  sweeping.py  what picks up whatever was left in doubt
"""

from __future__ import annotations

from reprieve.app.outbox.delivering import Delivered, deliver, deliver_blocking

__all__ = ["Delivered", "deliver", "deliver_blocking"]
