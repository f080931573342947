"""What `epoxy doctor` says about nodes that are no members, and about changes of members."""

import pytest

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import NodeVisit, Severity
from tests.cli.visits import HEALTHY, away, peers, visit


@pytest.mark.parametrize(
    ("visits", "severity", "words"),
    [
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
        ([visit(joint=True, epoch_age_s=2.0)], Severity.FINE, "old and new members decide together (epoch 1, 2 s)"),
        ([visit(joint=True, epoch_age_s=90.0)], Severity.BROKEN, "that should take seconds"),
        ([visit(joint=True, peers=peers(reachable=False))], Severity.BROKEN, "together (epoch 1, 0 s), and eu-west-1"),
        ([visit(peers=peers(status="joining", reachable=False))], Severity.BROKEN, "(2) is joining and cannot"),
        ([visit(peers=peers(status="learning"), epoch_age_s=1200.0)], Severity.WARNING, "learning for 20 minutes"),
        ([*HEALTHY, away("refused")], Severity.BROKEN, "is not what it was, and takes no part: why not"),
        ([*HEALTHY, away("confirming")], Severity.BROKEN, "(9) does not vote yet: why not"),
    ],
)  # fmt: skip
def test_each_trouble_is_named(visits: list[NodeVisit], severity: Severity, words: str) -> None:
    (found,) = [finding for finding in diagnose(visits) if words in finding.words]
    assert found.severity is severity


def test_a_refused_store_is_replaced_with_a_command() -> None:
    (found,) = [finding for finding in diagnose([*HEALTHY, away("refused")]) if "(9)" in finding.words]
    assert found.commands == ["epoxy members add 10 'http://[::1]:9' --replace 9 --url http://127.0.0.1:1"]


def test_a_process_beside_a_member_that_is_ready_is_named_by_those_that_refused_it() -> None:
    twins = visit(peers=peers(refused="still_running")), visit(id=2, datacenter="eu-west-1", state="active")
    (found,) = [finding for finding in diagnose([*twins]) if "second process" in finding.words]
    assert found.severity is Severity.WARNING
    assert found.words == "a second process that says it is eu-west-1 (2) was refused by us-east-1 (1): still_running"
    assert "second process" not in str(diagnose([twins[0]])), "without the member, it may be the only one"


def test_a_newcomer_that_answers_us_and_not_the_members_is_not_to_be_started_or_added() -> None:
    """As with another secret."""
    findings = diagnose([visit(peers=peers(id=9, status="joining", reachable=False)), away("new")])
    (found,) = [finding for finding in findings if "(9)" in finding.words]
    assert found.severity is Severity.BROKEN
    assert found.words == "eu-west-1 (9) is joining and answers, but the members do not reach it"
    assert "secret" in found.advice


def test_a_member_that_is_away_for_long_is_named_with_its_cost_and_both_commands() -> None:
    gone = peers(reachable=False, silent_s=93_600.0)
    seen = [
        visit(peers=gone, txn_kept=1234, txn_kept_for=[2]),
        visit(id=3, peers=peers(reachable=False, silent_s=60.0)),
    ]
    (found,) = [finding for finding in diagnose(seen) if finding.code == "member-away"]
    assert found.words == (
        "eu-west-1 (2) has been away for 1 d 2 h or more, as us-east-1 (1) and us-east-1 (3) say: 1 more may fail, and "
        "1,234 decisions about transactions are kept for it"
    ), "the longest that one of them has seen"
    assert found.commands == [
        "epoxy members remove 2 --url http://127.0.0.1:1",
        "epoxy members add 4 http://b:7800 --replace 2 --url http://127.0.0.1:1",
    ]


def test_a_member_that_some_node_reaches_or_that_answers_is_not_away() -> None:
    gone, there = peers(reachable=False, silent_s=9e9), peers()
    for seen in ([visit(peers=gone), visit(id=3, peers=there)], [visit(peers=gone), visit(id=2)]):
        assert not [finding for finding in diagnose(seen) if finding.code == "member-away"]


def test_a_member_that_only_its_peers_can_ask_is_away_when_they_say_so() -> None:
    """Its url is for peers, so this command knows nothing of it."""
    hidden = NodeVisit(url="http://b:7800", status=None, is_for_peers=True, expected=2, datacenter="eu-west-1")
    found = diagnose([visit(peers=peers(reachable=False, silent_s=3.0)), hidden])
    assert [finding.severity for finding in found if finding.code == "member-away"] == [Severity.WARNING]
    assert not [each for each in diagnose([visit(peers=peers()), hidden]) if each.code == "member-away"]
