"""Deliveries over real applications, databases and receivers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lab"))
