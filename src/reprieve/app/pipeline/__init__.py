"""Declaring pipelines: stages in order, the types between them, and what their functions are given.

declare.py    Pipeline;  rules.py  what a stage may be, checked where it is declared
stage.py      Stage: how it gets the results of earlier ones
job.py        Job;  memos.py  what it remembers
values.py     typed values as bytes;  shape.py  fingerprints of types;  wording.py  what is wrong with a value, without the value
finding.py    pipelines by `module:object`
"""

from __future__ import annotations

from reprieve.app.pipeline.declare import Pipeline
from reprieve.app.pipeline.job import Job
from reprieve.app.pipeline.stage import Stage

__all__ = ["Job", "Pipeline", "Stage"]
