"""Cached analysis: a model is asked once about each signature, whoever asks, and its answer is kept.

questions.py   what is asked: a prompt, a schema, and the version that both make
results.py     what is known of a signature, and of a batch
looking.py     many look-ups of the cache in one round trip
holding.py     what is being asked is held, for as long as that takes
asking.py      one signature through the model: judged, decided and written as every failure is
service.py     `analyze` and `analyze_many`
"""

from __future__ import annotations

from reprieve.app.analysis.results import Analyzed, Batch
from reprieve.app.analysis.service import Analysis

__all__ = ["Analysis", "Analyzed", "Batch"]
