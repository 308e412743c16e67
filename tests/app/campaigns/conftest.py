"""Where the tests of campaigns find what they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lab"))
