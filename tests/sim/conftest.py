"""None of this runs against the compiled package: see the marker's words."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
PURE = pytest.mark.pure("tries the simulator's judges with faults planted in the rules; the simulator is not compiled")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(PURE)
