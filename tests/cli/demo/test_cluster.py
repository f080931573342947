"""Orders to a demo, and their consequences in words."""

import socket
from pathlib import Path

import pytest

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
        (DemoOrder(verb="heal", region="eu-west-1"), "the links between eu-west-1 and all others are not cut"),
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
