"""Findings: their commands can be pasted."""

import pytest

from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Severity, addressed, broken, fine, is_local, replacement, unknown, warning
from tests.cli.visits import peers, visit


def test_a_finding_has_the_code_and_the_reason_of_its_kind() -> None:
    kind = FindingKind.SLOW_DISK
    made = [finding(kind, "seen", "do this", "now", "then") for finding in (unknown, warning, broken)]
    assert [each.severity for each in made] == [Severity.UNKNOWN, Severity.WARNING, Severity.BROKEN]
    assert {(each.code, each.why, each.advice, tuple(each.commands)) for each in made} == {
        ("slow-disk", kind.why, "do this", ("now", "then"))
    }
    assert fine(FindingKind.AVAILABLE, "seen").why == ""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("epoxy members list", "epoxy members list --url 'http://[::1]:1'"),
        ("epoxy auth token revoke a", "epoxy auth token revoke a --url 'http://[::1]:1'"),
        ("epoxy scrub --url http://b:1", "epoxy scrub --url http://b:1"),
        ("epoxy auth init --config epoxy.toml", "epoxy auth init --config epoxy.toml"),
        ("epoxy secret drop file", "epoxy secret drop file"),
        ("chmod 600 token", "chmod 600 token"),
    ],
)
def test_commands_name_a_node_that_answers(command: str, expected: str) -> None:
    finding = warning(FindingKind.SLOW_DISK, "", "", command)
    assert addressed(finding, "http://[::1]:1").commands == [expected]
    assert addressed(finding, None) is finding


def test_a_replacement_has_an_id_that_none_has() -> None:
    first, second = visit(peers=peers(id=7)).status, visit(id=9).status
    assert first is not None
    assert second is not None
    assert replacement(2, "http://a:1", [first]) == "epoxy members add 8 http://a:1 --replace 2"
    assert replacement(2, None, [first, second]) == "epoxy members add 10 URL --replace 2"
    assert replacement(12, "", []) == "epoxy members add 13 URL --replace 12"


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1", True),
        ("http://[::1]:1,http://localhost:2", True),
        ("http://127.0.0.1:1,http://10.0.0.1:1", False),
        ("http://[::1", False),
        (None, True),
    ],
)
def test_addresses_on_this_machine(url: str | None, local: bool) -> None:
    assert is_local(url) is local
