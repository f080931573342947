"""Links that are cut and regions that are paused: a region with a majority goes on, and no two answers contradict."""

from pathlib import Path

import pytest

from epoxy import Client, OutcomeUnknown, Unavailable
from epoxy_sim.history import Operation, Unknown
from tests.end_to_end.load import Load
from tests.end_to_end.recorder import Recorder, judge
from tests.end_to_end.settle import agree_on_all
from tests.end_to_end.world import in_touch, order, others, regions

STEPS = 40
"""Answers at each region between two faults: some of every kind."""


@pytest.mark.parametrize(("hurt", "mend"), [("cut", "heal"), ("pause", "resume")])
def test_the_others_go_on_without_one_region(tmp_path: Path, hurt: str, mend: str) -> None:
    recorder = Recorder()
    with regions(tmp_path) as cluster:
        with Load(recorder, cluster) as load:
            load.more(STEPS, cluster.nodes)
            for name in cluster.plan.names:
                order(cluster, hurt, name)
                load.more(STEPS, others(cluster, name))
                order(cluster, mend, name)
                load.more(STEPS, cluster.nodes)
        in_touch(cluster)
        agree_on_all(recorder, cluster)
    judge(recorder.history, tmp_path)


def test_one_link_fewer_stops_no_region(tmp_path: Path) -> None:
    recorder = Recorder()
    with regions(tmp_path) as cluster:
        east, west, north = cluster.plan.names
        with Load(recorder, cluster) as load:
            for here, there in ((east, west), (west, north), (north, east)):
                order(cluster, "cut", here, there)
                load.more(STEPS, cluster.nodes)
                order(cluster, "heal", here, there)
                in_touch(cluster)
        agree_on_all(recorder, cluster)
    judge(recorder.history, tmp_path)


def test_without_a_majority_nothing_is_written_and_what_is_known_is_read(tmp_path: Path) -> None:
    with regions(tmp_path) as cluster:
        east, west, north = cluster.nodes
        with east.client() as client:
            client.reserve(b"known", b"v")
        order(cluster, "cut", west.datacenter)
        order(cluster, "cut", north.datacenter)
        for node in cluster.nodes:
            with Client(node.url, timeout=3.0) as client, pytest.raises((OutcomeUnknown, Unavailable)):
                client.reserve(b"fresh", node.datacenter)
        for node in cluster.nodes:
            with Client(node.url) as client, pytest.raises(Unavailable, match="no_quorum"):
                client.reserve(b"never", node.datacenter)
        with east.client() as client:
            assert client.get(b"known") == b"v"
        order(cluster, "heal", west.datacenter)
        order(cluster, "heal", north.datacenter)
        in_touch(cluster)
        told = []
        for node in cluster.nodes:
            with node.client() as client:
                told.append(client.reserve(b"fresh", b"late").value)
    assert len(set(told)) == 1


def test_a_split_in_two_and_two_sides_that_change(tmp_path: Path) -> None:
    """Three of five have a majority; then a region changes sides, and others have."""
    recorder = Recorder()
    with regions(tmp_path, 5) as cluster:
        a, b, c, d, e = cluster.nodes
        names = {node.datacenter for node in (d, e)}
        with Load(recorder, cluster, clients=1) as load:
            for node in (a, b, c):
                order(cluster, "cut", node.datacenter, *sorted(names))
            load.more(STEPS, (a, b, c))
            recorder.wait_for(lambda: any(map(is_unknown, recorder.history)), "somebody is not told")
            for node in (d, e):
                order(cluster, "heal", c.datacenter, node.datacenter)
            for node in (a, b):
                order(cluster, "cut", c.datacenter, node.datacenter)
            load.more(STEPS, (c, d, e))
            for node in (a, b):
                order(cluster, "heal", node.datacenter)
            in_touch(cluster)
            load.more(STEPS, cluster.nodes)
        agree_on_all(recorder, cluster)
    judge(recorder.history, tmp_path)


def is_unknown(operation: Operation) -> bool:
    return isinstance(operation.outcome, Unknown)
