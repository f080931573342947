"""docs/descriptions.md: every name of the descriptions has a row, and what the row says it is called here exists."""

import re

from tests.house.test_house import ROOT

PAGE = ROOT / "docs" / "descriptions.md"
SOURCES = ROOT / "src" / "epoxy"

NAMES = [
    "Prepare",
    "PrepareOk",
    "Accept",
    "Commit",
    "AlreadyCommitted",
    "HigherBallot",
    "StaleCommit",
    "ChangelogRead",
    "UpdateConfig",
    "HealthCheck",
    "BeginLearning",
    "CoordinatorUpdateReplicaStatus",
    "Committed",
    "ExpectedValueDoesNotMatch",
    "ConsensusFailed",
    "kv_get_optimistic",
    "Optimistic",
    "SkipCache",
    "Fast",
    "Slow",
    "All",
    "Any",
    "config",
    "value",
    "ballot",
    "accepted",
    "cache",
    "changelog",
    "committed_value",
    "Joining",
    "Active",
    "HB",
    "OFFER",
    "ACCEPT",
    "ANNOUNCE",
    "hb_interval_ms",
    "down_after_ms",
    "election_timeout_ms",
    "election_backoff_ms",
    "elect_port_base",
    "READCONSISTENT",
    "pegboard_envoy_expire",
    "skip_if_fresh",
    "EnvoyExpireScheduler",
    "pegboard_envoy_stale_sweep",
    "EnvoyPoolMetaKey",
    "EnvoyHashIdxKey",
    "EnvoyLoadBalancerIdxKey",
    "ActiveEnvoyKey",
    "ActiveEnvoyByNameKey",
    "ExpiredTsKey",
    "LastPingTsKey",
    "LastRttKey",
    "SlotsKey",
    "VirtualNodesKey",
    "VersionKey",
    "PoolNameKey",
    "CreateTsKey",
    "ProtocolVersionKey",
    "virtual_nodes",
    "samples",
    "max_scan",
    "slot_jitter",
    "use_snapshot_read",
    "envoy_eligible_threshold",
    "random_ping_timestamp",
    "random_full_range",
    "envoy_lb_",
    "xxh3_128_with_seed",
    "get_reservation_for_key",
    "seq",
    "PreAccept",
    "CAS",
]
"""Of the messages, rows, settings and metrics in the five texts, by hand."""


def rows(text: str) -> list[tuple[str, str]]:
    """What a row says of the description, and what it says of the code."""
    lines = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(cells[0], cells[1]) for cells in lines if cells[0].strip() not in ("description", "---")]


def unmapped(text: str) -> list[str]:
    described = " ".join(cell for cell, _ in rows(text))
    return [name for name in NAMES if not re.search(rf"(?<![a-zA-Z_]){re.escape(name)}", described)]


def untrue(text: str) -> list[str]:
    """Classes and modules in the second column that the package does not have."""
    code = "\n".join(path.read_text("utf-8") for path in SOURCES.rglob("*.py"))
    quoted = " ".join(re.findall(r"`([^`]+)`", " ".join(here for _, here in rows(text))))
    modules = re.findall(r"[a-z_/]+/[a-z_]+\.py", quoted)
    classes = re.findall(r"\b[A-Z][a-z]+[A-Za-z]+\b", quoted)
    return [each for each in modules if not (SOURCES / each).is_file()] + [
        each for each in classes if not re.search(rf"^class {each}\b", code, re.MULTILINE)
    ]


def test_every_name_of_the_descriptions_has_a_row() -> None:
    assert unmapped(PAGE.read_text("utf-8")) == []


def test_what_things_are_called_here_exists() -> None:
    assert untrue(PAGE.read_text("utf-8")) == []


def test_a_missing_row_and_a_wrong_name_are_seen() -> None:
    assert "HealthCheck" in unmapped("| `Prepare` | `Prepare` |\n")
    assert untrue("| `Prepare` | `Preparation` in `protocol/keys/prepare.py` |\n") == [
        "protocol/keys/prepare.py",
        "Preparation",
    ]
