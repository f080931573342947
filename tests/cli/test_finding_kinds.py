"""Every kind of finding: a planted fault that brings it, a healthy cluster that does not, and its row on the page."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from epoxy import __version__
from epoxy.cli.diagnosis import diagnose
from epoxy.cli.diagnosis_files import NodeFiles
from epoxy.cli.finding_kinds import FindingKind as Kind
from epoxy.cli.findings import ClockReading, NodeVisit, Severity
from epoxy.cli.node_visits import ClusterAnswers
from epoxy.client import Status
from epoxy.model.access import AccessRole
from epoxy.model.api_actors import ActorPlace, HomelessActor, HomelessPage, PoolName, PoolPage
from epoxy.transport.peers.keyring import fingerprint_of
from tests.cli.visits import HEALTHY, away, peers, visit
from tests.client.fake import STATUS
from tests.client.fake_auth import grant

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operating-doctor.md"

A, B = "http://127.0.0.1:1", "http://127.0.0.1:2"
ADMIN = grant("admin", AccessRole.OPERATOR)
LOBBY = HomelessActor(namespace="default", name="room", key="lobby", pool="web", datacenter="eu-west-1")
WEB = PoolName(namespace="default", pool="web")


class Seen(Struct, frozen=True):
    """What the doctor is shown."""

    visits: Sequence[NodeVisit]
    answers: ClusterAnswers = ClusterAnswers()
    own_files: Sequence[str] = ()
    files: NodeFiles | None = None


def one(**change: Any) -> Seen:
    """A healthy cluster but for one node."""
    return Seen([visit(**change), visit(id=2), visit(id=3)])


def silent(**change: Any) -> Seen:
    return Seen([*HEALTHY, NodeVisit(**{"url": "http://x:1", "status": None, "reason": "connection refused"} | change)])


def clocks(ahead_s: float, within_s: float = 0.01) -> Seen:
    here = ClockReading(ahead_s=0.0, within_s=within_s)
    return Seen([replace(HEALTHY[0], clock=here), replace(HEALTHY[1], clock=replace(here, ahead_s=ahead_s))])


def row(session: int, url: str, shards: int, **change: Any) -> dict[str, Any]:
    return {"session": session, "url": url, "shards": shards, "version": "1.0", "lease_ms": 4900.0} | change


def datacenter(*rows: dict[str, Any], leases: Sequence[float] = (5000.0, 5000.0), addresses: Any = (A, B)) -> Seen:
    told = {"nodes": rows, "addresses": addresses}
    own = [told | {"url": each["url"], "session": each["session"]} for each in rows]
    return Seen(
        [
            NodeVisit(url=each["url"], status=msgspec.convert(STATUS | each | {"store_lease_ms": lease}, Status))
            for each, lease in zip(own, leases, strict=False)
        ]
    )


GATEWAY, OTHER = row(1, A, 129, gateway=True), row(2, B, 128)


def places(*pools: Sequence[PoolName]) -> ClusterAnswers:
    held = [
        ActorPlace(datacenter=f"dc-{i}", here=i == 1, hosts=bool(each), pools=list(each))
        for i, each in enumerate(pools, 1)
    ]
    return ClusterAnswers(pools=PoolPage(datacenter="dc-1", pools=[], datacenters=held))


def files(**change: Any) -> Seen:
    return Seen(HEALTHY, files=NodeFiles(path=Path("epoxy.toml"), url=A, **change))


def grants(*known: Any) -> Seen:
    return Seen([visit(auth="tokens")], ClusterAnswers(grants=[*known]))


FINE = {
    Kind.NODES_READY: Seen(HEALTHY),
    Kind.AVAILABLE: Seen(HEALTHY),
    Kind.CHANGE_UNDER_WAY: one(joint=True, epoch_age_s=2.0),
    Kind.CLOCKS_CLOSE: clocks(0.1),
    Kind.TOKENS_ASKED: Seen([visit(auth="tokens")]),
    Kind.DATACENTER_FINE: datacenter(GATEWAY, OTHER),
}
"""Kinds of what is as it should be."""

FAULTS = {
    Kind.NODE_SILENT: silent(),
    Kind.NODE_NOT_ASKED: silent(is_for_peers=True),
    Kind.NODE_REFUSES: silent(refused=True),
    Kind.NODE_NOT_READY: one(ready=False),
    Kind.NODE_WAITS: Seen([*HEALTHY, away("new")]),
    Kind.NODE_REMOVED: Seen([*HEALTHY, away("removed")]),
    Kind.WRONG_NODE: Seen([HEALTHY[0], replace(HEALTHY[1], expected=3)]),
    Kind.TWIN_IDS: Seen([visit(), visit(url=B)]),
    Kind.SECOND_PROCESS: Seen([visit(peers=peers(refused="still_running")), visit(id=2)]),
    Kind.OTHER_CLUSTER: Seen([visit(), visit(id=2, cluster="00aa")]),
    Kind.NO_QUORUM: one(tolerated_failures=-1),
    Kind.NO_SPARE: one(tolerated_failures=0),
    Kind.EPOCHS_DIFFER: one(epoch=2),
    Kind.POLICIES_DIFFER: one(quorum_policy="fast-paxos"),
    Kind.FEW_REPLICAS: one(replicas=2),
    Kind.EVEN_REPLICAS: one(replicas=4),
    Kind.FAST_PAXOS: one(quorum_policy="fast-paxos", fast_quorum=3),
    Kind.ROUNDS_WAIT: one(fast_rounds_wait_for=[3], fast_path_share=0.0),
    Kind.SLOW_PATH: one(fast_path_share=0.79),
    Kind.STORE_EMPTY: Seen([visit(epoch=8), away("unconfirmed")]),
    Kind.STORE_DISPLACED: Seen([*HEALTHY, away("displaced")]),
    Kind.STORE_UNCONFIRMED: Seen([*HEALTHY, away("unconfirmed")]),
    Kind.STORE_CONFIRMING: Seen([*HEALTHY, away("confirming")]),
    Kind.STORE_REFUSED: Seen([*HEALTHY, away("refused")]),
    Kind.MEMBER_AWAY: Seen([visit(peers=peers(reachable=False, silent_s=601.0))]),
    Kind.CHANGE_STUCK: one(joint=True, epoch_age_s=61.0),
    Kind.NEWCOMER_AWAY: one(peers=peers(id=9, status="joining", reachable=False)),
    Kind.NEWCOMER_SLOW: one(peers=peers(id=9, status="learning"), epoch_age_s=901.0),
    Kind.TXNS_BEHIND: one(txn_state="catching-up", txn_behind=7),
    Kind.TXNS_WAIT: one(state="active", txn_state="learning", epoch_age_s=61.0),
    Kind.DECISIONS_KEPT: one(txn_kept=100_000, txn_kept_for=[3]),
    Kind.LINK_CUT: one(peers=peers(reachable=False)),
    Kind.CLOCK_SKEW: clocks(5.1),
    Kind.CLOCKS_UNKNOWN: clocks(4.9, within_s=0.2),
    Kind.NEAR_DATACENTERS: one(peers=peers(rtt_ms=0.4)),
    Kind.NO_ENCRYPTION: Seen([visit(url="http://10.0.0.1:7800")]),
    Kind.INVARIANT_BROKEN: one(invariant_violations=1),
    Kind.EXCEPTIONS: one(flow_failures=1),
    Kind.SLOW_DISK: one(longest_sync_ms=251.0),
    Kind.ROT: one(rotten_rows=1, unrepaired_rows=1),
    Kind.ROT_REPAIRED: one(rotten_rows=1),
    Kind.UNCHECKED_ROWS: one(clock_s=32 * 86_400.0, scrub_ended_at=86_400.0),
    Kind.DISK_SPACE: one(disk={"free_bytes": (1 << 30) - 1, "tree_bytes": 0, "log_bytes": 0}),
    Kind.LONG_CHANGELOG: one(changelog_bytes=126, changelog_limit=100),
    Kind.CERTIFICATE_EXPIRED: one(clock_s=1e9, certificates={"cert": 1e9 - 1}),
    Kind.CERTIFICATE_EXPIRES: one(clock_s=1e9, certificates={"cert": 1e9 + 13 * 86_400}),
    Kind.CERTIFICATE_FLAW: one(certificate_flaw="IP address mismatch"),
    Kind.AUTHORITIES_DIFFER: Seen([visit(authorities=["aa"]), visit(id=2, authorities=["bb"])]),
    Kind.SECRET_UNKNOWN: Seen([visit(secrets=["aa"]), visit(id=2, secrets=["bb"])]),
    Kind.SECRET_REPLACED: Seen([visit(secrets=["aa", "bb"]), visit(id=2, secrets=["bb", "aa"])]),
    Kind.SECRET_DEFAULT: one(secrets=[fingerprint_of(b"change-me-please")]),
    Kind.SECRET_READABLE: one(readable_secrets=["tls.key /etc/key"]),
    Kind.TOKEN_READABLE: Seen(HEALTHY, own_files=["token"]),
    Kind.FILE_WRONG: files(wrong=("cluster.secret_file x: cannot be read",)),
    Kind.OPEN_ACCESS: one(auth="open", open_listeners=["node.http 0.0.0.0:7800"]),
    Kind.MIXED_ACCESS: Seen([visit(auth="open"), visit(id=2, auth="tokens")]),
    Kind.GRANTS_APART: one(access_version=2),
    Kind.GRANTS_OLD: one(auth="tokens", access_age_s=31.0),
    Kind.GRANTS_UNSEEN: Seen([visit(auth="tokens")]),
    Kind.NO_OPERATOR: grants(),
    Kind.GRANT_EXPIRED: grants(ADMIN, grant("x", AccessRole.READER, expires_s=1)),
    Kind.GRANT_EXPIRES: grants(ADMIN, grant("x", AccessRole.READER, expires_s=4_000_000_000)),
    Kind.GRANT_BROAD: grants(grant("all", *AccessRole)),
    Kind.HOMELESS_ACTORS: Seen(HEALTHY, ClusterAnswers(homeless=HomelessPage(count=1, actors=[LOBBY]))),
    Kind.NO_WORKERS: Seen(HEALTHY, places([WEB], [])),
    Kind.ACTORS_UNSEEN: Seen(HEALTHY, ClusterAnswers(unseen={"pools": "no answer in time"})),
    Kind.VERSIONS_DIFFER: Seen([visit(version="0.0.1"), visit(id=2, version="0.0.2")]),
    Kind.VERSION_HERE: one(version="99.0.0"),
    Kind.DATABASE_AWAY: datacenter(row(1, A, 129, gateway=True, lease_ms=-1.0), OTHER),
    Kind.DATABASE_LATE: datacenter(row(1, A, 129, gateway=True, lease_ms=4200.0), OTHER),
    Kind.NODE_OF_DATACENTER_SILENT: datacenter(GATEWAY, row(2, B, 128, lease_ms=-1.0)),
    Kind.SHARDS_ORPHANED: datacenter(GATEWAY, row(2, B, 127)),
    Kind.NO_GATEWAY: datacenter(row(1, A, 128), OTHER),
    Kind.SHARDS_UNEVEN: datacenter(row(1, A, 237, gateway=True), row(2, B, 20)),
    Kind.NODE_WITHOUT_SHARDS: datacenter(row(1, A, 257, gateway=True), row(2, B, 0)),
    Kind.ADDRESS_UNLISTED: datacenter(GATEWAY, OTHER, addresses=[A]),
    Kind.LEASE_ENDING: datacenter(GATEWAY, row(2, B, 128, lease_ms=2300.0), leases=[5000.0]),
    Kind.LEASES_DIFFER: datacenter(GATEWAY, row(2, B, 128, lease_ms=9900.0), leases=[5000.0, 10_000.0]),
}
"""What brings each other kind, as near to its threshold as it can be."""

NO_FAULTS = {
    Kind.NO_SPARE: one(tolerated_failures=1),
    Kind.SLOW_PATH: one(fast_path_share=0.8),
    Kind.FEW_REPLICAS: one(replicas=3),
    Kind.EVEN_REPLICAS: one(replicas=5),
    Kind.MEMBER_AWAY: Seen([visit(peers=peers(reachable=False, silent_s=599.0))]),
    Kind.CHANGE_STUCK: one(joint=True, epoch_age_s=59.0),
    Kind.NEWCOMER_SLOW: one(peers=peers(id=9, status="learning"), epoch_age_s=899.0),
    Kind.TXNS_WAIT: one(state="active", txn_state="learning", epoch_age_s=59.0),
    Kind.DECISIONS_KEPT: one(txn_kept=99_999, txn_kept_for=[3]),
    Kind.CLOCK_SKEW: clocks(4.9),
    Kind.CLOCKS_UNKNOWN: clocks(4.9, within_s=0.04),
    Kind.NEAR_DATACENTERS: one(peers=peers(rtt_ms=0.6)),
    Kind.NO_ENCRYPTION: Seen([visit(url="https://10.0.0.1:7800")]),
    Kind.SLOW_DISK: one(longest_sync_ms=249.0),
    Kind.UNCHECKED_ROWS: one(clock_s=30 * 86_400.0, scrub_ended_at=86_400.0),
    Kind.DISK_SPACE: one(disk={"free_bytes": 1 << 30, "tree_bytes": 0, "log_bytes": 0}),
    Kind.LONG_CHANGELOG: one(changelog_bytes=125, changelog_limit=100),
    Kind.CERTIFICATE_EXPIRED: one(clock_s=1e9, certificates={"cert": 1e9 + 1}),
    Kind.CERTIFICATE_EXPIRES: one(clock_s=1e9, certificates={"cert": 1e9 + 14 * 86_400}),
    Kind.CERTIFICATE_FLAW: one(certificate_flaw="certificate has expired"),
    Kind.AUTHORITIES_DIFFER: Seen([visit(authorities=["aa"]), visit(id=2, authorities=["aa"]), visit(id=3)]),
    Kind.SECRET_UNKNOWN: Seen([visit(secrets=["aa"]), visit(id=2, secrets=["aa"])]),
    Kind.SECRET_REPLACED: Seen([visit(secrets=["aa"]), visit(id=2, secrets=["aa"])]),
    Kind.SECRET_DEFAULT: one(secrets=[fingerprint_of(b"Aeg7uYeeShoh2aLo")]),
    Kind.OPEN_ACCESS: one(auth="open", open_listeners=[]),
    Kind.MIXED_ACCESS: Seen([visit(auth="tokens"), visit(id=2, auth="tokens")]),
    Kind.GRANTS_OLD: one(auth="tokens", access_age_s=29.0),
    Kind.NO_OPERATOR: grants(ADMIN),
    Kind.GRANT_EXPIRED: grants(ADMIN, grant("x", AccessRole.READER, expires_s=4_000_000_000)),
    Kind.GRANT_EXPIRES: grants(ADMIN, grant("x", AccessRole.READER, expires_s=4_000_000_000 + 8 * 86_400)),
    Kind.GRANT_BROAD: grants(grant("all", *AccessRole, prefixes=["a"])),
    Kind.HOMELESS_ACTORS: Seen(HEALTHY, ClusterAnswers(homeless=HomelessPage(count=0, actors=[]))),
    Kind.NO_WORKERS: Seen(HEALTHY, places([], [])),
    Kind.VERSIONS_DIFFER: Seen([visit(version="0.0.1"), visit(id=2, version="0.0.1")]),
    Kind.VERSION_HERE: one(version=__version__),
    Kind.DATABASE_LATE: datacenter(row(1, A, 129, gateway=True, lease_ms=4300.0), OTHER),
    Kind.DATABASE_AWAY: datacenter(row(1, A, 129, gateway=True, lease_ms=1.0), OTHER),
    Kind.SHARDS_UNEVEN: datacenter(row(1, A, 177, gateway=True), row(2, B, 81)),
    Kind.LEASE_ENDING: datacenter(GATEWAY, row(2, B, 128, lease_ms=2600.0), leases=[5000.0]),
    Kind.LEASES_DIFFER: datacenter(GATEWAY, row(2, B, 128, lease_ms=9800.0), leases=[5000.0, 9_900.0]),
}
"""What is just on the other side of a threshold, or looks alike."""

NOW_S = 4_000_000_000 - 86_400.0


def found(seen: Seen) -> dict[str, Severity]:
    findings = diagnose(seen.visits, seen.answers, seen.own_files, seen.files)
    for finding in findings:
        bare = [finding.why, finding.advice or finding.commands]
        assert finding.severity is Severity.FINE or all(bare), f"why, or what to do, is missing: {finding}"
    return {finding.code: finding.severity for finding in findings}


@pytest.fixture(autouse=True)
def moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.cli.diagnosis_access.time.time", lambda: NOW_S)


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.code)
def test_a_planted_fault_is_found(kind: Kind) -> None:
    severity = found(FAULTS[kind]).get(kind.code)
    assert severity in (Severity.BROKEN, Severity.WARNING, Severity.UNKNOWN)


@pytest.mark.parametrize("kind", NO_FAULTS, ids=lambda kind: kind.code)
def test_what_is_no_fault_is_not_taken_for_one(kind: Kind) -> None:
    assert kind.code not in found(NO_FAULTS[kind])


@pytest.mark.parametrize("kind", FINE, ids=lambda kind: kind.code)
def test_what_is_well_is_said_to_be(kind: Kind) -> None:
    assert found(FINE[kind])[kind.code] is Severity.FINE


def test_a_healthy_cluster_has_none_of_them() -> None:
    whole = [replace(each, clock=ClockReading(ahead_s=0.0, within_s=0.001)) for each in HEALTHY]
    seen = Seen(whole, replace(places([WEB], [WEB]), homeless=HomelessPage(count=0, actors=[]), grants=[ADMIN]))
    assert found(seen) == dict.fromkeys(["nodes-ready", "clocks-close", "available"], Severity.FINE)
    assert found(datacenter(GATEWAY, OTHER)) == dict.fromkeys(
        ["nodes-ready", "datacenter-fine", "available"], Severity.FINE
    )


def test_every_kind_has_a_planted_fault() -> None:
    assert {*FINE, *FAULTS} == set(Kind)


def test_codes_are_words_and_used_once() -> None:
    codes = [kind.code for kind in Kind]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def rows(page: str) -> list[str]:
    """The codes in its tables of findings."""
    return re.findall(r"^\| `([a-z-]+)` \|", page.partition("## What it finds")[2], re.MULTILINE)


def test_the_page_has_a_row_for_each_and_no_other() -> None:
    assert sorted(rows(PAGE.read_text("utf-8"))) == sorted(kind.code for kind in Kind)
    assert rows("| `a` |\n## What it finds\n| `slow-disk` | warning |\n| slow |\n") == ["slow-disk"]
