"""What `epoxy doctor` concludes from the statuses of the nodes."""

from typing import Any

import pytest

from epoxy.cli.diagnosis import NodeVisit, Severity, diagnose
from tests.cli.visits import HEALTHY, away, peers, visit


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
        ([visit(ready=False)], Severity.BROKEN, "us-east-1 (1) is not ready"),
        ([visit(tolerated_failures=-1)], Severity.BROKEN, "us-east-1 (1) reaches no quorum"),
        ([visit(tolerated_failures=0)], Severity.WARNING, "not one more datacenter may fail"),
        ([visit(peers=peers(reachable=False)), visit(id=2)], Severity.BROKEN, "does not reach eu-west-1, though both"),
        ([visit(invariant_violations=1)], Severity.BROKEN, "us-east-1 (1) has seen 1 broken invariant: two values"),
        ([visit(longest_sync_ms=2400.0)], Severity.WARNING, "the disk of us-east-1 (1) took 2.4 s for a sync"),
        ([visit(), visit(id=2, epoch=2)], Severity.BROKEN, "different epochs (us-east-1 (1): 1, us-east-1 (2): 2)"),
        ([visit(), visit(url="http://127.0.0.1:2")], Severity.BROKEN, "two nodes report that they are replica 1"),
        ([visit(), visit(id=2, cluster="00aa")], Severity.BROKEN, "different clusters (us-east-1 (1): not restored"),
        ([visit(), visit(id=2, quorum_policy="fast-paxos")], Severity.BROKEN, "different quorum policies"),
        ([visit(replicas=1, tolerated_failures=0)], Severity.WARNING, "one replica"),
        ([visit(replicas=2, tolerated_failures=0)], Severity.WARNING, "two replicas"),
        ([visit(replicas=4)], Severity.WARNING, "4 replicas tolerate no more failures than 3"),
        ([visit(quorum_policy="fast-paxos", fast_quorum=3)], Severity.WARNING, "a fresh key waits for 3 of 3"),
        ([visit(fast_path_share=0.5)], Severity.WARNING, "only 50% of the writes at us-east-1 (1)"),
        ([visit(peers=peers(rtt_ms=0.2))], Severity.WARNING, "us-east-1 and eu-west-1 are 0.2 ms apart"),
        ([visit(url="http://10.0.0.1:7800")], Severity.WARNING, "no encryption: http://10.0.0.1:7800"),
        ([away("new")], Severity.WARNING, "(9) waits to be added"),
        ([away("learning")], Severity.WARNING, "(9) is learning: it serves no clients yet"),
        ([*HEALTHY, away("removed")], Severity.WARNING, "(9) was removed and still runs"),
        ([away("displaced")], Severity.BROKEN, "(9) runs with another disk than the one the cluster knows"),
        ([away("unconfirmed")], Severity.BROKEN, "(9) has a store that most of the others have no record of"),
        ([away("unconfirmed"), visit(epoch=8)], Severity.BROKEN, "(9) has an empty store, and the cluster is"),
        (
            [visit(state="active", txn_state="learning", txn_term=2, epoch_age_s=90.0)],
            Severity.WARNING,
            "transactions wait at us-east-1 (1) (learning, term 2)",
        ),
        (
            [visit(state="active", txn_state="catching-up", txn_behind=9000)],
            Severity.WARNING,
            "us-east-1 (1) orders no transactions yet: it missed 9000 decisions",
        ),
        (
            [visit(txn_kept=120_000, txn_kept_for=[3])],
            Severity.WARNING,
            "us-east-1 (1) keeps 120000 decisions about transactions on its disk for replica 3",
        ),
        ([visit(joint=True, epoch_age_s=2.0)], Severity.FINE, "old and new members decide together (epoch 1, 2 s)"),
        ([visit(joint=True, epoch_age_s=90.0)], Severity.BROKEN, "that should take seconds"),
        ([visit(joint=True, peers=peers(reachable=False))], Severity.BROKEN, "together (epoch 1, 0 s), and eu-west-1"),
        ([visit(peers=peers(status="joining", reachable=False))], Severity.BROKEN, "(2) is joining and cannot"),
        ([visit(peers=peers(status="learning"), epoch_age_s=1200.0)], Severity.WARNING, "learning for 20 minutes"),
    ],
)  # fmt: skip
def test_each_trouble_is_named(visits: list[NodeVisit], severity: Severity, words: str) -> None:
    (found,) = [finding for finding in diagnose(visits) if words in finding.words]
    assert found.severity is severity


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("", "certificates and the cluster's secret"),
        ('answered 401 Unauthorized: {"error":"the sender\'s clock is 45 s behind that of replica 2"}', "clocks"),
        ("answered 401 Unauthorized: not signed with our secret by a node with our members", "secret"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", "certificate"),
        ("no answer in time", "its disk is slow"),
        ("answered 403: another store is on record for replica 1", "new id"),
        ("[Errno 111] Connection refused", "routes"),
    ],
)
def test_a_link_is_blamed_on_what_the_node_says_of_it(trouble: str, words: str) -> None:
    findings = diagnose([visit(peers=peers(reachable=False, trouble=trouble)), visit(id=2)])
    (found,) = [finding for finding in findings if "does not reach eu-west-1, though both answer" in finding.words]
    assert trouble in found.words
    assert words in found.advice


def test_a_new_cluster_is_told_why_its_nodes_do_not_meet() -> None:
    """As when one of three was given another secret: all wait for each other, and none of them serves."""
    trouble = "answered 401 Unauthorized: not signed with our secret by a node with our members"
    waiting: dict[str, Any] = {"state": "unconfirmed", "ready": False}
    findings = diagnose([visit(**waiting, peers=peers(reachable=False, trouble=trouble)), visit(id=2, **waiting)])
    (found,) = [finding for finding in findings if "does not reach eu-west-1" in finding.words]
    assert trouble in found.words
    assert "secret" in found.advice
    lost_disk = diagnose([visit(**waiting, peers=peers(reachable=False, trouble=trouble)), visit(id=2, epoch=8)])
    assert not any("does not reach" in finding.words for finding in lost_disk)


def test_nothing_is_called_ready_that_reaches_no_quorum() -> None:
    findings = diagnose([visit(id=i, tolerated_failures=-1) for i in (1, 2, 3)])
    assert [finding for finding in findings if finding.severity is Severity.FINE] == []
    one_cut_off = diagnose([visit(tolerated_failures=-1), visit(id=2), visit(id=3)])
    assert "2 of 3 nodes answer and are ready" in [finding.words for finding in one_cut_off]


def test_a_newcomer_that_answers_us_and_not_the_members_is_not_to_be_started_or_added() -> None:
    """As with another secret."""
    findings = diagnose([visit(peers=peers(id=9, status="joining", reachable=False)), away("new")])
    (found,) = [finding for finding in findings if "(9)" in finding.words]
    assert found.severity is Severity.BROKEN
    assert found.words == "eu-west-1 (9) is joining and answers, but the members do not reach it"
    assert "secret" in found.advice


def test_the_worst_comes_first() -> None:
    findings = diagnose([visit(replicas=4), NodeVisit(url="http://x:1", status=None, reason="refused")])
    assert [finding.severity for finding in findings][:2] == [Severity.BROKEN, Severity.WARNING]


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("no answer in time", "is paused, overloaded"),
        ("no connection in time", "is paused, or no packet reaches it"),
        ("no TLS connection (certificate refused: certificate has expired)", "its end date. This command"),
        ("no TLS connection (WRONG_VERSION_NUMBER)", "https:// if it has [tls]"),
        ("the connection was closed", "https:// if it has [tls]"),
        ("connection refused", "Is it running"),
    ],
)
def test_the_advice_about_a_silent_node_follows_the_reason(reason: str, advice: str) -> None:
    findings = diagnose([*HEALTHY, NodeVisit(url="http://x:1", status=None, reason=reason)])
    (silent,) = [finding for finding in findings if "does not answer" in finding.words]
    assert advice in silent.advice
