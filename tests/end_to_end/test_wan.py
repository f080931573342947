"""Five regions with the round trips between them. No test says how fast the machine must be: that a write is never
faster than its floor is geography, and that it took one round trip is told by the node. A node that is kept waiting by
its machine for longer than by the ocean takes a second one, so that some writes take one is what can be said."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from epoxy.cli.demo.region import RegionNode
from epoxy.model.writes import Path as Travelled
from epoxy.transport.wan import aws
from epoxy_sim.history import Won
from tests.end_to_end.recorder import Recorder, judge
from tests.end_to_end.settle import agree_on_all
from tests.end_to_end.test_races import race
from tests.end_to_end.world import in_touch, order, others, regions

FLOORS = {"us-east-1": 72.5, "us-west-2": 100.9, "eu-west-1": 127.3, "ap-northeast-1": 152.4, "sa-east-1": 180.3}
TIMER_MS = 1.0
"""An event loop may wake up this much before its time."""

FRESH = 3
TRIES = 30
"""Of keys for FRESH that take one round trip. On a machine that has time, the first are enough."""


def reserve_fresh(node: RegionNode, prefix: str) -> list[tuple[float, Travelled, bool]]:
    """Until FRESH of them took one round trip, or all were tried."""
    told: list[tuple[float, Travelled, bool]] = []
    with node.client() as client:
        while len(told) < TRIES and [path for _, path, _ in told].count(Travelled.FAST) < FRESH:
            each = client.reserve(f"{prefix}/{node.datacenter}/{len(told)}", b"v")
            told.append((each.latency_ms, each.path, each.won))
    return told


def test_five_regions_on_five_continents_or_nearly(tmp_path: Path) -> None:
    with regions(tmp_path, 5, wan=True) as cluster, ThreadPoolExecutor(5) as pool:
        assert {node.datacenter for node in cluster.nodes} == set(FLOORS)

        # Every region's fresh keys take one round trip to its own nearest quorum.
        for node, told in zip(cluster.nodes, pool.map(reserve_fresh, cluster.nodes, 5 * ["fresh"]), strict=True):
            assert [won for _, _, won in told] == [True] * len(told)
            assert [path for _, path, _ in told].count(Travelled.FAST) == FRESH
            assert min(latency for latency, _, _ in told) >= FLOORS[node.datacenter] - TIMER_MS

        # The nodes measure what the table says, or more on a busy machine.
        for node in cluster.nodes:
            with node.client() as client:
                status = client.status()
            trips = {peer.datacenter: peer.rtt_ms for peer in status.peers}
            assert all(
                rtt is not None and rtt >= aws.rtt_ms(node.datacenter, there) - TIMER_MS for there, rtt in trips.items()
            )
            assert status.tolerated_failures == 2
            assert status.fast_path_share is not None
            assert status.fast_path_share >= FRESH / TRIES

        # What a region knows costs no round trip.
        with cluster.nodes[0].client() as client:
            assert client.reserve(b"fresh/us-east-1/0", b"other").path is Travelled.LOCAL

        # Without one region the others go on, still in one round trip, to the nearest that are left.
        order(cluster, "kill", "us-west-2")
        left = others(cluster, "us-west-2")
        for node, told in zip(left, pool.map(reserve_fresh, left, 4 * ["killed"]), strict=True):
            assert [won for _, _, won in told] == [True] * len(told)
            floor = cluster.plan.floor_ms(node.datacenter, [other.datacenter for other in left])
            assert floor is not None
            assert min(latency for latency, _, _ in told) >= floor - TIMER_MS


def test_a_race_around_the_world(tmp_path: Path) -> None:
    recorder = Recorder()
    with regions(tmp_path, 5, wan=True) as cluster:
        for i in range(2):
            told = race(recorder, cluster, b"race/%d" % i)
            assert sum(isinstance(outcome, Won) for outcome in told) == 1
        order(cluster, "cut", "eu-west-1")
        told = race(recorder, cluster, b"race/cut", but="eu-west-1")
        assert sum(isinstance(outcome, Won) for outcome in told) == 1
        order(cluster, "heal", "eu-west-1")
        in_touch(cluster)
        agree_on_all(recorder, cluster)
    assert judge(recorder.history, tmp_path) == 3
