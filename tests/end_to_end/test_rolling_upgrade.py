"""A cluster of the last release becomes one of this build, node by node and under load, and one node goes back."""

import sys
from pathlib import Path

from epoxy import __version__
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, lay_out
from tests.end_to_end.rolling import RollingLoad, replace_build
from tools.previous_release import previous_python

BETWEEN = 150
"""Writes between two steps: some hundred milliseconds, so that every pair of builds meets."""

ADDS = 6
"""To one counter. A node of 0.1.0 that was away cannot tell the outcome of a write of a key that was written more than
eight times meanwhile; from 0.2 on a node reads such a key first (`node/keys/stale_keys.py`)."""


def releases(cluster: Cluster, index: int) -> list[str]:
    """As a node of this build sees the members."""
    with cluster[index].client() as client:
        return [row.version for row in client.members().replicas]


def test_from_the_last_release_and_one_node_back(tmp_path: Path) -> None:
    last, here = str(previous_python()), sys.executable
    cluster = Cluster(lay_out(tmp_path, 3, QuorumPolicy.OPTIMAL), tmp_path)
    for node in cluster:
        node.python = last
    try:
        cluster.start()
        with RollingLoad(cluster, adds=ADDS) as load:
            load.more(BETWEEN)
            for index in range(3):
                replace_build(cluster, index, here)
                assert releases(cluster, index) == [__version__] * (index + 1) + ["0.1"] * (2 - index)
                load.more(BETWEEN)
            replace_build(cluster, 1, last)
            assert releases(cluster, 2) == [__version__, "0.1", __version__]
            load.more(BETWEEN)
        assert {node.python for node in cluster} == {last, here}
        assert set(load.done) == {"add", "put", "reserve", "txn"}
        load.judge(cluster)
        assert load.verdict() == [], load.told()
    finally:
        cluster.stop()
