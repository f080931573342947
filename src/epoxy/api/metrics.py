"""Prometheus metrics of one node.

Everything that Prometheus wants to see in another shape than it is counted (`tally.py`) is made when it asks. The names
are part of the interface.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.api.counters import Counters
from epoxy.model.writes import Path

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4.encode()


class Gauges(Struct, frozen=True, kw_only=True):
    """What is looked up when somebody asks, instead of being kept up to date."""

    changelog_rows: int | None = None
    """None: nobody has counted."""
    repaired_keys: int = 0
    """Found missing, or behind, by comparing with another replica."""
    replicas: Mapping[str, int] = {}
    """By status."""
    peer_rtt_seconds: Mapping[str, float] = {}
    """By peer; those never heard of are left out."""
    txn_term: int = 0
    txn_open: bool = False
    """Which term of the ordered engine this node is in, and whether it orders transactions now."""
    txn_behind: int = 0
    txn_learned: int = 0
    """Decisions of others that it has missed, and those that it has learned afterwards."""
    txn_kept: int = 0
    """Decisions that it keeps for others, who have not executed them."""
    refused: Mapping[str, int] = {}
    """By the limit that was reached."""
    flow_failures: Mapping[str, int] = {}
    """By the name of the flow."""
    requests: Mapping[tuple[str, str], int] = {}
    """By type and result, on top of those counted here: a door that is too fast for that counts them itself."""


class Metrics(Collector):
    """An Observer that Prometheus can ask."""

    def __init__(self, gauges: Callable[[], Gauges] = Gauges) -> None:
        self.gauges = gauges
        self.tally = Counters()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        self.tally.proposal_done(outcome, path, seconds, prepares=prepares, retries=retries, bumps=bumps)

    def request_handled(self, request_type: str, result: str, seconds: float) -> None:
        self.tally.request_handled(request_type, result, seconds)

    def requests_handled(self, requests: Sequence[object], replies: Sequence[object], seconds: float) -> None:
        self.tally.requests_handled(requests, replies, seconds)

    def invariant_violation(self, text: str) -> None:
        self.tally.invariant_violation(text)

    def took(self, path: Path) -> int:
        """Writes that took this path."""
        return sum(count for (_, taken), count in self.tally.proposals.items() if taken == path.value)

    def include(self, others: Collector) -> None:
        """Of another part of the node, on the same page."""
        self._registry.register(others)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        now = self.gauges()
        yield from self._proposal_families()
        yield from self._request_families(now)
        yield from self._gauge_families(now)
        yield counter(
            "invariant_violations", "Broken invariants seen. Anything but 0 is an emergency", self.tally.violations
        )

    def _proposal_families(self) -> Iterator[Metric]:
        yield labelled("proposals", "Writes answered, by outcome and path", ("result", "path"), self.tally.proposals)
        seconds = HistogramMetricFamily("epoxy_proposal_duration_seconds", "From a write to its answer")
        seconds.add_metric((), self.tally.proposal_seconds.buckets(), self.tally.proposal_seconds.sum)
        yield seconds
        yield counter("fast_path", "Writes settled in the fast round", self.took(Path.FAST))
        yield counter("slow_path", "Writes settled in a classic round", self.took(Path.SLOW))
        yield counter("prepare", "Prepare rounds begun", self.tally.prepares)
        yield counter("prepare_retry", "Prepare rounds after a write's first", self.tally.retries)
        yield counter("ballot_bump", "Ballots raised above somebody else's", self.tally.bumps)

    def _request_families(self, now: Gauges) -> Iterator[Metric]:
        counts = Counter(self.tally.requests) + Counter(now.requests)
        yield labelled("requests", "Requests of clients and peers", ("request_type", "result"), counts)
        refused = CounterMetricFamily("epoxy_refused", "Turned away, by the limit that was reached", labels=("limit",))
        for limit, count in now.refused.items():
            refused.add_metric((limit,), count)
        yield refused
        failures = CounterMetricFamily(
            "epoxy_flow_failures", "Flows that ended with an exception, by a fault of this node", labels=("flow",)
        )
        for flow, count in now.flow_failures.items():
            failures.add_metric((flow,), count)
        yield failures
        seconds = HistogramMetricFamily(
            "epoxy_request_duration_seconds", "From a request to its answer", labels=("request_type",)
        )
        for request_type, histogram in self.tally.request_seconds.items():
            seconds.add_metric((snake_case(request_type),), histogram.buckets(), histogram.sum)
        yield seconds

    def _gauge_families(self, now: Gauges) -> Iterator[Metric]:
        rows = GaugeMetricFamily("epoxy_changelog_rows", "Rows of this replica's changelog")
        if now.changelog_rows is not None:
            rows.add_metric((), now.changelog_rows)
        yield rows
        yield counter("repaired_keys", "Keys learned by comparing with another replica", now.repaired_keys)
        replicas = GaugeMetricFamily("epoxy_replicas", "Members of the cluster", labels=("status",))
        for status, count in now.replicas.items():
            replicas.add_metric((status,), count)
        yield replicas
        yield GaugeMetricFamily("epoxy_txn_term", "The term of the ordered engine this node is in", now.txn_term)
        yield GaugeMetricFamily("epoxy_txn_open", "1 while this node orders transactions", now.txn_open)
        yield GaugeMetricFamily("epoxy_txn_behind", "Decisions executed elsewhere and not here", now.txn_behind)
        yield GaugeMetricFamily("epoxy_txn_kept", "Decisions kept for members that lack them", now.txn_kept)
        yield counter("txn_learned", "Decisions that were missed and learned afterwards", now.txn_learned)
        rtt = GaugeMetricFamily("epoxy_peer_rtt_seconds", "Round trip to a peer", labels=("peer",))
        for peer, seconds in now.peer_rtt_seconds.items():
            rtt.add_metric((peer,), seconds)
        yield rtt


def counter(name: str, words: str, value: int) -> Metric:
    """Prometheus adds `_total` to its name."""
    return CounterMetricFamily(f"epoxy_{name}", words, value)


def labelled(name: str, words: str, labels: tuple[str, str], counts: Mapping[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily(f"epoxy_{name}", words, labels=labels)
    for values, count in counts.items():
        family.add_metric([snake_case(value) for value in values], count)
    return family


def snake_case(name: str) -> str:
    """Types are counted under their own names (PrepareOk); labels are written as Prometheus does (prepare_ok)."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
