"""What `epoxy doctor` says about links and clocks."""

from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import ClockReading, Finding, NodeVisit, Severity
from tests.cli.visits import HEALTHY, peers, visit


@pytest.mark.parametrize(
    ("visits", "severity", "words"),
    [
        ([visit(peers=peers(reachable=False)), visit(id=2)], Severity.BROKEN, "does not reach eu-west-1, though both"),
        ([visit(peers=peers(rtt_ms=0.2))], Severity.WARNING, "us-east-1 and eu-west-1 are 0.2 ms apart"),
        ([visit(url="http://10.0.0.1:7800")], Severity.WARNING, "no encryption: http://10.0.0.1:7800"),
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
        ("answered 401 Unauthorized: peers sign their requests; this one is not signed", "different releases"),
        ("answered 400 Bad Request: both nodes need the same release of Epoxy", "different releases"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", "certificate"),
        ("no answer in time", "its disk is slow"),
        ("answered 403: another store is on record for replica 1", "new id"),
        *(
            (f"answered 403: {code}: it is refused", "Its disk is not what it was")
            for code in ("old_copy", "clone", "shortened", "refused_here")
        ),
        ("answered 403: still_running: two processes have one identity", "Stop the one that was started last"),
        ("starting: replica 2 is starting", "Its disk is slow"),
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


def with_clocks(*ahead_s: float | None, within_s: float = 0.01) -> list[Finding]:
    clocks = [None if ahead is None else ClockReading(ahead_s=ahead, within_s=within_s) for ahead in ahead_s]
    visits = [replace(visit(id=i), clock=clock) for i, clock in enumerate(clocks, start=1)]
    return [finding for finding in diagnose(visits) if "clock" in finding.words]


def test_clocks_are_compared_with_each_other_and_not_with_ours() -> None:
    (found,) = with_clocks(900.0, 900.2, 900.1)
    assert (found.severity, found.words) == (Severity.FINE, "all clocks are within 0.2 s of each other")
    (found,) = with_clocks(-3.0, 0.0, 4.0)
    assert found.severity is Severity.WARNING
    assert "the clock of us-east-1 (3) is 7.0 s ahead of that of us-east-1 (1) (±0.020 s)" in found.words
    (found,) = with_clocks(31.0, 0.0)
    assert (found.severity, found.commands) == (Severity.BROKEN, ["timedatectl set-ntp true"])
    assert "NTP" in found.advice
    assert with_clocks(900.0, None) == []


def test_a_clock_that_was_not_read_is_not_said_to_be_right() -> None:
    (found,) = with_clocks(900.0, 900.2, None)
    assert found.words == "the clocks of the 2 nodes that answered are within 0.2 s of each other"


def test_what_a_slow_answer_leaves_open_is_unknown() -> None:
    """Half a round trip of each node, in both directions."""
    (found,) = with_clocks(0.0, 1.0, within_s=2.5)
    assert (found.severity, found.code) == (Severity.UNKNOWN, "clocks-unknown")
    assert "1.0 s apart, give or take 5.0 s" in found.words
    (found,) = with_clocks(0.0, 1.0, within_s=1.0)
    assert (found.severity, found.words) == (Severity.FINE, "all clocks are within 3.0 s of each other")
    (found,) = with_clocks(0.0, 11.0, within_s=2.5)
    assert found.severity is Severity.WARNING, "at least 6 s"
    (found,) = with_clocks(0.0, 34.0, within_s=2.5)
    assert found.severity is Severity.WARNING, "perhaps 29 s"
    (found,) = with_clocks(0.0, 36.0, within_s=2.5)
    assert found.severity is Severity.BROKEN, "at least 31 s"
