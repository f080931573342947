"""What `epoxy doctor` says about datacenters of several nodes."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import NodeVisit, Severity
from epoxy.client import Status
from tests.cli.visits import HEALTHY, peers
from tests.client.fake import STATUS

A, B, C = "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"


def row(session: int, url: str, shards: int, **change: Any) -> dict[str, Any]:
    return {"session": session, "url": url, "shards": shards, "version": "1.0", "lease_ms": 4000.0} | change


def datacenter(*rows: dict[str, Any], **change: Any) -> list[NodeVisit]:
    """All its nodes that renew their leases answer, and know the same table."""
    here = {"nodes": rows, "addresses": [A, B], **change}
    return [
        NodeVisit(
            url=each["url"],
            status=msgspec.convert(STATUS | here | {"url": each["url"], "session": each["session"]}, Status),
        )
        for each in rows
        if each["lease_ms"] >= 0
    ]


GATEWAY = row(1, A, 129, gateway=True)
OTHER = row(2, B, 128)


def about(visits: list[NodeVisit], words: str) -> list[tuple[Severity, str]]:
    return [(finding.severity, finding.advice) for finding in diagnose(visits) if words in finding.words]


@pytest.mark.parametrize(
    ("rows", "severity", "words", "advice"),
    [
        (
            [GATEWAY, row(2, B, 128, lease_ms=-1500.0)],
            Severity.BROKEN,
            f"the node of us-east-1 at {B} has been silent for 1.5 s beyond its lease (session 2), and owns 128 shards",
            "do the nodes reach the database?",
        ),
        (
            [row(1, A, 257, gateway=True), row(2, B, 0, lease_ms=-1500.0)],
            Severity.WARNING,
            f"the node of us-east-1 at {B} has been silent for 1.5 s beyond its lease (session 2)",
            "It owns nothing.",
        ),
        (
            [GATEWAY, row(2, B, 127)],
            Severity.BROKEN,
            "1 shard of us-east-1 has no owner: keys of it wait",
            "A node takes them within seconds",
        ),
        (
            [row(1, A, 128), OTHER],
            Severity.BROKEN,
            "us-east-1 has no gateway: it speaks with no other datacenter",
            "A node takes them within seconds",
        ),
        (
            [GATEWAY, row(2, B, 128, version="1.1")],
            Severity.WARNING,
            f"the nodes of us-east-1 have different versions (1.0 at {A}, 1.1 at {B})",
            "Finish it: stop the older ones with SIGTERM",
        ),
        (
            [row(1, A, 257, gateway=True), row(2, B, 0)],
            Severity.WARNING,
            f"the node of us-east-1 at {B} owns no shards",
            "do not reach it there",
        ),
        (
            [row(1, A, 237, gateway=True), row(2, B, 20)],
            Severity.WARNING,
            f"the shards of us-east-1 are spread unevenly (237 at {A}, 20 at {B})",
            "one shard after the other",
        ),
    ],
)
def test_each_trouble_is_named(rows: list[dict[str, Any]], severity: Severity, words: str, advice: str) -> None:
    ((found, told),) = about(datacenter(*rows), words)
    assert (found, advice in told) == (severity, True)
    assert about(datacenter(*rows), "us-east-1 has 2 nodes") == []


def test_a_datacenter_without_trouble() -> None:
    words = f"us-east-1 has 2 nodes: 129 shards at {A} (gateway), 128 shards at {B}"
    assert about(datacenter(GATEWAY, OTHER), words) == [(Severity.FINE, "")]
    troubles = "silent", "owner", "gateway:", "versions", "unevenly", "two nodes report"
    assert [about(datacenter(GATEWAY, OTHER), trouble) for trouble in troubles] == [[]] * len(troubles)
    assert about(HEALTHY, "shard") == [], "a node by itself has none"


def test_a_share_that_is_a_little_smaller_is_no_trouble() -> None:
    """Three nodes, one of which has just got half of its share."""
    assert about(datacenter(row(1, A, 108, gateway=True), row(2, B, 107), row(3, C, 46)), "unevenly") == []


def test_a_node_that_is_not_among_the_addresses_of_its_member() -> None:
    three = datacenter(GATEWAY, row(2, B, 64), row(3, C, 64))
    (found,) = [finding for finding in diagnose(three) if f"us-east-1 has a node at {C}, which" in finding.words]
    assert (found.severity, found.commands) == (Severity.WARNING, [f"epoxy members move 1 {A},{B},{C} --url {A}"])
    processes = datacenter(row(1, C, 129, gateway=True), row(2, f"{C}1", 128))
    assert about(processes, "none of the member's addresses") == [], "processes of one node have addresses of their own"


def test_no_gateway_is_not_told_as_a_shard_without_an_owner_too() -> None:
    assert about(datacenter(row(1, A, 128), OTHER), "no owner") == []
    assert len(about(datacenter(row(1, A, 100), OTHER), "28 shards of us-east-1 have no owner")) == 1


def test_what_a_gateway_says_of_other_datacenters_is_told_once() -> None:
    away = {"tolerated_failures": 0, "replicas": 3, "peers": peers(reachable=False)}
    assert len(about(datacenter(GATEWAY, OTHER, **away), "not one more datacenter may fail")) == 1
    without = [seen for seen in datacenter(GATEWAY, OTHER, **away) if seen.url == B]
    ((_, _),) = about(without, f"us-east-1 (1) at {B}, not one more datacenter may fail")


def test_the_table_of_the_gateway_counts() -> None:
    """The other node has not seen yet that all is well."""
    gateway, _ = datacenter(GATEWAY, OTHER)
    _, late = datacenter(row(1, A, 100, gateway=True), OTHER)
    assert about([late, gateway], "no owner") == []
    assert len(about([late], "29 shards of us-east-1 have no owner")) == 1


def test_a_node_that_does_not_reach_its_database_is_named_and_what_it_says_is_old() -> None:
    old = [row(1, A, 129, gateway=True, lease_ms=-2500.0), row(2, B, 128, lease_ms=-2400.0)]
    table = {"nodes": old, "addresses": [A, B], "url": B, "session": 2}
    cut_off = NodeVisit(url=B, status=msgspec.convert(STATUS | table, Status))
    words = f"us-east-1 at {B} does not reach its database: its lease is over since 2.4 s"
    ((severity, advice),) = about([cut_off], words)
    assert (severity, "Does the database run" in advice) == (Severity.BROKEN, True)
    assert about([cut_off], "silent") == []
    gateway = datacenter(GATEWAY, row(2, B, 128, lease_ms=-2400.0))
    assert len(about([cut_off, *gateway], words)) == 1
    assert len(about([cut_off, *gateway], "silent for 2.4 s")) == 1, "the other node knows more"


def codes(visits: list[NodeVisit]) -> list[str]:
    return [finding.code for finding in diagnose(visits)]


def test_a_database_that_has_just_gone_away_leaves_no_node_ready() -> None:
    """The leases still run, for seconds; the nodes have heard nothing for one."""
    late = datacenter(row(1, A, 129, gateway=True, lease_ms=3900.0), row(2, B, 128, lease_ms=3900.0))
    late = [NodeVisit(url=each.url, status=replace(each.status, store_lease_ms=5000.0)) for each in late if each.status]
    found = codes(late)
    assert found.count("database-late") == 2
    assert not {"nodes-ready", "available", "datacenter-fine"} & set(found)
    assert len(about(late, f"us-east-1 at {A} has not heard its database for 1.1 s; its lease ends in 3.9 s")) == 1


def test_a_node_without_its_database_is_not_asked_for_other_datacenters() -> None:
    """It reaches none of them because its gateway is away, and that is said already."""
    rows = [row(1, A, 129, gateway=True, lease_ms=-900.0), row(2, B, 128, lease_ms=-900.0)]
    told = {"nodes": rows, "addresses": [A, B], "tolerated_failures": -1, "peers": peers(reachable=False)}
    shut = [
        NodeVisit(url=url, status=msgspec.convert(STATUS | told | {"url": url, "session": session}, Status))
        for session, url in ((1, A), (2, B))
    ]
    there = NodeVisit(url="http://b:7800", status=msgspec.convert(STATUS | {"id": 2}, Status))
    found = codes([*shut, there])
    assert found.count("database-away") == 2
    assert "link-cut" not in found
    assert "no-quorum" not in found


def test_a_gateway_that_does_not_answer_is_broken_as_long_as_it_owns_shards() -> None:
    _, other = datacenter(GATEWAY, OTHER)
    silent = NodeVisit(url=A, status=None, reason="no answer in time", datacenter="us-east-1", expected=1)
    (found,) = [finding for finding in diagnose([other, silent]) if finding.code == "node-silent"]
    assert (found.severity, found.words.endswith("it owns 129 shards")) == (Severity.BROKEN, True)
    (taken,) = datacenter(row(2, B, 257, gateway=True))
    (found,) = [finding for finding in diagnose([taken, silent]) if finding.code == "node-silent"]
    assert found.severity is Severity.WARNING


def test_a_peer_whose_gateway_does_not_answer_is_not_said_to_answer() -> None:
    elsewhere = NodeVisit(
        url="http://b:7800", status=msgspec.convert(STATUS | {"id": 2, "peers": peers(id=1, reachable=False)}, Status)
    )
    _, other = datacenter(GATEWAY, OTHER)
    assert "link-cut" not in codes([other, elsewhere])
    assert "link-cut" in codes([*datacenter(GATEWAY, OTHER), elsewhere])


def with_leases(own_ms: float, other_ms: float) -> list[NodeVisit]:
    first, _ = datacenter(row(1, A, 129, gateway=True, lease_ms=own_ms), row(2, B, 128, lease_ms=other_ms))
    assert first.status is not None
    return [replace(first, status=replace(first.status, store_lease_ms=5000.0))]


def test_a_lease_that_is_not_renewed_is_told_from_a_table_that_is_old() -> None:
    """What is left of the other's lease has shrunk since the table was read, too."""
    assert "lease-ending" in codes(with_leases(4950.0, 2400.0))
    assert "lease-ending" not in codes(with_leases(4500.0, 2200.0)), "of a table that is half a second old"
    assert "lease-ending" in codes(with_leases(4500.0, 1900.0))
    assert "lease-ending" not in codes(with_leases(3000.0, 100.0)), "the database is away, and that is said already"
