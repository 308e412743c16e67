"""What all tests share: the requirement ids of a test become properties of the report; generated examples repeat."""

import os

import pytest
from hypothesis import settings

# The same examples in every run, so that a failure is the change's; HYPOTHESIS_PROFILE=default draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write each `@pytest.mark.spec(...)` id as a property `spec`, which the coverage of the specification reads."""
    for item in items:
        for mark in item.iter_markers("spec"):
            item.user_properties.extend(("spec", spec_id) for spec_id in mark.args)
