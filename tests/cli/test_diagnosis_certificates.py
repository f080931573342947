"""What `epoxy doctor` says about certificates and secrets."""

import pytest

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import NodeVisit, Severity
from epoxy.transport.peers.keyring import fingerprint_of
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


def with_authorities(*held: str) -> list[NodeVisit]:
    return [visit(id=number, authorities=each.split()) for number, each in enumerate(held, 1)]


def test_authorities_that_differ() -> None:
    (found,) = [each for each in diagnose(with_authorities("aa", "aa bb", "")) if each.code == "authorities-differ"]
    assert found.severity is Severity.WARNING
    assert "share aa (us-east-1 (1): aa, us-east-1 (2): aa and bb)" in found.words
    (found,) = [each for each in diagnose(with_authorities("aa", "bb")) if each.code == "authorities-differ"]
    assert (found.severity, "no authority in common" in found.words) == (Severity.BROKEN, True)


def test_a_name_that_is_not_in_the_certificate() -> None:
    flawed = visit(certificate_flaw="IP address mismatch, certificate is not valid for '127.0.0.1'.")
    (found,) = [each for each in diagnose([flawed]) if each.code == "certificate-flaw"]
    assert found.words.startswith(
        "the certificate of us-east-1 (1) is refused at http://127.0.0.1:1: IP address mismatch"
    )


def test_a_secret_of_an_example_is_named_by_its_fingerprint() -> None:
    weak = fingerprint_of(b"changemechangeme")
    (found,) = [each for each in diagnose(with_secrets(f"{weak} a", "a")) if each.code == "secret-default"]
    assert found.words == f"the secret {weak} of us-east-1 (1) is that of an example: 'changemechangeme'"
