"""An API over a fake node, for any test."""

import pytest

from tests.api.http.fake_api import FakeApi


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in this process must not end it: a busy machine may well stand still for as long as their leases."""
    monkeypatch.setattr("epoxy.client.worker.Worker.watched", False)
