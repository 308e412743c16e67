"""Workers: claim jobs, run their stages one after another, write down what became of them.

worker.py     comes, renews, leaves;  settings.py  how much at once, how long a lease
claiming.py   ready jobs, suspects, probes;  crew.py  the jobs that run;  running.py  one of them
runner.py     takes a job through its stages
verdicts.py   what went wrong -> what is done about it -> what is written;  records.py  the rows of it
gates.py      which stages are held or paused, and the breakers
recovery.py   takes over what dead workers held;  time.py  the store's clock
"""

from __future__ import annotations

from reprieve.app.worker.settings import WorkerSettings
from reprieve.app.worker.worker import Worker

__all__ = ["Worker", "WorkerSettings"]
