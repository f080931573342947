"""The metrics of placement, under the names of its design. Labels are namespace, pool and strategy; none grows with the
number of envoys."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.model.histogram import Histogram
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.config import PlacementConfig, Strategy
from epoxy.protocol.placement.records import EnvoyPool

LABELS = ("namespace", "pool", "strategy")

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
"""Rows read: up to `max_scan`, which is 256 at most."""

SAMPLES = (1, 2, 3, 4, 5, 6, 7, 8)
SECONDS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.1)

MAX_POOLS = 1000
"""Pools with metrics of their own; all others share one, because each label is another set of time series."""

Key = tuple[str, str, str]


class PlacementMetrics(Collector):
    """A PlacementObserver that counts."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Key]] = {name: Counter() for name in COUNTERS}
        self._histograms: dict[str, dict[Key, Histogram]] = {name: {} for name in HISTOGRAMS}
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
            family = HistogramMetricFamily(f"envoy_lb_{name}", words, labels=LABELS)
            for key, histogram in self._histograms[name].items():
                family.add_metric(key, histogram.buckets(), histogram.sum)
            yield family

    def _key(self, pool: EnvoyPool, strategy: Strategy) -> Key:
        key = (pool.namespace, pool.name, strategy.value)
        if key not in self._known:
            if len(self._known) >= MAX_POOLS:
                return ("other", "other", strategy.value)
            self._known.add(key)
        return key

    def _observe(self, name: str, key: Key, value: float) -> None:
        histogram = self._histograms[name].get(key)
        if histogram is None:
            histogram = self._histograms[name][key] = Histogram(HISTOGRAMS[name][1])
        histogram.observe(value)


COUNTERS = {
    "allocation": "Envoys chosen",
    "no_envoy_available": "Searches that found no envoy",
    "wrap": "Searches that went around the end of the ring",
    "sample_dedupe": "Samples that met an envoy which another sample had found",
    "tied_min": "Choices among several with the fewest slots",
}
HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "scan_depth": ("Rows read", ROWS),
    "alloc_duration_seconds": ("From a search to its end", SECONDS),
    "samples_effective": ("Different envoys compared", SAMPLES),
}
"""Prometheus adds `_total` to a counter's name."""
