"""A stage for a process of its own, which finds it by name."""

import reprieve

MATERIAL = {
    "question": "Which?",
    "schema": {"type": "integer"},
    "samples": ["ada@example.org wrote it"],
    "answers": [{"text": "many", "finish": "complete", "errors": ["not an integer"]}],
}


def judge(job: reprieve.Job[str], text: str) -> int:
    raise reprieve.Unusable("the answer cannot be used", material=MATERIAL)
