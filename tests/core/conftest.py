"""A judge at a fixed moment."""

import pytest

from reprieve.app.judging import classify, classify_response

NOW = 1_800_000_000.0


@pytest.fixture
def judge():
    return lambda exc, **options: classify(exc, now=NOW, **options)


@pytest.fixture
def judge_status():
    return lambda status, headers=None, body=None, **options: classify_response(
        status, headers, body, now=NOW, **options
    )
