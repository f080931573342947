"""What `epoxy doctor` says about disks."""

from typing import Any

import pytest

from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import NodeVisit, Severity
from tests.cli.visits import visit


def disk(*, free: int) -> dict[str, int]:
    """In MiB."""
    return {"free_bytes": free << 20, "tree_bytes": 2 << 30, "log_bytes": 16 << 20}


@pytest.mark.parametrize(
    ("visits", "severity", "words"),
    [
        ([visit(invariant_violations=1)], Severity.BROKEN, "us-east-1 (1) has seen 1 broken invariant: two values"),
        ([visit(longest_sync_ms=2400.0)], Severity.WARNING, "the disk of us-east-1 (1) took 2.4 s for a sync"),
        (
            [visit(txn_kept=120_000, txn_kept_for=[3])],
            Severity.WARNING,
            "us-east-1 (1) keeps 120000 decisions about transactions on its disk for replica 3",
        ),
        ([visit(rotten_rows=3, unrepaired_rows=1)], Severity.BROKEN, "has 1 rotten row that could not be repaired"),
        ([visit(rotten_rows=3)], Severity.WARNING, "us-east-1 (1) has found 3 rotten rows, and repaired all"),
        ([visit(clock_s=86_400.0 * 50, scrub_ended_at=86_400.0)], Severity.WARNING, "were last checked 49 days ago"),
        ([visit(flow_failures=2)], Severity.WARNING, "us-east-1 (1) has met 2 exceptions"),
        ([visit(disk=disk(free=800))], Severity.WARNING, "800 MiB left, beside a tree of 2.0 GiB and a log of 16"),
        ([visit(disk=disk(free=299))], Severity.BROKEN, "the disk of us-east-1 (1) has 299 MiB left"),
        ([visit(changelog_bytes=5 << 29, changelog_limit=1 << 30)], Severity.WARNING, "2.5 GiB, and may take 1.0 GiB"),
        ([visit(id=9, ready=False, state="refused", longest_sync_ms=900.0)], Severity.WARNING, "took 0.9 s"),
    ],
)  # fmt: skip
def test_each_trouble_is_named(visits: list[NodeVisit], severity: Severity, words: str) -> None:
    (found,) = [finding for finding in diagnose(visits) if words in finding.words]
    assert found.severity is severity


def test_enough_room_is_no_finding() -> None:
    fine: dict[str, Any] = {"disk": disk(free=1024), "changelog_bytes": 1 << 30, "changelog_limit": 1 << 30}
    assert {finding.severity for finding in diagnose([visit(**fine)])} == {Severity.FINE}


def test_a_node_that_was_never_scrubbed_is_no_finding() -> None:
    assert {finding.severity for finding in diagnose([visit(clock_s=1e9)])} == {Severity.FINE}
    assert {finding.severity for finding in diagnose([visit(clock_s=1e9, scrub_ended_at=1e9)])} == {Severity.FINE}


def syncs(p50_ms: float, p99_ms: float, count: int = 200) -> dict[str, Any]:
    return {"disk": disk(free=9000) | {"syncs": {"count": count, "p50_ms": p50_ms, "p99_ms": p99_ms}}}


def test_a_disk_that_syncs_slowly_is_named_with_its_figures_and_a_replacement() -> None:
    (found,) = [finding for finding in diagnose([visit(**syncs(31.0, 420.0))]) if finding.code == "slow-disk"]
    assert found.words == (
        "the disk of us-east-1 (1) syncs slowly: p50 31.0 ms, p99 420.0 ms of 200 syncs in the last minute"
    )
    assert found.commands == ["epoxy members add 4 http://127.0.0.1:1 --replace 1 --url http://127.0.0.1:1"]
    (found,) = [
        each for each in diagnose([visit(**syncs(31.0, 40.0), longest_sync_ms=900.0)]) if each.code == "slow-disk"
    ]
    assert "took 0.9 s for a sync just now, and syncs slowly" in found.words


@pytest.mark.parametrize(
    ("given", "is_slow"),
    [
        (syncs(24.0, 249.0), False),
        (syncs(26.0, 26.0), True),
        (syncs(1.0, 251.0), True),
        (syncs(1.0, 251.0, count=99), False),
        (syncs(26.0, 26.0, count=3), True),
    ],
)
def test_when_a_disk_is_slow(given: dict[str, Any], is_slow: bool) -> None:
    """One slow sync of few is not the 99th percentile of a disk."""
    assert ("slow-disk" in [finding.code for finding in diagnose([visit(**given)])]) is is_slow
