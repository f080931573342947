"""status, doctor and inspect: the words, and the exit code that goes with them."""

import json
from typing import Any

import msgspec
import pytest

from epoxy.cli.diagnosis import NodeVisit, Severity, diagnose
from epoxy.cli.health import duration
from epoxy.cli.main import run
from epoxy.client import Status
from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.messages import Inspected
from epoxy.model.records import Proposal, ProposalId, Vote
from tests.client.fake import STATUS, FakeNode

Captured = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("node")
def test_status_in_words(capsys: Captured) -> None:
    assert run(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Available. 1 more datacenter may fail."
    told = "\n".join(lines)
    for words in ("us-east-1, replica 1, pid 4711", "97.5% of the writes", "70.0 ms: the round trip", "1 h 2 min"):
        assert words in told
    assert lines[-2].split() == ["eu-west-1", "2", "70.1", "ms", "reachable"]


@pytest.mark.parametrize(
    ("change", "words", "expected"),
    [
        ({"tolerated_failures": 2}, "Available. 2 more datacenters may fail.", 0),
        ({"tolerated_failures": 0}, "Available, but not one more datacenter may fail.", 0),
        ({"tolerated_failures": -1}, "Not available: 1 datacenter too few can be reached", 1),
        ({"ready": False}, "Not ready: us-east-1 is starting or stopping.", 1),
        ({"ready": False, "state": "removed", "reason": "it was removed"}, "Not serving: it was removed.", 1),
    ],
)
def test_status_says_whether_it_works(
    node: FakeNode, capsys: Captured, change: dict[str, Any], words: str, expected: int
) -> None:
    node.status |= change
    assert run(["status"]) == expected
    assert capsys.readouterr().out.startswith(words)


def test_status_during_a_change(node: FakeNode, capsys: Captured) -> None:
    node.status |= {"joint": True, "peers": peers(status="leaving"), "txn_state": "closing", "txn_term": 3}
    assert run(["status"]) == 0
    told = capsys.readouterr().out
    assert "wait: closing, term 3" in told
    assert "old and new members decide together" in told
    assert "reachable, leaving" in told


def test_status_says_why_somebody_is_out_of_reach(node: FakeNode, capsys: Captured) -> None:
    node.status |= {"peers": peers(reachable=False, trouble="[Errno 111] Connection refused")}
    assert run(["status"]) == 0
    assert "OUT OF REACH: [Errno 111] Connection refused" in capsys.readouterr().out


def test_those_who_have_no_say_break_nothing() -> None:
    findings = diagnose([*HEALTHY, away("removed"), away("new")])
    assert not [finding for finding in findings if finding.severity is Severity.BROKEN and "epochs" in finding.words]


def test_status_in_json_is_all_the_node_said(node: FakeNode, capsys: Captured) -> None:
    node.status["news"] = [1, 2]
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == node.status


def test_status_of_a_node_that_says_little(node: FakeNode, capsys: Captured) -> None:
    node.status = {"id": 1, "datacenter": "a", "ready": True, "tolerated_failures": 0}
    assert run(["status"]) == 0
    assert "replica 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "less than a second"), (59, "59 s"), (61, "1 min 1 s"), (90_061, "1 d 1 h"), (86_400, "1 d")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def visit(url: str = "http://127.0.0.1:1", **change: Any) -> NodeVisit:
    return NodeVisit(url=url, status=msgspec.convert(STATUS | change, Status))


def peers(**change: Any) -> list[dict[str, Any]]:
    return [{"id": 2, "datacenter": "eu-west-1", "rtt_ms": 70.0, "reachable": True, "url": "http://h:1"} | change]


def away(state: str) -> NodeVisit:
    """Somebody who has no say, and so may be in any epoch."""
    return visit(id=9, epoch=7, ready=False, state=state, tolerated_failures=-2, reason="why not", url="http://[::1]:9")


HEALTHY = [visit(), visit(id=2), visit(id=3)]


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
        ([away("unconfirmed")], Severity.BROKEN, "(9) has a disk that most of the others have not met"),
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


def test_the_doctor_visits_the_peers(node: FakeNode, capsys: Captured) -> None:
    with FakeNode() as other:
        node.status["peers"] = peers(url=other.url) + peers(id=3, datacenter="ap", url="http://127.0.0.1:1")
        other.status = STATUS | {"id": 2, "datacenter": "eu-west-1", "peers": []}
        assert run(["doctor"]) == 1
        out = capsys.readouterr().out
        assert out.startswith("BROKEN  ap at http://127.0.0.1:1 does not answer: connection refused\n")
        assert "ok      2 of 3 nodes answer and are ready\n" in out
        assert run(["doctor", "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
    assert (told["healthy"], told["findings"][0]["severity"]) == (False, "BROKEN")


def test_the_doctor_is_content(node: FakeNode, capsys: Captured) -> None:
    node.status["peers"] = []
    assert run(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "ok      1 of 1 nodes answer and are ready"


def proposal(version: int, value: bytes | None = b"eu", *, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(1, 0xABC))


def holding(replica: int, committed: Proposal | None, **change: Any) -> dict[str, Any]:
    held = Inspected(epoch=1, committed=committed, lineage=(), promised=NO_BALLOT, vote=None, cached=None, changelog=())
    return {"id": replica, "datacenter": f"dc-{replica}", "held": msgspec.structs.replace(held, **change)}


def test_inspect_draws_all_replicas(node: FakeNode, capsys: Captured) -> None:
    vote = Vote(proposal=proposal(3, b"us"), ballot=fast_ballot(2), epoch=1)
    node.inspected = {
        "key": "k",
        "replicas": [
            holding(1, proposal(2), changelog=(bytes(10),) * 2),
            holding(2, proposal(1), vote=vote, promised=Ballot(4, 3)),
            {"id": 3, "datacenter": "dc-3", "held": None, "reason": "no answer in time"},
        ],
    }
    assert run(["inspect", "k"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["datacenter", "replica", "committed"]
    assert lines[1].split() == ["dc-1", "1", "eu,", "version", "2,", "by", "1#abc", "-", "-", "-", "2"]
    assert (
        " ".join(lines[2].split()) == "dc-2 2 eu, version 1, by 1#abc (4,3) us, version 3, by 1#abc in (1,2), fast - 0"
    )
    assert "dc-3        3        did not answer: no answer in time" in lines[3]
    assert lines[-1] == (
        "1 of 3 replicas hold the newest value, version 2. 1 will learn it from the others. 1 vote in flight."
    )


def test_inspect_of_a_key_nobody_has(node: FakeNode, capsys: Captured) -> None:
    node.inspected = {"key": "k", "replicas": [holding(1, None), holding(2, None)]}
    assert run(["inspect", "k"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No replica that answered has a committed value."
    assert run(["inspect", "k", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replicas"][1]["datacenter"] == "dc-2"
