"""Operators' work on dead letters, over real applications and databases."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lab"))
