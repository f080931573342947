"""An API over a fake node, for any test."""

import pytest

from tests.api.http.fake_api import FakeApi


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()
