"""What `epoxy doctor` says about releases that differ."""

from typing import Any

import pytest

from epoxy.cli.diagnosis_versions import own_release, release_key, releases
from epoxy.cli.findings import Severity
from epoxy.client import Status
from tests.cli.visits import visit


def nodes(*versions: str, **change: Any) -> list[Status]:
    found = [visit(id=number, version=version, **change).status for number, version in enumerate(versions, 1)]
    return [status for status in found if status is not None]


def test_releases_are_in_order() -> None:
    mixed = ["1.0", "0.10.0", "0.2.0", "0.10.0rc1", "0.1.1", "", "0.2.0.dev0"]
    assert sorted(mixed, key=release_key) == ["", "0.1.1", "0.2.0.dev0", "0.2.0", "0.10.0rc1", "0.10.0", "1.0"]
    assert release_key("nonsense") < release_key("")


def test_what_is_missing_where_is_named_with_the_command() -> None:
    (found,) = releases(nodes("0.3.0", "0.2.0", "0.3.0"))
    assert found.severity is Severity.WARNING
    assert found.words.endswith("(us-east-1 (1): 0.3.0, us-east-1 (2): 0.2.0, us-east-1 (3): 0.3.0)")
    assert found.advice.startswith("Finish the upgrade: us-east-1 (2), one after the other")
    assert found.commands == ("pip install 'epoxydb[server]==0.3.0'",)
    (found,) = releases(nodes("0.2.0", ""))
    assert "0.1 or older" in found.words
    assert list(releases(nodes("0.2.0", "0.2.0"))) == []
    assert list(releases(nodes("", ""))) == []


def test_nodes_of_one_datacenter_have_a_finding_of_their_own() -> None:
    first, second = nodes("0.2.0", "0.3.0")
    beside = visit(id=1, version="0.3.0").status
    assert beside is not None
    assert list(releases([first, beside, second])) == []


def test_nodes_without_a_common_wire_are_broken() -> None:
    (old,), (new,) = nodes("0.2.0", wire_oldest=5, wire_newest=5), nodes("0.4.0", wire_oldest=6, wire_newest=7)
    assert [finding.severity for finding in releases([old, visit_of(2, new)])] == [Severity.BROKEN]
    (near,) = nodes("0.3.0", wire_oldest=5, wire_newest=6)
    assert [finding.severity for finding in releases([old, visit_of(2, near)])] == [Severity.WARNING]


def visit_of(replica: int, status: Status) -> Status:
    found = visit(
        id=replica, version=status.version, wire_oldest=status.wire_oldest, wire_newest=status.wire_newest
    ).status
    assert found is not None
    return found


@pytest.mark.parametrize(("own", "is_old"), [("0.2.0", True), ("0.3.0.dev0", True), ("0.3.0", False), ("0.4.0", False)])
def test_a_doctor_that_is_older_than_the_nodes(own: str, is_old: bool) -> None:
    found = list(own_release(nodes("0.1.0", "0.3.0"), own))
    assert [finding.commands for finding in found] == ([("pip install epoxydb==0.3.0",)] if is_old else [])
    assert list(own_release(nodes(""), own)) == [], "they do not say"
