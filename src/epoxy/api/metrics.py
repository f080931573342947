"""Prometheus metrics of one node. Their names are part of the interface.

To add one: count where it happens, in an attribute that can be reached from the node (or in `Counters`), and add a line
to `OF_NODE` (or `COUNTED`). Nothing is kept up to date for Prometheus: values are read when it scrapes.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy import __compiled__
from epoxy.api.counters import Counters, Requests
from epoxy.model.cluster import ReplicaStatus
from epoxy.model.errors import StoreUnavailable
from epoxy.model.histogram import Histogram
from epoxy.model.incarnation import MismatchCode
from epoxy.model.shards import ALL_SHARDS
from epoxy.model.writes import Path
from epoxy.node.access.audit import AuditOutcome
from epoxy.node.report import access_age_s, tolerated_failures
from epoxy.node.service import Node
from epoxy.store.row_kinds import RowKind

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4.encode()

ACCESS_REFUSALS = ("unauthenticated", "forbidden")
"""Results of requests: no token in force was shown; the client's grant does not allow it, or has no room."""

AS_IT_IS = ("datacenter",)
"""Labels whose values are names that operators gave."""

COUNTER, GAUGE, HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily


class Metrics(Collector):
    """`counters` are for the hot paths. `requests` returns what the fastest paths count themselves. Without a node, as
    in tests of an API, there are only the counters."""

    def __init__(self, node: Node | None = None, requests: Callable[[], Requests] = dict) -> None:
        self.counters = Counters(requests)
        self._node = node
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def include(self, collector: Collector) -> None:
        """Another part's metrics, on the same page."""
        self._registry.register(collector)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        for family in COUNTED:
            yield family.collect(self.counters)
        for family in OF_NODE:
            # What a database that is away knows is left out: the rest is wanted then most of all.
            with suppress(StoreUnavailable):
                yield family.collect(self._node)


class Family(Struct, frozen=True):
    """`read` returns a number or a Histogram, or None if there is none here; for a family with labels, a mapping from
    their values to those."""

    kind: Any
    name: str
    help: str
    read: Callable[[Any], Any]
    labels: tuple[str, ...] = ()

    def collect(self, source: object | None) -> Any:
        """Without samples if there is no source."""
        made = self.kind(f"epoxy_{self.name}", self.help, labels=self.labels)
        found = self.read(source) if source is not None else None
        samples: Mapping[Any, Any] = {} if found is None else found if self.labels else {(): found}
        for values, sample in samples.items():
            given = zip(self.labels, (values,) if isinstance(values, str) else values, strict=True)
            names = [value if label in AS_IT_IS else snake_case(value) for label, value in given]
            if isinstance(sample, Histogram):
                made.add_metric(names, sample.buckets(), sample.sum)
            else:
                made.add_metric(names, sample)
        return made


def snake_case(name: str) -> str:
    """Types are counted under their own names (PrepareOk); labels are written as Prometheus does (prepare_ok)."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def replicas_by_status(node: Node) -> dict[str, int]:
    statuses = [replica.status for replica in node.replica.config.replicas]
    return {status.value: statuses.count(status) for status in ReplicaStatus}


def late_leases(node: Node) -> float:
    return node.leases.late_ms / 1000


def txn_commands(node: Node) -> dict[str, int]:
    return {path.value: node.ordered.paths[path] for path in (Path.FAST, Path.SLOW)}


def store_starts(node: Node) -> int:
    return node.gate.incarnation.counter if node.gate is not None else 0


def store_position(node: Node) -> int:
    return node.gate.position() if node.gate is not None else 0


def refused_stores(node: Node) -> dict[str, int]:
    return {code.value: node.gate.refusals[code] if node.gate is not None else 0 for code in MismatchCode}


def peer_rtts(node: Node) -> dict[str, float]:
    """Peers that were never measured are left out."""
    rtts = {replica.id: node.links.rtt_ms(replica.id) for replica in node.replica.config.replicas}
    return {str(peer): rtt / 1000 for peer, rtt in rtts.items() if rtt is not None and peer != node.me}


def peers_up(node: Node) -> dict[tuple[str, str], int]:
    others = [replica.id for replica in node.replica.config.replicas if replica.id != node.me]
    return {(str(peer), node.datacenter_of(peer)): int(node.links.reachable(peer)) for peer in others}


def sync_seconds(node: Node) -> Histogram | None:
    return node.syncs.seconds if node.syncs is not None else None


def longest_sync(node: Node) -> float | None:
    longest_ms = node.longest_sync_ms()
    return longest_ms / 1000 if longest_ms is not None else None


def keys_held(node: Node) -> int | None:
    """Counted once, in the background, when it is first asked for. Of several nodes of a datacenter none sees the
    commits of all."""
    if node.session or node.member is None:
        return None
    count = node.member.key_count
    count.begin()
    return count.keys if count.is_known else None


def changelog_rows(node: Node) -> int | None:
    """Of several nodes of a datacenter the gateway has the row that it takes in memory; at another node the event loop
    would wait for the database."""
    return node.feed.kept() if node.orders else None


def in_flight(node: Node) -> dict[str, int]:
    return {kind: admission.count for kind, admission in node.admission.items()}


def in_flight_limits(node: Node) -> dict[str, int]:
    return {kind: admission.limit for kind, admission in node.admission.items()}


def own_shards(node: Node) -> int | None:
    shards = [row.shards for row in node.sessions_of_datacenter() if row.session == node.session]
    return sum(shards) if node.session else None


def nodes_of_datacenter(node: Node) -> dict[str, int]:
    leases = [row.lease_ms for row in node.sessions_of_datacenter()]
    return {"serving": sum([left > 0 for left in leases]), "silent": sum([left <= 0 for left in leases])}


def shards_without_owner(node: Node) -> int | None:
    """Or with one that is silent."""
    owned = sum([row.shards for row in node.sessions_of_datacenter() if row.lease_ms > 0])
    return len(ALL_SHARDS) - owned if node.session else None


def is_gateway(node: Node) -> int:
    return int(any(row.gateway for row in node.sessions_of_datacenter() if row.session == node.session))


def forwarded(node: Node) -> Mapping[tuple[str, str], int]:
    routes = node.driver.routes
    return routes.forwarded if routes is not None else {}


def waiting_for_owners(node: Node) -> int:
    return node.driver.routes.waiting if node.driver.routes is not None else 0


def build_info(node: Node) -> dict[tuple[str, ...], int]:
    mine = node.versions.mine
    return {(mine.release, str(mine.newest), "true" if __compiled__ else "false"): 1}


def peer_builds(node: Node) -> dict[tuple[str, ...], int]:
    """Of peers that were heard since this process started."""
    peers = [replica.id for replica in node.replica.config.replicas if replica.id != node.me]
    heard = {peer: versions for peer in peers if (versions := node.versions.of(peer)) is not None}
    common = {peer: node.versions.common(peer) or 0 for peer in heard}
    return {(str(peer), versions.release, str(common[peer])): 1 for peer, versions in heard.items()}


def disk_bytes(node: Node) -> dict[str, int]:
    usage = node.disk_usage()
    return {"log": usage.log_bytes, "tree": usage.tree_bytes, "free": usage.free_bytes} if usage is not None else {}


def scrubbed(node: Node, what: str) -> int:
    return getattr(node.scrubber, what, 0)


def scrub_progress(node: Node) -> float:
    """By the rows of the round before; in the first one there is nothing to compare with."""
    scrubber = node.scrubber
    if scrubber is None or not scrubber.is_running or not scrubber.progress.last_rows:
        return 0.0
    return min(1.0, scrubber.progress.rows / scrubber.progress.last_rows)


def scrub_ended(node: Node) -> float:
    return node.scrubber.progress.ended_ms / 1000 if node.scrubber is not None else 0.0


def rotten_rows(node: Node) -> dict[str, int]:
    return {kind.name.lower(): node.repairs.found[kind] for kind in RowKind}


def access_refusals(counters: Counters) -> dict[str, int]:
    """Of clients of both ports."""
    counted = counters.all_requests().items()
    return {reason: sum([count for (_, result), count in counted if result == reason]) for reason in ACCESS_REFUSALS}


def audited_acts(node: Node) -> dict[str, int]:
    return {outcome: node.audit.counts[outcome] for outcome in get_args(AuditOutcome)}


def certificates_left(node: Node) -> dict[str, float]:
    """Negative: for so long it has been expired."""
    now_s = time.time()
    return {name: end - now_s for name, end in node.credentials().certificate_ends.items()}


def carried_writes(node: Node) -> dict[str, int]:
    counts = node.driver.counts
    words = {"sent": counts.carried, "taken_back": counts.taken_back}
    return words | {"received": counts.received, "declined": counts.declined}


COUNTED: tuple[Family, ...] = (
    Family(COUNTER, "proposals", "Writes answered, by outcome and path", lambda c: c.proposals, ("result", "path")),
    Family(HISTOGRAM, "proposal_duration_seconds", "From a write to its answer", lambda c: c.proposal_seconds),
    Family(COUNTER, "fast_path", "Writes settled in the fast round", lambda c: c.took(Path.FAST)),
    Family(COUNTER, "slow_path", "Writes settled in a classic round", lambda c: c.took(Path.SLOW)),
    Family(COUNTER, "prepare", "Prepare rounds begun", lambda c: c.prepares),
    Family(COUNTER, "prepare_retry", "Prepare rounds after a write's first", lambda c: c.retries),
    Family(COUNTER, "ballot_bump", "Ballots raised above another proposer's", lambda c: c.bumps),
    Family(COUNTER, "requests", "Requests of clients and peers", Counters.all_requests, ("request_type", "result")),
    Family(COUNTER, "access_refusals", "Requests refused, by reason", access_refusals, ("reason",)),
    Family(HISTOGRAM, "request_duration_seconds", "Time to the answer", lambda c: c.request_seconds, ("request_type",)),
)
"""Read from the Counters. Prometheus adds `_total` to a counter's name."""

OF_NODE: tuple[Family, ...] = (
    Family(GAUGE, "build_info", "1, of the build that runs here", build_info, ("version", "wire", "compiled")),
    Family(GAUGE, "peer_build_info", "1, of the build of a peer", peer_builds, ("peer", "version", "wire")),
    Family(COUNTER, "wire_mismatches", "Handshakes without a common wire version", lambda n: n.versions.mismatches),
    Family(COUNTER, "refused", "Requests refused, by the limit reached", lambda n: n.refused, ("limit",)),
    Family(COUNTER, "abandoned_writes", "Writes dropped: clients left before they began", lambda n: n.abandoned),
    Family(COUNTER, "read_hedges", "Reads that asked more than the nearest quorum", lambda n: n.read_hedges),
    Family(GAUGE, "ready", "1 while clients are served, else 0", lambda n: int(n.ready)),
    Family(GAUGE, "clock_seconds", "This node's clock, in seconds since 1970", lambda _: time.time()),
    Family(GAUGE, "tolerated_failures", "Members that may fail; negative: too few are there", tolerated_failures),
    Family(GAUGE, "peer_up", "1 while a peer answers, else 0", peers_up, ("peer", "datacenter")),
    Family(GAUGE, "in_flight", "Requests admitted and not ended, by kind", in_flight, ("kind",)),
    Family(GAUGE, "in_flight_limit", "How many are admitted at a time now", in_flight_limits, ("kind",)),
    Family(GAUGE, "quorum_lost", "1 while too few peers are within reach, else 0", lambda n: int(n.quorum.is_lost)),
    Family(COUNTER, "flow_failures", "Flows ended by an exception: a bug", lambda n: n.failures.count, ("flow",)),
    Family(COUNTER, "folds", "Decisions of several writes, or of another node's", lambda n: n.driver.counts.folds),
    Family(COUNTER, "folded_writes", "Writes in those decisions", lambda n: n.driver.counts.folded),
    Family(GAUGE, "leases", "Values with a time to live, or of a session", lambda n: len(n.leases)),
    Family(GAUGE, "leases_late_seconds", "How late this node is with ending values", late_leases),
    Family(COUNTER, "leases_ended", "Ends of values that this node proposed", lambda n: n.leases.ended),
    Family(COUNTER, "carried_writes", "Writes of a key that another node folds", carried_writes, ("what",)),
    Family(GAUGE, "owner_hints", "Keys whose writes are carried to another node", lambda n: len(n.driver.owners)),
    Family(GAUGE, "keys", "Keys held, deleted ones among them; absent until they are counted", keys_held),
    Family(HISTOGRAM, "sync_duration_seconds", "Writes of the log, until they are durable", sync_seconds),
    Family(GAUGE, "longest_sync_seconds", "Of the last seconds, the one under way included", longest_sync),
    Family(GAUGE, "changelog_rows", "Rows of this replica's changelog", changelog_rows),
    Family(GAUGE, "changelog_bytes", "Bytes of this replica's changelog", lambda n: n.changelog_bytes or 0),
    Family(GAUGE, "changelog_limit_bytes", "What it may take", lambda n: n.changelog_ceiling().size),
    Family(GAUGE, "disk_bytes", "Of the data directory, and free beside it", disk_bytes, ("part",)),
    Family(COUNTER, "repaired_keys", "Keys learned by comparing with another replica", lambda n: n.repaired),
    Family(COUNTER, "scrubbed_rows", "Rows checked by scrubs", lambda n: scrubbed(n, "rows")),
    Family(COUNTER, "scrubbed_bytes", "Bytes checked by scrubs", lambda n: scrubbed(n, "bytes")),
    Family(GAUGE, "scrub_progress", "Of the scrub under way, from 0 to 1; 0 if none is", scrub_progress),
    Family(GAUGE, "scrub_last_timestamp_seconds", "When the last scrub ended; 0: never", scrub_ended),
    Family(COUNTER, "rotten_rows", "Rows found rotten, by kind", rotten_rows, ("kind",)),
    Family(COUNTER, "rotten_rows_repaired", "Of these, repaired", lambda n: n.repairs.repaired),
    Family(GAUGE, "rotten_rows_left", "Of these, not repaired yet", lambda n: len(n.repairs.rotten)),
    Family(GAUGE, "grants", "Grants that this node knows of", lambda n: len(n.access.table.grants)),
    Family(GAUGE, "access_version", "Version of the table of grants in force here", lambda n: n.access.version),
    Family(GAUGE, "access_age_seconds", "Since a quorum confirmed it", lambda n: access_age_s(n) or 0.0),
    Family(COUNTER, "quota_refusals", "Requests refused, by the quota reached", lambda n: n.quotas.refused, ("quota",)),
    Family(COUNTER, "wrong_tokens", "Clients with a token that is not in force", lambda n: n.guesses.wrong_total),
    Family(COUNTER, "wrong_tokens_slowed", "Of these, answered later", lambda n: n.guesses.slowed_total),
    Family(COUNTER, "audited_acts", "Acts of operators, and refusals, by outcome", audited_acts, ("outcome",)),
    Family(COUNTER, "audit_lines_lost", "Lines that are missing in the audit log", lambda n: n.audit.lost),
    Family(GAUGE, "certificate_expiry_seconds", "Until it expires", certificates_left, ("certificate",)),
    Family(GAUGE, "secrets", "Secrets of the cluster accepted here", lambda n: len(n.credentials().secrets)),
    Family(COUNTER, "reload_failures", "New files that could not be used", lambda n: n.credentials().reload_failures),
    Family(GAUGE, "replicas", "Members of the cluster", replicas_by_status, ("status",)),
    Family(GAUGE, "txn_term", "The term of the ordered engine this node is in", lambda n: n.ordered.replica.number),
    Family(GAUGE, "txn_open", "1 while this node orders transactions", lambda n: n.ordered.is_open),
    Family(GAUGE, "txn_behind", "Decisions executed elsewhere and not here", lambda n: n.ordered.behind),
    Family(GAUGE, "txn_kept", "Decisions kept for members that lack them", lambda n: n.ordered.replica.kept),
    Family(COUNTER, "txn_learned", "Decisions missed and learned later", lambda n: n.ordered.catchup.learned),
    Family(COUNTER, "txn_commands", "Commands of this node that were decided", txn_commands, ("path",)),
    Family(COUNTER, "txn_executed", "Transactions of its clients", lambda n: n.ordered.submissions.executed_total),
    Family(GAUGE, "peer_rtt_seconds", "Round trip to a peer", peer_rtts, ("peer",)),
    Family(GAUGE, "shards_owned", "Shards of its datacenter that this node owns", own_shards),
    Family(GAUGE, "shards_without_owner", "Shards of its datacenter that no node serves", shards_without_owner),
    Family(GAUGE, "datacenter_nodes", "Nodes that share its database, by state", nodes_of_datacenter, ("state",)),
    Family(GAUGE, "gateway", "1 if it is the gateway of several nodes, else 0", is_gateway),
    Family(COUNTER, "forwarded_requests", "Passed on to the owner of their key", forwarded, ("kind", "outcome")),
    Family(GAUGE, "forwarded_waiting", "Requests that wait for an owner", waiting_for_owners),
    Family(GAUGE, "store_starts", "How often this node's store was started", store_starts),
    Family(GAUGE, "store_position", "Frames of this node's log that are durable", store_position),
    Family(COUNTER, "stores_refused", "Starts of other nodes' stores that were refused", refused_stores, ("reason",)),
    Family(COUNTER, "invariant_violations", "Broken invariants seen; if not 0, an emergency", lambda n: n.violations),
)
"""Read from the Node."""
