"""Lets the audit's tests import the corpus beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
