"""What the application needs from outside, as intent; adapters say how.

clock.py     time, passed in
intents.py   what a caller wants of the store, as values, and the answers
store.py     the store that applies them
reader.py    what can be looked up, apart from what can be changed
isolation.py work in a process of its own
processes.py commands that are watched over
"""

from __future__ import annotations

from reprieve.ports.clock import Clock

__all__ = ["Clock"]
