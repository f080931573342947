"""Regions of several nodes: what orders mean for each. tests/end_to_end/test_demo_postgres.py runs one."""

from typing import Any

import msgspec
import pytest

from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.postgres_region import PostgresRegion, has_no_silent_node, is_spread
from epoxy.cli.demo.region import RegionNode
from epoxy.client import Status
from epoxy.model.errors import Unavailable
from epoxy.testing.postgres_server import PostgresServer
from tests.client.fake import STATUS


class Actor:
    """What the processes of a demo would do, and which run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.alive: set[str] = set()
        self.gateways: dict[str, RegionNode] = {}

        def on_node(verb: str) -> Any:
            def act(node: RegionNode, **_: object) -> None:
                self.done.append(f"{verb} {node.order_words}")
                (self.alive.add if verb in ("start", "resume") else self.alive.discard)(node.order_words)

            return act

        monkeypatch.setattr(RegionNode, "running", property(lambda node: node.order_words in self.alive))
        monkeypatch.setattr(RegionNode, "pid", property(lambda node: 7 if node.running else None))
        for verb in ("start", "stop", "kill"):
            monkeypatch.setattr(RegionNode, verb, on_node(verb))
        monkeypatch.setattr(PostgresServer, "start", lambda server: self.done.append(f"start {server.port}"))
        monkeypatch.setattr(PostgresServer, "stop", lambda server, mode: self.done.append(f"{mode} {server.port}"))
        monkeypatch.setattr(PostgresRegion, "gateway", lambda region: self.gateways[region.datacenter])


@pytest.fixture
def actor(shared: DemoCluster, monkeypatch: pytest.MonkeyPatch) -> Actor:
    made = Actor(monkeypatch)
    made.gateways = {region.datacenter: region.nodes[1] for region in shared.nodes}
    made.alive = {node.order_words for region in shared.nodes for node in region.nodes}
    return made


def test_a_power_cut_ends_all_nodes_and_then_their_database(shared: DemoCluster, actor: Actor) -> None:
    told = shared.perform(DemoOrder(verb="kill", region="eu-west-1"))
    port = shared.plan.port_base + 18
    assert actor.done == ["kill eu-west-1 1", "kill eu-west-1 2", f"immediate {port}"]
    assert told.lines[0] == "eu-west-1 is dead: SIGKILL to pids 7, 7, as in a power cut, and its PostgreSQL with it."
    assert shared.condition("eu-west-1") == "down"
    assert shared.fallen() == [], "it was ordered"
    assert (
        "is down already; `epoxy demo revive eu-west-1`"
        in shared.perform(DemoOrder(verb="kill", region="eu-west-1")).lines[0]
    )


def test_a_database_that_ended_by_itself_is_started_again_with_its_region(
    shared: DemoCluster, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresRegion, "wait_until", lambda *_: None)
    monkeypatch.setattr(shared, "_cut_own_side", lambda _: None)
    monkeypatch.setattr(shared, "_until_in_touch", lambda: None)
    told = shared.perform(DemoOrder(verb="revive", region="eu-west-1"))
    assert told.lines[0].startswith("eu-west-1 is back with the data it had")
    assert actor.done == [f"start {shared.plan.port_base + 18}"], "its nodes run"


def test_nodes_stop_before_the_database_that_they_need(shared: DemoCluster, actor: Actor) -> None:
    shared.nodes[0].stop()
    assert sorted(actor.done[:2]) == ["stop us-east-1 1", "stop us-east-1 2"]
    assert actor.done[2:] == [f"fast {shared.plan.port_base + 8}"], "its folder is the demo's: it is kept for the next"


def test_one_node_is_killed_and_the_region_goes_on(
    shared: DemoCluster, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresRegion, "wait_until", lambda *_: None)
    monkeypatch.setattr(shared, "_cut_own_side", lambda region: actor.done.append(f"links of {region.datacenter}"))
    monkeypatch.setattr(shared, "_until_in_touch", lambda: None)
    told = shared.perform(DemoOrder(verb="kill", region="eu-west-1", node="gateway"))
    assert actor.done == ["kill eu-west-1 2", "links of eu-west-1"], "the next gateway is told which links are cut"
    assert told.lines[0] == "node 2 of eu-west-1 is dead: SIGKILL to pid 7, as in a power cut."
    assert told.lines[1].startswith("The others have its keys after ")
    assert (shared.condition("eu-west-1"), shared.fallen()) == ("up", [])
    refused = shared.perform(DemoOrder(verb="kill", region="eu-west-1", node="2"))
    assert refused.lines == ["node 2 of eu-west-1 is down already; `epoxy demo revive eu-west-1 2` starts it"]
    monkeypatch.setattr(RegionNode, "wait_until", lambda *_: None)
    actor.done.clear()
    assert shared.perform(DemoOrder(verb="revive", region="eu-west-1", node="2")).lines[0].startswith("node 2 of eu-")
    assert actor.done[0] == "start eu-west-1 2"


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("3", "eu-west-1 has nodes 1, 2, and gateway; not '3'"),
        ("two", "eu-west-1 has nodes 1, 2, and gateway; not 'two'"),
        ("1", "node 1 of eu-west-1 is running (pid 7)"),
    ],
)
@pytest.mark.usefixtures("actor")
def test_orders_that_make_no_sense(shared: DemoCluster, node: str, told: str) -> None:
    answer = shared.perform(DemoOrder(verb="revive", region="eu-west-1", node=node))
    assert (answer.done, answer.lines) == (False, [told])


def test_a_region_of_one_node_has_no_other(cluster: DemoCluster) -> None:
    answer = cluster.perform(DemoOrder(verb="kill", region="eu-west-1", node="2"))
    assert answer.lines == ["eu-west-1 has one node; leave '2' out"]


def test_a_node_that_ended_by_itself_is_told_once(shared: DemoCluster, actor: Actor) -> None:
    actor.alive.discard("eu-west-1 2")
    assert [node.order_words for node in shared.fallen()] == ["eu-west-1 2"]
    assert shared.fallen() == []
    assert shared.condition("eu-west-1") == "up"


def test_a_new_gateway_is_told_of_cut_links_once(
    shared: DemoCluster, monkeypatch: pytest.MonkeyPatch, actor: Actor
) -> None:
    session = 1
    monkeypatch.setattr(PostgresRegion, "gateway_session", lambda _: session)
    monkeypatch.setattr("epoxy.cli.demo.cluster.TEND_S", 0.0)
    told: list[str] = []

    def tell(region: RegionNode) -> None:
        if not told:
            told.append("it does not answer")
            raise Unavailable("not yet")
        told.append(region.datacenter)

    monkeypatch.setattr(shared, "_cut_own_side", tell)
    shared.tend()
    assert told == [], "no link is cut"
    shared.cuts.add(frozenset(("us-east-1", "eu-west-1")))
    actor.alive -= {"ap-northeast-1 1", "ap-northeast-1 2"}
    shared.tend()
    shared.tend()
    assert told == ["it does not answer", "eu-west-1", "us-east-1"]
    session = 2
    shared.tend()
    assert told[3:] == ["us-east-1", "eu-west-1"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([(1, 129, 4000.0), (2, 128, 4000.0)], True),
        ([(1, 129, 4000.0), (2, 128, -1.0)], False),
        ([(1, 129, 4000.0)], False),
        ([(1, 257, 4000.0)], True),
    ],
)
def test_a_dead_node_is_replaced_when_no_shard_is_left_with_it(
    nodes: list[tuple[int, int, float]], expected: bool
) -> None:
    rows = [{"session": number, "url": "", "shards": shards, "lease_ms": left} for number, shards, left in nodes]
    assert has_no_silent_node(msgspec.convert(STATUS | {"nodes": rows}, Status)) is expected


@pytest.mark.parametrize(
    ("shards", "expected"),
    [((129, 128), True), ((87, 85, 85), True), ((), True), ((257, 0), False), ((257,), False), ((128, 128), False)],
)
def test_a_region_is_up_when_its_nodes_have_their_parts_of_the_keys(shards: tuple[int, ...], expected: bool) -> None:
    """It may be one that is alone with its store. One of two nodes may not be there yet, or a shard on its way."""
    rows = [{"session": number, "url": "", "shards": count} for number, count in enumerate(shards, 1)]
    nodes = max(2, len(shards))
    assert is_spread(msgspec.convert(STATUS | {"nodes": rows}, Status), nodes) is expected
