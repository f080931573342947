"""Orders to a demo, and their consequences in words."""

import socket
from pathlib import Path
from typing import Any

import pytest

from epoxy.cli.demo import show
from epoxy.cli.demo.cluster import DemoCluster, check_ports
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.plan import REGIONS
from epoxy.model.errors import Unavailable
from tests.cli.demo.plans import a_plan


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (
            DemoOrder(verb="kill", region="eu-west-1"),
            "eu-west-1 is down already; `epoxy demo revive eu-west-1` starts it",
        ),
        (
            DemoOrder(verb="pause", region="eu-west-1"),
            "eu-west-1 is down; `epoxy demo revive eu-west-1` starts it again",
        ),
        (
            DemoOrder(verb="heal", region="eu-west-1"),
            "the links between eu-west-1 and all others are neither cut nor slowed",
        ),
        (DemoOrder(verb="slow", region="eu-west-1", added_ms=9), "a link has two ends: name both regions"),
        (
            DemoOrder(verb="slow", region="eu-west-1", others=("us-east-1",)),
            "a link is slowed by 1 to 2000 ms; heal undoes it",
        ),
        (
            DemoOrder(verb="slow", region="eu-west-1", others=("us-east-1",), added_ms=3000),
            "a link is slowed by 1 to 2000 ms",
        ),
        (DemoOrder(verb="race", region="eu-west-1", others=("eu-west-1",)), "a race is between two regions"),
        (
            DemoOrder(verb="race", region="eu-west-1", others=("us-east-1",)),
            "eu-west-1 is down; `epoxy demo revive eu-west-1` starts it again",
        ),
        (DemoOrder(verb="cut", region="eu-west-1", others=("eu-west-1",)), "eu-west-1 has no link to itself"),
        (DemoOrder(verb="kill", region="eu-west"), "unknown region 'eu-west'. Did you mean eu-west-1"),
        (DemoOrder(verb="sell", region="eu-west-1"), "unknown order 'sell'"),
    ],
)
def test_orders_that_make_no_sense_are_refused(cluster: DemoCluster, order: DemoOrder, told: str) -> None:
    answer = cluster.perform(order)
    assert not answer.done
    assert answer.lines[0].startswith(told)


def test_consequences_in_words(cluster: DemoCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    up = {"us-east-1", "eu-west-1", "ap-northeast-1"}
    for node in cluster.nodes:
        monkeypatch.setattr(type(node), "up", property(lambda self: self.datacenter in up))
    assert cluster.consequences()[0] == "3 of 3 regions go on writing; 1 more may fail."
    assert cluster.can("us-east-1") == "writes in one round trip of 70 ms"
    up.remove("eu-west-1")
    assert cluster.consequences()[0] == "2 of 3 regions go on writing; 0 more may fail."
    assert (cluster.can("us-east-1"), cluster.can("eu-west-1")) == (
        "writes in one round trip of 152 ms",
        "does not answer",
    )
    cluster.cuts.add(frozenset(("us-east-1", "ap-northeast-1")))
    assert cluster.consequences()[0].startswith("No majority is left")
    assert cluster.can("us-east-1").startswith("cannot write: reaches 1 of 3, needs 2")


@pytest.mark.parametrize("wan", [True, False])
def test_a_slow_link_raises_the_floors_that_rest_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wan: bool
) -> None:
    cluster = DemoCluster(a_plan(tmp_path / "d", wan=wan))
    sent: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(type(cluster.nodes[0]), "up", property(lambda _: True))
    monkeypatch.setattr(
        type(cluster.nodes[0]), "change_links", lambda node, _, **change: sent.append((node.datacenter, change))
    )
    monkeypatch.setattr(cluster, "_until_in_touch", lambda: None)
    before = cluster.floor_now_ms("us-east-1")
    assert before == (70.5 if wan else None)
    told = cluster.perform(DemoOrder(verb="slow", region="us-east-1", others=("eu-west-1",), added_ms=300))
    assert told.lines[0] == "Now a round trip between us-east-1 and eu-west-1 takes 300 ms more."
    assert sorted(sent) == [("eu-west-1", {"slow": {1: 300}}), ("us-east-1", {"slow": {2: 300}})]
    assert cluster.floor_now_ms("us-east-1") == (152.4 if wan else None), "by way of the third region"
    cluster.perform(DemoOrder(verb="slow", region="us-east-1", others=("ap-northeast-1",), added_ms=400))
    assert cluster.floor_now_ms("us-east-1") == (370.5 if wan else 300)
    (link, *_) = [link for link in told.demo["links"] if link["added_ms"]]
    assert link == {
        "between": ["us-east-1", "eu-west-1"],
        "cut": False,
        "added_ms": 300,
        "rtt_ms": 370.5 if wan else 300,
    }
    assert "  us-east-1 - eu-west-1: slowed by 300 ms" in show.listing(told.demo)
    sent.clear()
    healed = cluster.perform(DemoOrder(verb="heal", region="us-east-1"))
    assert healed.done
    assert ("eu-west-1", {"cut": (), "heal": {1}}) in sent
    assert cluster.floor_now_ms("us-east-1") == before
    assert not any(link["added_ms"] for link in healed.demo["links"])


def test_seven_regions_may_need_a_second_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = DemoCluster(a_plan(tmp_path / "d", 7))
    down = set(REGIONS[7][1:4])
    for node in cluster.nodes:
        monkeypatch.setattr(type(node), "up", property(lambda self: self.datacenter not in down))
    assert cluster.can("us-east-1") == "writes in two round trips: reaches 4 of 7, one round trip needs 5"


def test_a_port_in_use_is_named(cluster: DemoCluster) -> None:
    with (
        socket.create_server(("127.0.0.1", cluster.nodes[2].resp_port)),
        pytest.raises(Unavailable, match="for RESP of ap-northeast-1, cannot be used: Address already in use"),
    ):
        check_ports(cluster.nodes)
