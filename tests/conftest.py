"""What all tests share: the requirement ids of a test become properties of the report."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write each `@pytest.mark.spec(...)` id as a property `spec`, which the coverage of the specification reads."""
    for item in items:
        for mark in item.iter_markers("spec"):
            item.user_properties.extend(("spec", spec_id) for spec_id in mark.args)
