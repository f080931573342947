"""What Prometheus is told: the names of the interface, and figures that add up."""

import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from epoxy.api.counters import Counters
from epoxy.api.metrics import Metrics, snake_case
from epoxy.model.api import DiskUsage, SessionReport
from epoxy.model.cluster import ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.errors import StoreUnavailable
from epoxy.model.histogram import BUCKETS
from epoxy.model.incarnation import MismatchCode
from epoxy.model.messages import Behind, ConfigOk, Read, ReadOk, UpdateConfig
from epoxy.model.versions import PeerVersions, WireVersions
from epoxy.model.writes import Path, Write
from epoxy.node.access.audit import AuditLog
from epoxy.node.access.guesses import FREE_GUESSES, Guesses
from epoxy.node.keys.driver import FoldCounts
from epoxy.node.observer import Observer, Unobserved
from epoxy.node.report import Credentials
from epoxy.protocol.members.retention import RetentionCeiling
from epoxy.store.embedded.syncs import SyncTimes
from epoxy.store.row_kinds import RowKind
from tests.node.service_bench import World

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

INTERFACE = {
    "epoxy_build_info",
    "epoxy_peer_build_info",
    "epoxy_wire_mismatches",
    "epoxy_proposals",
    "epoxy_proposal_duration_seconds",
    "epoxy_fast_path",
    "epoxy_slow_path",
    "epoxy_prepare",
    "epoxy_prepare_retry",
    "epoxy_ballot_bump",
    "epoxy_requests",
    "epoxy_refused",
    "epoxy_request_duration_seconds",
    "epoxy_folds",
    "epoxy_leases",
    "epoxy_leases_ended",
    "epoxy_leases_late_seconds",
    "epoxy_folded_writes",
    "epoxy_carried_writes",
    "epoxy_owner_hints",
    "epoxy_changelog_rows",
    "epoxy_changelog_bytes",
    "epoxy_changelog_limit_bytes",
    "epoxy_clock_seconds",
    "epoxy_datacenter_nodes",
    "epoxy_disk_bytes",
    "epoxy_forwarded_requests",
    "epoxy_forwarded_waiting",
    "epoxy_gateway",
    "epoxy_in_flight",
    "epoxy_in_flight_limit",
    "epoxy_keys",
    "epoxy_longest_sync_seconds",
    "epoxy_peer_up",
    "epoxy_ready",
    "epoxy_shards_owned",
    "epoxy_shards_without_owner",
    "epoxy_sync_duration_seconds",
    "epoxy_tolerated_failures",
    "epoxy_repaired_keys",
    "epoxy_replicas",
    "epoxy_txn_open",
    "epoxy_txn_term",
    "epoxy_txn_behind",
    "epoxy_txn_commands",
    "epoxy_txn_executed",
    "epoxy_txn_kept",
    "epoxy_txn_learned",
    "epoxy_peer_rtt_seconds",
    "epoxy_store_starts",
    "epoxy_store_position",
    "epoxy_stores_refused",
    "epoxy_scrubbed_rows",
    "epoxy_scrubbed_bytes",
    "epoxy_scrub_progress",
    "epoxy_scrub_last_timestamp_seconds",
    "epoxy_rotten_rows",
    "epoxy_rotten_rows_repaired",
    "epoxy_rotten_rows_left",
    "epoxy_grants",
    "epoxy_access_version",
    "epoxy_access_age_seconds",
    "epoxy_access_refusals",
    "epoxy_quota_refusals",
    "epoxy_wrong_tokens",
    "epoxy_wrong_tokens_slowed",
    "epoxy_audited_acts",
    "epoxy_audit_lines_lost",
    "epoxy_certificate_expiry_seconds",
    "epoxy_secrets",
    "epoxy_reload_failures",
    "epoxy_invariant_violations",
    "epoxy_flow_failures",
    "epoxy_abandoned_writes",
    "epoxy_read_hedges",
    "epoxy_quorum_lost",
}


def samples(metrics: Metrics) -> Samples:
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_the_names_are_those_of_the_interface() -> None:
    families = text_string_to_metric_families(Metrics().text().decode())
    assert {family.name for family in families if family.name.startswith("epoxy_")} == INTERFACE


def test_proposals_by_outcome_and_path() -> None:
    metrics = Metrics()
    metrics.counters.proposal_done("Committed", Path.FAST, 0.07)
    metrics.counters.proposal_done("Committed", Path.FAST, 0.07)
    metrics.counters.proposal_done("ExpectedValueDoesNotMatch", Path.SLOW, 0.3, prepares=3, retries=2, bumps=1)
    metrics.counters.proposal_done("ConsensusFailed", None, 14.0, prepares=11, retries=10, bumps=4)
    found = samples(metrics)
    assert found["epoxy_proposals_total", (("path", "fast"), ("result", "committed"))] == 2
    assert found["epoxy_proposals_total", (("path", "slow"), ("result", "expected_value_does_not_match"))] == 1
    assert found["epoxy_proposals_total", (("path", "none"), ("result", "consensus_failed"))] == 1
    assert found["epoxy_fast_path_total", ()] == 2
    assert found["epoxy_slow_path_total", ()] == 1
    assert found["epoxy_prepare_total", ()] == 14
    assert found["epoxy_prepare_retry_total", ()] == 12
    assert found["epoxy_ballot_bump_total", ()] == 5
    assert found["epoxy_proposal_duration_seconds_count", ()] == 4
    assert found["epoxy_proposal_duration_seconds_sum", ()] == pytest.approx(14.44)


def test_builds_here_and_at_peers() -> None:
    known = PeerVersions(1, WireVersions(oldest=5, newest=6, release="0.2.0"))
    known.heard(2, WireVersions(oldest=6, newest=7, release="0.3.0"))
    known.heard(3, WireVersions(oldest=8, newest=8, release="0.9.0"))
    found = samples(Metrics(node_with(versions=known, statuses=[ReplicaStatus.ACTIVE] * 4)))
    (here,) = [labels for name, labels in found if name == "epoxy_build_info"]
    assert {("version", "0.2.0"), ("wire", "6")} <= set(here)
    peers = {labels for name, labels in found if name == "epoxy_peer_build_info"}
    assert peers == {
        (("peer", "2"), ("version", "0.3.0"), ("wire", "6")),
        (("peer", "3"), ("version", "0.9.0"), ("wire", "0")),
    }
    assert found["epoxy_wire_mismatches_total", ()] == 1


def test_requests_by_type_and_result() -> None:
    metrics = Metrics()
    metrics.counters.request_handled("Prepare", "PrepareOk", 0.001)
    metrics.counters.request_handled("Prepare", "HigherBallot", 0.001)
    metrics.counters.request_handled("http_get_key", "ok", 0.0001)
    found = samples(metrics)
    assert found["epoxy_requests_total", (("request_type", "prepare"), ("result", "prepare_ok"))] == 1
    assert found["epoxy_requests_total", (("request_type", "prepare"), ("result", "higher_ballot"))] == 1
    assert found["epoxy_requests_total", (("request_type", "http_get_key"), ("result", "ok"))] == 1
    assert found["epoxy_request_duration_seconds_count", (("request_type", "prepare"),)] == 2
    assert found["epoxy_request_duration_seconds_count", (("request_type", "http_get_key"),)] == 1


def test_requests_that_came_together() -> None:
    metrics = Metrics()
    reads = [Read(key=b"k", epoch=1)] * 3
    replies = [
        ReadOk(committed=None, vote=None),
        Behind(version=1),
        ReadOk(committed=None, vote=None),
        ConfigOk(epoch=1),
    ]
    metrics.counters.requests_handled([*reads, UpdateConfig(config=first_epoch((1,)))], replies, 0.002)
    found = samples(metrics)
    assert found["epoxy_requests_total", (("request_type", "read"), ("result", "read_ok"))] == 2
    assert found["epoxy_requests_total", (("request_type", "read"), ("result", "behind"))] == 1
    assert found["epoxy_requests_total", (("request_type", "update_config"), ("result", "config_ok"))] == 1
    assert found["epoxy_request_duration_seconds_count", (("request_type", "read"),)] == 3
    assert found["epoxy_request_duration_seconds_sum", (("request_type", "read"),)] == pytest.approx(0.006)
    assert found["epoxy_request_duration_seconds_bucket", (("le", "0.0025"), ("request_type", "read"))] == 3


@pytest.mark.parametrize(("seconds", "smallest"), [(0.0, "0.0001"), (0.1, "0.1"), (0.1001, "0.15"), (99.0, "+Inf")])
def test_a_duration_is_in_its_bucket_and_all_above(seconds: float, smallest: str) -> None:
    metrics = Metrics()
    metrics.counters.proposal_done("Committed", Path.FAST, seconds)
    found = samples(metrics)
    bounds = [*map(str, BUCKETS), "+Inf"]
    counts = [found["epoxy_proposal_duration_seconds_bucket", (("le", bound),)] for bound in bounds]
    assert counts == [0] * bounds.index(smallest) + [1] * (len(bounds) - bounds.index(smallest))


class LeasesHeld:
    """Three, of which the oldest is two seconds late; this node ended one."""

    ended, late_ms = 1, 2_000.0

    def __len__(self) -> int:
        return 3


def node_with(**attributes: Any) -> Any:
    """As much of a node as the families of a test read; all others find zeros."""
    active = ReplicaStatus.ACTIVE
    statuses = attributes.pop("statuses", (active, active, active))
    replicas = tuple(ReplicaInfo(id=i, status=status) for i, status in enumerate(statuses, start=1))
    rtts, reachable = attributes.pop("rtts", {}), attributes.pop("reachable", {2, 3})
    engine = SimpleNamespace(
        replica=SimpleNamespace(number=attributes.pop("term", 0), kept=attributes.pop("kept", 0)),
        is_open=attributes.pop("is_open", False),
        behind=attributes.pop("behind", 0),
        catchup=SimpleNamespace(learned=attributes.pop("learned", 0)),
        paths=Counter(attributes.pop("txn_paths", {})),
        submissions=SimpleNamespace(executed_total=attributes.pop("txn_executed", 0)),
    )
    standard: dict[str, Any] = {
        "me": 1,
        "versions": PeerVersions(1),
        "leases": LeasesHeld(),
        "feed": SimpleNamespace(kept=lambda: 0),
        "ready": True,
        "orders": True,
        "session": 0,
        "sessions_of_datacenter": list,
        "member": None,
        "syncs": None,
        "longest_sync_ms": lambda: None,
        "admission": {},
        "datacenter_of": lambda peer: f"DC-{peer}",
        "changelog_ceiling": lambda: RetentionCeiling(size=100, pinned_size=400),
        "replica": SimpleNamespace(config=replace(first_epoch((1,)), replicas=replicas)),
        "links": SimpleNamespace(rtt_ms=rtts.get, reachable=reachable.__contains__),
        "ordered": engine,
        "failures": SimpleNamespace(count={}),
        "driver": SimpleNamespace(counts=FoldCounts(), owners=(), routes=None),
        "changelog_bytes": None,
        "disk_usage": lambda: None,
        "repaired": 0,
        "refused": {},
        "abandoned": 0,
        "read_hedges": 0,
        "quorum": SimpleNamespace(is_lost=False),
        "violations": 0,
        "gate": None,
        "scrubber": None,
        "repairs": SimpleNamespace(found=Counter(), repaired=0, rotten=()),
        "audit": AuditLog(),
        "credentials": Credentials,
        "guesses": Guesses(),
        "access": access_with(),
        "quotas": SimpleNamespace(refused={"requests": 0, "bytes": 0}),
        "clock": SimpleNamespace(now_ms=lambda: 10_000.0),
    }
    return SimpleNamespace(**(standard | attributes))


def access_with(**attributes: Any) -> Any:
    table = SimpleNamespace(grants=())
    return SimpleNamespace(**({"table": table, "version": 0, "confirmed_ms": None} | attributes))


def test_certificates_and_secrets() -> None:
    ends = {"cert": time.time() + 3600, "ca": time.time() - 3600}
    shown = Credentials(certificate_ends=ends, secrets=("a", "b"), reload_failures=3)
    found = samples(Metrics(node_with(credentials=lambda: shown)))
    assert 3500 < found["epoxy_certificate_expiry_seconds", (("certificate", "cert"),)] <= 3600
    assert found["epoxy_certificate_expiry_seconds", (("certificate", "ca"),)] <= -3600
    assert (found["epoxy_secrets", ()], found["epoxy_reload_failures_total", ()]) == (2, 3)


def test_grants_and_what_they_did_not_allow() -> None:
    access = access_with(table=SimpleNamespace(grants=(1, 2)), version=7, confirmed_ms=7_000.0)
    node = node_with(access=access, quotas=SimpleNamespace(refused={"requests": 5, "bytes": 0}))
    metrics = Metrics(node, lambda: {("resp_get", "forbidden"): 2, ("resp_get", "ok"): 9})
    metrics.counters.request_handled("http_get_key", "forbidden", 0.001)
    found = samples(metrics)
    assert (found["epoxy_grants", ()], found["epoxy_access_version", ()]) == (2, 7)
    assert found["epoxy_access_age_seconds", ()] == 3
    assert found["epoxy_access_refusals_total", (("reason", "forbidden"),)] == 3
    assert found["epoxy_access_refusals_total", (("reason", "unauthenticated"),)] == 0, "it rises from 0, for alerts"
    assert found["epoxy_quota_refusals_total", (("quota", "requests"),)] == 5
    assert found["epoxy_quota_refusals_total", (("quota", "bytes"),)] == 0


def test_who_is_there() -> None:
    node = node_with(ready=False, reachable={2})
    found = samples(Metrics(node))
    assert (found["epoxy_ready", ()], found["epoxy_tolerated_failures", ()]) == (0, 0)
    assert found["epoxy_peer_up", (("datacenter", "DC-2"), ("peer", "2"))] == 1, "names of datacenters are as given"
    assert found["epoxy_peer_up", (("datacenter", "DC-3"), ("peer", "3"))] == 0
    assert ("epoxy_peer_up", (("datacenter", "DC-1"), ("peer", "1"))) not in found, "a node is not its own peer"
    node.links.reachable = set().__contains__
    assert samples(Metrics(node))["epoxy_tolerated_failures", ()] == -1
    assert abs(found["epoxy_clock_seconds", ()] - time.time()) < 60


def test_syncs_of_the_disk() -> None:
    assert ("epoxy_sync_duration_seconds_count", ()) not in samples(Metrics(node_with())), "it has none"
    assert ("epoxy_longest_sync_seconds", ()) not in samples(Metrics(node_with()))
    syncs = SyncTimes()
    syncs.seconds.observe(0.02)
    found = samples(Metrics(node_with(syncs=syncs, longest_sync_ms=lambda: 20.0)))
    assert found["epoxy_sync_duration_seconds_bucket", (("le", "0.025"),)] == 1
    assert found["epoxy_sync_duration_seconds_bucket", (("le", "0.01"),)] == 0
    assert (found["epoxy_sync_duration_seconds_sum", ()], found["epoxy_longest_sync_seconds", ()]) == (0.02, 0.02)


class Counted:
    """`KeyCount` with 1,000 keys, once the count has ended."""

    keys, is_known, begun = 1_000, False, 0

    def begin(self) -> None:
        self.begun += 1


def test_keys_are_counted_in_the_background() -> None:
    count = Counted()
    node = node_with(member=SimpleNamespace(key_count=count))
    assert ("epoxy_keys", ()) not in samples(Metrics(node)), "unknown is not zero"
    assert count.begun == 1
    count.is_known = True
    assert samples(Metrics(node))["epoxy_keys", ()] == 1_000
    node.session, count.begun = 7, 0
    assert ("epoxy_keys", ()) not in samples(Metrics(node)), "other nodes of its datacenter commit, too"
    assert count.begun == 0


def test_what_is_under_way() -> None:
    admission = {"write": SimpleNamespace(count=3, limit=512), "read": SimpleNamespace(count=0, limit=700)}
    found = samples(Metrics(node_with(admission=admission)))
    assert found["epoxy_in_flight", (("kind", "write"),)] == 3
    assert found["epoxy_in_flight", (("kind", "read"),)] == 0
    assert found["epoxy_in_flight_limit", (("kind", "read"),)] == 700


def test_several_nodes_of_a_datacenter() -> None:
    alone = samples(Metrics(node_with()))
    assert ("epoxy_shards_owned", ()) not in alone
    assert ("epoxy_shards_without_owner", ()) not in alone
    assert alone["epoxy_datacenter_nodes", (("state", "serving"),)] == 0
    rows = [
        SessionReport(session=7, url="a", shards=120, gateway=True, lease_ms=900.0),
        SessionReport(session=8, url="b", shards=100, lease_ms=900.0),
        SessionReport(session=9, url="c", shards=37, lease_ms=-5.0),
    ]
    routes = SimpleNamespace(forwarded={("write", "answered"): 5, ("txn", "unknown"): 1}, waiting=2)
    driver = SimpleNamespace(counts=FoldCounts(), owners=(), routes=routes)
    node = node_with(session=7, sessions_of_datacenter=lambda: rows, driver=driver)
    found = samples(Metrics(node))
    assert (found["epoxy_shards_owned", ()], found["epoxy_shards_without_owner", ()]) == (120, 37)
    assert found["epoxy_datacenter_nodes", (("state", "serving"),)] == 2
    assert found["epoxy_datacenter_nodes", (("state", "silent"),)] == 1
    assert (found["epoxy_gateway", ()], alone["epoxy_gateway", ()]) == (1, 0)
    assert found["epoxy_forwarded_requests_total", (("kind", "write"), ("outcome", "answered"))] == 5
    assert found["epoxy_forwarded_requests_total", (("kind", "txn"), ("outcome", "unknown"))] == 1
    assert found["epoxy_forwarded_waiting", ()] == 2
    assert found["epoxy_changelog_rows", ()] == 0
    node.session, node.orders = 8, False
    assert ("epoxy_changelog_rows", ()) not in samples(Metrics(node)), "it would have to ask the database"
    assert samples(Metrics(node))["epoxy_gateway", ()] == 0


def test_starts_and_refused_stores() -> None:
    start = SimpleNamespace(counter=4)
    refusals = Counter({MismatchCode.CLONE: 2})
    gate = SimpleNamespace(incarnation=start, position=lambda: 77, refusals=refusals)
    found = samples(Metrics(node_with(gate=gate)))
    assert (found["epoxy_store_starts", ()], found["epoxy_store_position", ()]) == (4, 77)
    assert found["epoxy_stores_refused_total", (("reason", "clone"),)] == 2
    assert found["epoxy_stores_refused_total", (("reason", "old_copy"),)] == 0, "it rises from 0, for alerts"
    assert samples(Metrics(node_with()))["epoxy_store_starts", ()] == 0


def test_wrong_tokens_and_audited_acts() -> None:
    guesses, audit = Guesses(), AuditLog()
    for _ in range(FREE_GUESSES + 1):
        guesses.wrong("10.0.0.1:1", "ci")
    audit.record("AUTH", name="ci", address="10.0.0.1:1", outcome="refused")
    found = samples(Metrics(node_with(guesses=guesses, audit=audit)))
    assert found["epoxy_wrong_tokens_total", ()] == FREE_GUESSES + 1
    assert found["epoxy_wrong_tokens_slowed_total", ()] == 1
    assert found["epoxy_audited_acts_total", (("outcome", "refused"),)] == 1
    assert found["epoxy_audited_acts_total", (("outcome", "done"),)] == 0, "it rises from 0, for alerts"
    assert found["epoxy_audit_lines_lost_total", ()] == 0


def test_scrubs() -> None:
    progress = SimpleNamespace(rows=30, last_rows=120, ended_ms=5_000)
    scrubber = SimpleNamespace(rows=7, bytes=70, is_running=True, progress=progress)
    found = samples(Metrics(node_with(scrubber=scrubber)))
    assert (found["epoxy_scrubbed_rows_total", ()], found["epoxy_scrubbed_bytes_total", ()]) == (7, 70)
    assert (found["epoxy_scrub_progress", ()], found["epoxy_scrub_last_timestamp_seconds", ()]) == (0.25, 5)
    repairs = SimpleNamespace(found=Counter({RowKind.VALUE: 3}), repaired=2, rotten=(b"row",))
    found = samples(Metrics(node_with(repairs=repairs)))
    assert found["epoxy_rotten_rows_total", (("kind", "value"),)] == 3
    assert (found["epoxy_rotten_rows_repaired_total", ()], found["epoxy_rotten_rows_left", ()]) == (2, 1)
    scrubber.is_running = False
    assert samples(Metrics(node_with(scrubber=scrubber)))["epoxy_scrub_progress", ()] == 0


def test_gauges_are_looked_up_when_asked() -> None:
    assert ("epoxy_changelog_rows", ()) not in samples(Metrics()), "unknown is not zero"
    active, learning = ReplicaStatus.ACTIVE, ReplicaStatus.LEARNING
    node = node_with(
        statuses=(active, active, active, learning),
        rtts={1: 0.0, 2: 71.4},
        term=2,
        behind=7,
        kept=9,
        learned=8,
        txn_paths={Path.FAST: 5},
        txn_executed=40,
        is_open=True,
    )
    metrics = Metrics(node)
    assert samples(metrics)["epoxy_changelog_rows", ()] == 0
    assert ("epoxy_disk_bytes", (("part", "log"),)) not in samples(metrics), "in memory"
    node.changelog_bytes, node.disk_usage = 17, lambda: DiskUsage(log_bytes=1, tree_bytes=2, free_bytes=3)
    node.feed.kept, node.repaired = (lambda: 7), 5
    found = samples(metrics)
    assert found["epoxy_changelog_rows", ()] == 7
    assert (found["epoxy_changelog_bytes", ()], found["epoxy_changelog_limit_bytes", ()]) == (17, 100)
    assert [found["epoxy_disk_bytes", (("part", part),)] for part in ("log", "tree", "free")] == [1, 2, 3]
    assert found["epoxy_repaired_keys_total", ()] == 5
    assert found["epoxy_replicas", (("status", "active"),)] == 3
    assert found["epoxy_replicas", (("status", "learning"),)] == 1
    assert (found["epoxy_txn_term", ()], found["epoxy_txn_open", ()]) == (2, 1)
    assert (found["epoxy_txn_behind", ()], found["epoxy_txn_learned_total", ()]) == (7, 8)
    assert found["epoxy_txn_kept", ()] == 9
    assert [found["epoxy_txn_commands_total", (("path", path),)] for path in ("fast", "slow")] == [5, 0]
    assert found["epoxy_txn_executed_total", ()] == 40
    assert found["epoxy_peer_rtt_seconds", (("peer", "2"),)] == 0.0714
    assert ("epoxy_peer_rtt_seconds", (("peer", "1"),)) not in found, "a node is not its own peer"
    assert ("epoxy_peer_rtt_seconds", (("peer", "3"),)) not in found, "never measured"


def test_what_others_count_is_added() -> None:
    mine, theirs = ("http_get_key", "ok"), ("resp_get", "ok")
    node = node_with(refused={"writes_in_flight": 5}, failures=SimpleNamespace(count={"write": 2}))
    metrics = Metrics(node, lambda: {mine: 10, theirs: 3})
    metrics.counters.request_handled(*mine, 0.1)
    found = samples(metrics)
    assert found["epoxy_refused_total", (("limit", "writes_in_flight"),)] == 5
    assert found["epoxy_flow_failures_total", (("flow", "write"),)] == 2
    assert found["epoxy_requests_total", (("request_type", "http_get_key"), ("result", "ok"))] == 11
    assert found["epoxy_requests_total", (("request_type", "resp_get"), ("result", "ok"))] == 3
    assert found["epoxy_request_duration_seconds_count", (("request_type", "http_get_key"),)] == 1


def test_violations_are_there_before_the_first() -> None:
    node = node_with()
    assert samples(Metrics(node))["epoxy_invariant_violations_total", ()] == 0
    node.violations += 1
    assert samples(Metrics(node))["epoxy_invariant_violations_total", ()] == 1


def test_a_node_has_everything_that_is_read_from_it() -> None:
    found = samples(Metrics(World(3).node))
    assert found["epoxy_replicas", (("status", "active"),)] == 3
    assert found["epoxy_invariant_violations_total", ()] == 0
    assert found["epoxy_refused_total", (("limit", "reads_in_flight"),)] == 0
    assert found["epoxy_in_flight", (("kind", "txn"),)] == 0
    assert found["epoxy_in_flight_limit", (("kind", "write"),)] > 0


def test_a_fold_and_its_writes_are_counted() -> None:
    """Three writes come while the first is decided; one of them is refused, and is in no decision."""
    at = World(1)
    put = Write(key=b"n", value=b"1", mutable=True)
    add = Write(key=b"n", value=None, mutable=True, amount=1)
    stale = Write(key=b"n", value=b"x", mutable=True, if_version=0)
    for write in (put, add, stale, add):
        at.node.write(write, at.outcomes.append)
    for _ in range(3):
        at.disk.sync()
        at.clock.advance(10)
    assert len(at.outcomes) == 4
    found = samples(Metrics(at.node))
    assert (found["epoxy_folds_total", ()], found["epoxy_folded_writes_total", ()]) == (1, 2)


def test_leases_are_counted() -> None:
    found = samples(Metrics(node_with()))
    names = ("epoxy_leases", "epoxy_leases_late_seconds", "epoxy_leases_ended_total")
    assert [found[name, ()] for name in names] == [3, 2.0, 1]


def test_what_is_carried_is_counted() -> None:
    counts = FoldCounts()
    counts.carried, counts.taken_back, counts.received, counts.declined = 4, 3, 2, 1
    node = node_with(driver=SimpleNamespace(counts=counts, owners=("a", "b"), routes=None))
    found = samples(Metrics(node))
    words = ("sent", "taken_back", "received", "declined")
    assert [found["epoxy_carried_writes_total", (("what", word),)] for word in words] == [4, 3, 2, 1]
    assert found["epoxy_owner_hints", ()] == 2


def test_counters_observe_writes() -> None:
    observers: list[Observer] = [Counters(), Unobserved()]
    for observer in observers:
        observer.proposal_done("Committed", None, 0.1)
    assert isinstance(observers[0], Counters)
    assert observers[0].proposals == {("Committed", "none"): 1}


@pytest.mark.parametrize(
    ("name", "label"), [("PrepareOk", "prepare_ok"), ("http_get_key", "http_get_key"), ("Read", "read")]
)
def test_labels(name: str, label: str) -> None:
    assert snake_case(name) == label


def test_what_a_database_that_is_away_knows_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    here = World(1)

    def away() -> int:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(here.node.feed, "kept", away)
    told = Metrics(here.node).text()
    assert b"epoxy_changelog_rows" not in told
    assert b"epoxy_changelog_bytes" in told
