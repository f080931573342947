"""What `epoxy doctor` says about certificates and secrets."""

import pytest

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import NodeVisit, Severity
from tests.cli.visits import visit

NOW_S, DAY_S = 1.8e9, 86_400.0


def with_end(setting: str, days: float) -> list[NodeVisit]:
    return [visit(clock_s=NOW_S, certificates={setting: NOW_S + days * DAY_S})]


def with_secrets(*secrets: str) -> list[NodeVisit]:
    return [visit(id=number, secrets=each.split()) for number, each in enumerate(secrets, 1)]


@pytest.mark.parametrize(
    ("visits", "severity", "words"),
    [
        (with_end("cert", 13.5), Severity.WARNING, "the certificate of us-east-1 (1) expires in 13 days"),
        (with_end("cert", 1.5), Severity.WARNING, "expires in 1 day"),
        (with_end("cert", -0.1), Severity.BROKEN, "the certificate of us-east-1 (1) has expired"),
        (with_end("ca", -3), Severity.BROKEN, "the authority of the certificate of us-east-1 (1) has expired"),
        (with_end("client_ca", 2), Severity.WARNING, "clients' certificates at us-east-1 (1) expires in 2 days"),
        (with_secrets("a", "b a"), Severity.BROKEN, "(2) speaks secret b, which us-east-1 (1) does not accept"),
        (with_secrets("a b", "b a"), Severity.WARNING, "the nodes speak different ones (us-east-1 (1): a, us-east"),
        (with_secrets("a b", "a"), Severity.WARNING, "1 node of 2 accept two secrets; all speak a"),
    ],
)  # fmt: skip
def test_each_trouble_is_named(visits: list[NodeVisit], severity: Severity, words: str) -> None:
    (found,) = [finding for finding in diagnose(visits) if words in finding.words]
    assert found.severity is severity


@pytest.mark.parametrize("visits", [with_end("cert", 15), with_secrets("a", "a"), with_secrets("", "a"), [visit()]])
def test_what_is_fine_is_not_mentioned(visits: list[NodeVisit]) -> None:
    assert not [each for each in diagnose(visits) if "certificate" in each.words or "secret" in each.words]
