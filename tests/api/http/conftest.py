"""A door that a test may ask for."""

import pytest

from tests.api.http.api_door import Door


@pytest.fixture
def door() -> Door:
    return Door()
