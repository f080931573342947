from collections.abc import Iterator

import pytest

from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.world import regions


@pytest.fixture(scope="session")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoCluster]:
    """Three regions without faults. Tests share them, so each uses keys of its own."""
    with regions(tmp_path_factory.mktemp("trio")) as cluster:
        yield cluster
