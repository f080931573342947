"""Floods of every door of a real cluster: the node's memory, its links, and its other clients.

Whether others are served is counted, not timed: a bystander has all of its requests answered while the flood goes on,
and peers count the connections that the flooded node refused them or ended. How much slower others are is measured by
`make bench-floods`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.flood_senders import FLOODS
from benchmarks.flood_watch import Bystander, Watch, flooding, peer_connections_ended, prepare, rss_kib
from epoxy.testing import Cluster, cluster

MOST_GROWTH_KIB = 64 << 10
REQUESTS = 40
"""Of the bystander, during each flood."""


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("floods")
    with cluster(3, folder=folder) as made:
        prepare(made)
        yield made


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_harms_no_other_client(flooded: Cluster, name: str) -> None:
    node = flooded[0]
    ended_before = peer_connections_ended(flooded)
    with Bystander(node, name) as bystander:
        for _ in range(4):
            bystander.ask()
        before_kib = rss_kib(node)
        with flooding(name, node) as counts, Watch(flooded) as watch:
            for _ in range(REQUESTS):
                bystander.ask()
        assert len(bystander.took_s) == 4 + REQUESTS
        assert bystander.lost(flooded[2]) == []
    assert counts["sent"] > 0, "the flood never began"
    assert watch.samples > 0
    assert watch.most_kib - before_kib <= MOST_GROWTH_KIB
    assert peer_connections_ended(flooded) == ended_before, "peers lost connections, or were refused"
    flooded.wait_until_connected()
