"""A door that a test may ask for."""

import pytest

from tests.server.api_door import Door


@pytest.fixture
def door() -> Door:
    return Door()
