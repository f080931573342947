"""What `epoxy doctor` says about access: each finding with the command that mends it."""

from typing import Any

import pytest

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.diagnosis_access import ends, exposed_files, grants, modes, openness, refusals, versions
from epoxy.cli.findings import Finding, NodeVisit, Severity
from epoxy.client import Status
from epoxy.model.access import AccessRole
from tests.cli.visits import HEALTHY, visit
from tests.client.fake_auth import grant

NOW = 1_700_000_000.0
ADMIN = grant("admin", AccessRole.OPERATOR)


def status(**change: Any) -> Status:
    found = visit(**change).status
    assert found is not None
    return found


def told(findings: Any) -> list[tuple[Severity, str]]:
    found: list[Finding] = list(findings)
    assert all(finding.advice for finding in found if finding.severity is not Severity.FINE), "each says what to do"
    return [(finding.severity, finding.words) for finding in found]


def test_an_open_node_names_each_listener_and_what_anyone_may_do_there() -> None:
    listeners = ["node.http 0.0.0.0:7800", "node.resp 0.0.0.0:7801", "node.peers 0.0.0.0:7802", "node.admin 10.0.0.1:9"]
    said = told(openness([status(auth="open", open_listeners=listeners)]))
    assert [words.partition(": ")[0] for _, words in said] == [
        "us-east-1 (1) is open at 0.0.0.0:7800 (node.http)",
        "us-east-1 (1) is open at 0.0.0.0:7801 (node.resp)",
        "us-east-1 (1) is open at 10.0.0.1:9 (node.admin)",
    ], "peers are asked for the secret all the same"
    assert all("anyone who reaches it may " in words for _, words in said)


def test_a_node_that_is_open_to_its_own_machine_alone_is_no_finding() -> None:
    assert told(openness([status(auth="open")])) == []
    assert told(openness([status(auth="tokens")])) == [(Severity.FINE, "every node asks its clients for tokens")]


def test_one_open_node_opens_the_cluster() -> None:
    said = told(modes([status(auth="tokens"), status(id=2, auth="open")]))
    assert said == [(Severity.BROKEN, "not every node asks for tokens (us-east-1 (1): tokens, us-east-1 (2): open)")]
    assert told(modes([status(auth="tokens"), status(id=2, auth="tokens"), status(id=3)])) == []


def test_versions_that_differ_or_are_old() -> None:
    said = told(versions([status(access_version=3), status(id=2, access_version=4)]))
    assert said[0][0] is Severity.WARNING
    assert "(us-east-1 (1): 3, us-east-1 (2): 4)" in said[0][1]
    old = status(auth="tokens", access_age_s=31.0)
    assert "has not heard for 31 s" in told(versions([old]))[0][1]
    assert told(versions([status(auth="tokens", access_age_s=3.0), status(auth="open", access_age_s=99.0)])) == []


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([ADMIN], []),
        ([], ["no operator"]),
        ([grant("ci", AccessRole.WRITER)], ["no operator"]),
        ([grant("admin", AccessRole.OPERATOR, expires_s=1)], ["no operator", "admin expired on 1970-01-01"]),
        ([ADMIN, grant("x", AccessRole.READER, expires_s=int(NOW) + 86_400)], ["x expires in 1.0 days"]),
        ([ADMIN, grant("x", AccessRole.READER, expires_s=int(NOW) + 8 * 86_400)], []),
        ([ADMIN, grant("all", *AccessRole)], ["the token of all may do everything"]),
        ([ADMIN, grant("all", *AccessRole, prefixes=["a"])], []),
        (None, ["the grants were not looked at"]),
    ],
)
def test_grants_that_need_a_look(known: Any, expected: list[str]) -> None:
    said = [words for _, words in told(grants([status(auth="tokens")], known, NOW))]
    assert len(said) == len(expected)
    assert all(words.startswith(begin) for words, begin in zip(said, expected, strict=True)), said


def test_an_open_cluster_needs_no_operator() -> None:
    assert told(grants([status(auth="open")], [], NOW)) == []
    assert told(grants([status(auth="open")], None, NOW)) == []


def test_the_advice_names_the_grant() -> None:
    (finding,) = ends([grant("ci", AccessRole.READER, expires_s=1)], NOW)
    assert "`epoxy auth token revoke ci`" in finding.advice


def test_files_that_others_can_read() -> None:
    node = status(readable_secrets=["cluster.secret_file /etc/epoxy/secret"])
    theirs, ours = exposed_files([node], ["/srv/token"])
    assert theirs.words == "other users of the machine of us-east-1 (1) can read cluster.secret_file /etc/epoxy/secret"
    assert "chmod 600 /etc/epoxy/secret" in theirs.advice
    assert ours.advice == "chmod 600 /srv/token"


def test_a_node_that_refuses_this_client_is_not_said_to_be_down() -> None:
    refused = NodeVisit(url="http://a:1", status=None, reason="no (unauthenticated)", refused=True)
    assert told(refusals([refused])) == [(Severity.BROKEN, "refused by http://a:1: no (unauthenticated)")]
    assert not any("does not answer" in finding.words for finding in diagnose([refused]))
    assert told(refusals(HEALTHY)) == []


def test_a_diagnosis_has_them_all() -> None:
    seen = [visit(auth="open", open_listeners=["node.http 0.0.0.0:1"]), visit(id=2, auth="tokens")]
    words = " ".join(finding.words for finding in diagnose(seen, [grant("all", *AccessRole)], ["token"]))
    for part in ("is open at", "not every node asks", "may do everything", "can read the token in token"):
        assert part in words
