"""Lets the audits import their own helpers; nothing else is shared."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "exceptions"))
