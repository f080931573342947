"""Prometheus metrics of one node. Their names are part of the interface.

To add one: count where it happens, in an attribute that can be reached from the node (or in `Counters`), and add a line
to `FAMILIES`. Nothing is kept up to date for Prometheus: values are read when it scrapes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.api.counters import Counters, Histogram
from epoxy.model.cluster import ReplicaStatus
from epoxy.model.writes import Path
from epoxy.node.service import Node

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4.encode()

Requests = Mapping[tuple[str, str], int]
"""Counts by type and result."""


class Metrics(Collector):
    """`counters` are for the hot paths. `requests` returns what the fastest paths count themselves. Without a node, as
    in tests of a door, there are only the counters."""

    def __init__(self, node: Node | None = None, requests: Callable[[], Requests] = dict) -> None:
        self.counters = Counters()
        self.node = node
        self.requests = requests
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def include(self, collector: Collector) -> None:
        """Another part's metrics, on the same page."""
        self._registry.register(collector)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            yield family.collect(self)


class Family(Struct, frozen=True):
    """`read` returns a number or a Histogram, or for a family with labels a mapping from their values to those. None:
    not known now."""

    kind: Any
    name: str
    help: str
    read: Callable[[Metrics], Any]
    labels: tuple[str, ...] = ()

    def collect(self, metrics: Metrics) -> Any:
        made = self.kind(f"epoxy_{self.name}", self.help, labels=self.labels)
        found = self.read(metrics)
        for values, sample in ((found or {}) if self.labels else {(): found}).items():
            names = [snake_case(value) for value in ((values,) if isinstance(values, str) else values)]
            if isinstance(sample, Histogram):
                made.add_metric(names, sample.buckets(), sample.sum)
            elif sample is not None:
                made.add_metric(names, sample)
        return made


def snake_case(name: str) -> str:
    """Types are counted under their own names (PrepareOk); labels are written as Prometheus does (prepare_ok)."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def of_node(read: Callable[[Node], Any]) -> Callable[[Metrics], Any]:
    return lambda metrics: read(metrics.node) if metrics.node is not None else None


def replicas_by_status(node: Node) -> dict[str, int]:
    statuses = [replica.status for replica in node.replica.config.replicas]
    return {status.value: statuses.count(status) for status in ReplicaStatus}


def peer_rtts(node: Node) -> dict[str, float]:
    """Peers that were never measured are left out."""
    rtts = {replica.id: node.links.rtt_ms(replica.id) for replica in node.replica.config.replicas}
    return {str(peer): rtt / 1000 for peer, rtt in rtts.items() if rtt is not None and peer != node.me}


COUNTER, GAUGE, HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

FAMILIES = (
    Family(
        COUNTER, "proposals", "Writes answered, by outcome and path", lambda m: m.counters.proposals, ("result", "path")
    ),
    Family(HISTOGRAM, "proposal_duration_seconds", "From a write to its answer", lambda m: m.counters.proposal_seconds),
    Family(COUNTER, "fast_path", "Writes settled in the fast round", lambda m: m.counters.took(Path.FAST)),
    Family(COUNTER, "slow_path", "Writes settled in a classic round", lambda m: m.counters.took(Path.SLOW)),
    Family(COUNTER, "prepare", "Prepare rounds begun", lambda m: m.counters.prepares),
    Family(COUNTER, "prepare_retry", "Prepare rounds after a write's first", lambda m: m.counters.retries),
    Family(COUNTER, "ballot_bump", "Ballots raised above another proposer's", lambda m: m.counters.bumps),
    Family(
        COUNTER,
        "requests",
        "Requests of clients and peers",
        lambda m: Counter(m.counters.requests) + Counter(m.requests()),
        ("request_type", "result"),
    ),
    Family(COUNTER, "refused", "Requests refused, by the limit reached", of_node(lambda n: n.refused), ("limit",)),
    Family(
        COUNTER,
        "flow_failures",
        "Flows that ended with an exception: a bug",
        of_node(lambda n: n.failures.count),
        ("flow",),
    ),
    Family(
        HISTOGRAM,
        "request_duration_seconds",
        "From a request to its answer",
        lambda m: m.counters.request_seconds,
        ("request_type",),
    ),
    Family(GAUGE, "changelog_rows", "Rows of this replica's changelog", of_node(lambda n: n.feed.kept())),
    Family(COUNTER, "repaired_keys", "Keys learned by comparing with another replica", of_node(lambda n: n.repaired)),
    Family(GAUGE, "replicas", "Members of the cluster", of_node(replicas_by_status), ("status",)),
    Family(GAUGE, "txn_term", "The term of the ordered engine here", of_node(lambda n: n.ordered.replica.number)),
    Family(GAUGE, "txn_open", "1 while this node orders transactions", of_node(lambda n: n.ordered.is_open)),
    Family(GAUGE, "txn_behind", "Decisions executed elsewhere and not here", of_node(lambda n: n.ordered.behind)),
    Family(GAUGE, "txn_kept", "Decisions kept for members that lack them", of_node(lambda n: n.ordered.replica.kept)),
    Family(
        COUNTER,
        "txn_learned",
        "Decisions missed and learned afterwards",
        of_node(lambda n: n.ordered.catchup.learned),
    ),
    Family(GAUGE, "peer_rtt_seconds", "Round trip to a peer", of_node(peer_rtts), ("peer",)),
    Family(
        COUNTER,
        "invariant_violations",
        "Broken invariants. Not 0: an emergency",
        of_node(lambda n: n.violations),
    ),
)
"""Prometheus adds `_total` to a counter's name."""
