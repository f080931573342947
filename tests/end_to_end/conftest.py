from collections.abc import Iterator

import pytest

from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.world import regions


@pytest.fixture(scope="session")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoCluster]:
    """Three regions without faults. Tests share them, so each uses keys of its own."""
    with regions(tmp_path_factory.mktemp("trio")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in this process must not end it: a busy machine may well stand still for as long as their leases."""
    monkeypatch.setattr("epoxy.client.worker.Worker.watched", False)
