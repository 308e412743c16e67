"""The page on models, run as its reader would, with the embedded model."""

from __future__ import annotations

LOOK = """
import models_page as page
print(page.MODELS)
print(type(page.FOUND).__name__, page.VERDICT)
"""


def test_every_program_of_the_page_runs(page, reader, tmp_path):
    (tmp_path / "models_page.py").write_text("\n\n".join(page("docs/models.md").programs), encoding="utf-8")
    reader.environment |= {"OPENAI_API_KEY": "key-of-a-test-0005", "ANTHROPIC_API_KEY": "key-of-a-test-0006"}
    done = reader.python("-c", LOOK)
    assert done.returncode == 0, done.stderr
    *_, models, found = done.stdout.splitlines()
    assert found == "Page {'verdict': 'good'}"
    assert models.count("openai:gpt-5-mini") == 2
    assert models.count("local:SmolLM2") == 2
