"""Alerts: raised where a failure is written, told by a herald beside every worker.

raising.py   what a failure, a batch or a delivery raises; the one call for whoever sees something
herald.py    tells sinks what they have to hear, and ends what is over
sinks.py     the log, and whatever a sender reaches
"""

from __future__ import annotations

from reprieve.app.alerts.herald import Herald
from reprieve.app.alerts.raising import Alerts
from reprieve.app.alerts.sinks import SenderSink

__all__ = ["Alerts", "Herald", "SenderSink"]
