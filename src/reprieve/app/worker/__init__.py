"""Workers: claim jobs, run their stages one after another, write down what became of them.

worker.py     comes, claims, renews, leaves;  settings.py  how much at once, how long a lease
running.py    one claimed job through its stages
verdicts.py   what went wrong -> what is done about it -> what is written;  records.py  the rows of it
gates.py      which stages are held or paused, and the breakers
recovery.py   takes over what dead workers held
memory.py     what stages remember;  time.py  the store's clock
"""

from __future__ import annotations

from reprieve.app.worker.settings import WorkerSettings
from reprieve.app.worker.worker import Worker

__all__ = ["Worker", "WorkerSettings"]
