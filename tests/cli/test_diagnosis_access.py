"""What `epoxy doctor` says about access: each finding with the command that mends it."""

from typing import Any

import pytest

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.diagnosis_access import ends, exposed_files, grants, modes, openness, refusals, versions
from epoxy.cli.findings import Finding, NodeVisit, Severity
from epoxy.cli.node_visits import ClusterAnswers
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
    for finding in found:
        assert finding.severity is Severity.FINE or (finding.why and (finding.advice or finding.commands))
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
        ([], ["no token in force is an operator's"]),
        ([grant("ci", AccessRole.WRITER)], ["no token in force"]),
        (
            [grant("admin", AccessRole.OPERATOR, expires_s=1)],
            ["no token in force", "the token of admin expired on 1970-01-01"],
        ),
        ([ADMIN, grant("x", AccessRole.READER, expires_s=int(NOW) + 86_400)], ["the token of x expires in 1.0 days"]),
        ([ADMIN, grant("x", AccessRole.READER, expires_s=int(NOW) + 8 * 86_400)], []),
        ([ADMIN, grant("all", *AccessRole)], ["the token of all may do everything"]),
        ([ADMIN, grant("all", *AccessRole, prefixes=["a"])], []),
        (None, ["the grants were not looked at"]),
    ],
)
def test_grants_that_need_a_look(known: Any, expected: list[str]) -> None:
    said = [words for _, words in told(grants([status(auth="tokens")], known, now_s=NOW))]
    assert len(said) == len(expected)
    assert all(words.startswith(begin) for words, begin in zip(said, expected, strict=True)), said


def test_grants_that_were_not_seen_are_unknown_with_the_reason() -> None:
    (finding,) = grants([status(auth="tokens")], None, "about forbidden (forbidden)", NOW)
    assert finding.severity is Severity.UNKNOWN
    assert finding.words.endswith(": about forbidden (forbidden)")


def test_an_open_cluster_needs_no_operator() -> None:
    assert told(grants([status(auth="open")], [], now_s=NOW)) == []
    assert told(grants([status(auth="open")], None, now_s=NOW)) == []


def test_the_advice_names_the_grant() -> None:
    (finding,) = ends([grant("ci", AccessRole.READER, expires_s=1)], NOW)
    assert finding.commands == ("epoxy auth token revoke ci",)
    (finding,) = ends([grant("a b", AccessRole.READER, expires_s=int(NOW) + 60, prefixes=["p/"])], NOW)
    assert finding.commands[0] == "epoxy auth token create 'a b-2' --role reader --prefix p/"
    assert finding.commands[1] == "epoxy auth token revoke 'a b'"


def test_files_that_others_can_read() -> None:
    node = status(readable_secrets=["cluster.secret_file /etc/epoxy/secret"])
    theirs, ours = exposed_files([node], ["/srv/token"])
    assert theirs.words == "other users of the machine of us-east-1 (1) can read cluster.secret_file /etc/epoxy/secret"
    assert theirs.commands == ("chmod 600 /etc/epoxy/secret",)
    assert ours.commands == ("chmod 600 /srv/token",)


def test_a_node_that_refuses_this_client_is_not_said_to_be_down() -> None:
    refused = NodeVisit(url="http://a:1", status=None, reason="no (unauthenticated)", refused=True)
    assert told(refusals([refused])) == [(Severity.BROKEN, "refused by http://a:1: no (unauthenticated)")]
    assert not any("does not answer" in finding.words for finding in diagnose([refused]))
    assert told(refusals(HEALTHY)) == []


def test_a_token_that_only_one_node_refuses_is_not_the_clients_fault() -> None:
    """As one whose disk was lost does."""
    refused = NodeVisit(url="https://a:1", status=None, reason="no (unauthenticated)", refused=True)
    (everywhere,) = refusals([refused])
    assert everywhere.commands == ("epoxy auth init --config epoxy.toml --save",)
    (there,) = refusals([*HEALTHY, refused])
    assert "knows none: its disk is new" in there.advice
    assert there.commands == ("curl --insecure https://a:1/readyz",)


def test_a_diagnosis_has_them_all() -> None:
    seen = [visit(auth="open", open_listeners=["node.http 0.0.0.0:1"]), visit(id=2, auth="tokens")]
    words = " ".join(
        finding.words for finding in diagnose(seen, ClusterAnswers(grants=[grant("all", *AccessRole)]), ["token"])
    )
    for part in ("is open at", "not every node asks", "may do everything", "can read the token in token"):
        assert part in words
