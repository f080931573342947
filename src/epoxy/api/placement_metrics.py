"""The metrics of placement, under the names of its design, labelled by namespace, pool and strategy, and by nothing
that grows with the number of envoys."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.config import PlacementConfig, Strategy
from epoxy.protocol.placement.records import EnvoyPool

LABELS = ("namespace", "pool", "strategy")

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
"""Rows looked at: up to `max_scan`, which is 256 at most."""

SAMPLES = (1, 2, 3, 4, 5, 6, 7, 8)
SECONDS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1)

MAX_POOLS = 1000
"""That have metrics of their own; more share one. A label for each of many pools would drown who scrapes them."""

Key = tuple[str, str, str]


class Buckets:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def shown(self) -> list[tuple[str, float]]:
        return list(zip((*map(str, self.bounds), "+Inf"), accumulate(self.counts), strict=True))


class PlacementMetrics(Collector):
    """An Observer of placement that Prometheus can ask."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Key]] = {name: Counter() for name in COUNTERS}
        self._buckets: dict[str, dict[Key, Buckets]] = {name: {} for name in HISTOGRAMS}
        self._known: set[Key] = set()

    def allocated(self, pool: EnvoyPool, config: PlacementConfig, allocation: Allocation, seconds: float) -> None:
        key = self._key(pool, config.strategy)
        found = allocation.envoy_key is not None
        self._counts["allocation" if found else "no_envoy_available"][key] += 1
        self._counts["wrap"][key] += allocation.wraps
        self._observe("scan_depth", key, allocation.scanned)
        self._observe("alloc_duration_seconds", key, seconds)
        if config.strategy is Strategy.HASH and config.samples > 1:
            self._observe("samples_effective", key, allocation.candidates)
            self._counts["sample_dedupe"][key] += allocation.repeated
            self._counts["tied_min"][key] += allocation.tied

    def collect(self) -> Iterator[Metric]:
        for name, words in COUNTERS.items():
            counter = CounterMetricFamily(f"envoy_lb_{name}", words, labels=LABELS)
            for key, count in self._counts[name].items():
                counter.add_metric(key, count)
            yield counter
        for name, (words, _) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"envoy_lb_{name}", words, labels=LABELS)
            for key, buckets in self._buckets[name].items():
                histogram.add_metric(key, buckets.shown(), buckets.sum)
            yield histogram

    def _key(self, pool: EnvoyPool, strategy: Strategy) -> Key:
        key = (pool.namespace, pool.name, strategy.value)
        if key not in self._known:
            if len(self._known) >= MAX_POOLS:
                return ("other", "other", strategy.value)
            self._known.add(key)
        return key

    def _observe(self, name: str, key: Key, value: float) -> None:
        buckets = self._buckets[name].get(key)
        if buckets is None:
            buckets = self._buckets[name][key] = Buckets(HISTOGRAMS[name][1])
        buckets.observe(value)


COUNTERS = {
    "allocation": "Envoys chosen",
    "no_envoy_available": "Searches that found nobody",
    "wrap": "Searches that went around the end of the ring",
    "sample_dedupe": "Samples that met an envoy which another sample had found",
    "tied_min": "Choices among several with the fewest slots",
}
HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "scan_depth": ("Rows looked at", ROWS),
    "alloc_duration_seconds": ("From a search to its end", SECONDS),
    "samples_effective": ("Different envoys compared", SAMPLES),
}
"""Prometheus adds `_total` to a counter's name."""
