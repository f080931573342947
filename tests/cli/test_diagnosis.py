"""What `epoxy doctor` concludes from the statuses of the nodes."""

import pytest
from msgspec.structs import replace

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import NodeVisit, Severity
from tests.cli.visits import HEALTHY, away, visit


def test_those_who_have_no_say_break_nothing() -> None:
    findings = diagnose([*HEALTHY, away("removed"), away("new")])
    assert not [finding for finding in findings if finding.severity is Severity.BROKEN and "epochs" in finding.words]


def test_a_healthy_cluster_has_nothing_to_complain_about() -> None:
    findings = diagnose(HEALTHY)
    assert {finding.severity for finding in findings} == {Severity.FINE}
    assert [finding.words for finding in findings] == [
        "3 of 3 nodes answer and are ready",
        "available everywhere; 1 more datacenter may fail",
    ]


@pytest.mark.parametrize(
    ("visits", "severity", "words"),
    [
        ([*HEALTHY, NodeVisit(url="http://x:1", status=None, reason="lost")], Severity.BROKEN, "x:1 does not answer"),
        ([NodeVisit(url="http://x:1", status=None, is_for_peers=True)], Severity.BROKEN, "http://x:1: not asked"),
        ([*HEALTHY, NodeVisit(url="http://x:1", status=None, is_for_peers=True)], Severity.UNKNOWN, "x:1: not asked"),
        ([visit(ready=False)], Severity.BROKEN, "us-east-1 (1) is not ready"),
        ([visit(tolerated_failures=-1)], Severity.BROKEN, "us-east-1 (1) reaches no quorum"),
        ([visit(tolerated_failures=0)], Severity.WARNING, "not one more datacenter may fail"),
        ([visit(), visit(id=2, epoch=2)], Severity.BROKEN, "different epochs (us-east-1 (1): 1, us-east-1 (2): 2)"),
        ([visit(), visit(url="http://127.0.0.1:2")], Severity.BROKEN, "two nodes report that they are replica 1"),
        ([visit(), visit(id=2, cluster="00aa")], Severity.BROKEN, "different clusters (us-east-1 (1): not restored"),
        ([visit(), visit(id=2, quorum_policy="fast-paxos")], Severity.BROKEN, "different quorum policies"),
        ([visit(replicas=1, tolerated_failures=0)], Severity.WARNING, "one replica"),
        ([visit(replicas=2, tolerated_failures=0)], Severity.WARNING, "two replicas"),
        ([visit(replicas=4)], Severity.WARNING, "4 replicas tolerate no more failures than 3"),
        ([visit(quorum_policy="fast-paxos", fast_quorum=3)], Severity.WARNING, "a fresh key waits for 3 of 3"),
        ([visit(fast_path_share=0.5)], Severity.WARNING, "only 50% of the writes at us-east-1 (1)"),
    ],
)  # fmt: skip
def test_each_trouble_is_named(visits: list[NodeVisit], severity: Severity, words: str) -> None:
    (found,) = [finding for finding in diagnose(visits) if words in finding.words]
    assert found.severity is severity


def test_nothing_is_called_ready_that_reaches_no_quorum() -> None:
    findings = diagnose([visit(id=i, tolerated_failures=-1) for i in (1, 2, 3)])
    assert [finding for finding in findings if finding.severity is Severity.FINE] == []
    one_cut_off = diagnose([visit(tolerated_failures=-1), visit(id=2), visit(id=3)])
    assert "2 of 3 nodes answer and are ready" in [finding.words for finding in one_cut_off]


def test_the_worst_comes_first() -> None:
    findings = diagnose([visit(replicas=4), NodeVisit(url="http://x:1", status=None, reason="refused")])
    assert [finding.severity for finding in findings][:2] == [Severity.BROKEN, Severity.WARNING]


ADDRESSES = ["http://a:1", "http://b:1"]


def node_of_two(url: str, own: str = "") -> NodeVisit:
    told = visit(addresses=ADDRESSES).status
    assert told is not None
    return NodeVisit(url=url, status=replace(told, url=own or url))


def test_nodes_of_one_datacenter_are_no_twins() -> None:
    words = [finding.words for finding in diagnose([node_of_two(url) for url in ADDRESSES])]
    assert not any("two nodes report" in each for each in words)


@pytest.mark.parametrize("own", ["http://a:1", "http://elsewhere:1"], ids=["same", "not listed"])
def test_two_nodes_that_are_not_of_one_datacenter_are_twins(own: str) -> None:
    found = diagnose([node_of_two("http://a:1"), node_of_two("http://x:1", own)])
    assert found[0].words.startswith("two nodes report that they are replica 1 (pid 4711 at http://a:1, ")


def test_a_node_whose_datacenter_is_served_by_another_is_a_warning() -> None:
    """And broken if none of its datacenter answers."""
    silent = NodeVisit(url="http://b:1", status=None, reason="connection refused", datacenter="us-east-1")
    found = {finding.words: finding.severity for finding in diagnose([node_of_two("http://a:1"), silent])}
    words = "us-east-1 at http://b:1 does not answer: connection refused"
    assert found[words] is Severity.WARNING
    found = {finding.words: finding.severity for finding in diagnose([visit(id=2), silent])}
    assert found[words] is Severity.BROKEN
