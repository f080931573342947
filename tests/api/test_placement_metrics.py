"""Metrics of placement: what one search adds to them."""

from epoxy.api import placement_metrics
from epoxy.api.placement_metrics import PlacementMetrics
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.config import PlacementConfig, Strategy
from epoxy.protocol.placement.records import EnvoyPool

POOL = EnvoyPool("prod", "chat")
FOUND = Allocation(envoy_key="e", scanned=3, wraps=1, candidates=2, repeated=1, tied=True)


def samples(metrics: PlacementMetrics) -> dict[str, float]:
    """Without labels: the sum over all pools."""
    found: dict[str, float] = {}
    for sample in (sample for family in metrics.collect() for sample in family.samples):
        found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def test_a_search_that_found_an_envoy() -> None:
    metrics = PlacementMetrics()
    metrics.allocated(POOL, PlacementConfig(), FOUND, 0.001)
    found = samples(metrics)
    assert (found["envoy_lb_allocation_total"], "envoy_lb_no_envoy_available_total" in found) == (1, False)
    assert (found["envoy_lb_wrap_total"], found["envoy_lb_scan_depth_sum"]) == (1, 3)
    assert (found["envoy_lb_sample_dedupe_total"], found["envoy_lb_tied_min_total"]) == (1, 1)
    assert (found["envoy_lb_samples_effective_sum"], found["envoy_lb_alloc_duration_seconds_count"]) == (2, 1)


def test_a_search_that_found_none() -> None:
    metrics = PlacementMetrics()
    metrics.allocated(POOL, PlacementConfig(), Allocation(envoy_key=None, scanned=9), 0.001)
    assert samples(metrics)["envoy_lb_no_envoy_available_total"] == 1


def test_samples_are_counted_only_where_they_are_compared() -> None:
    metrics = PlacementMetrics()
    metrics.allocated(POOL, PlacementConfig(samples=1), FOUND, 0.001)
    metrics.allocated(POOL, PlacementConfig(strategy=Strategy.RANDOM_FULL_RANGE), FOUND, 0.001)
    assert "envoy_lb_samples_effective_count" not in samples(metrics)


def test_labels_are_those_of_the_pool_until_there_are_too_many() -> None:
    metrics = PlacementMetrics()
    for i in range(placement_metrics.MAX_POOLS + 2):
        metrics.allocated(EnvoyPool("n", f"p{i}"), PlacementConfig(), FOUND, 0.001)
    metrics.allocated(EnvoyPool("n", "p0"), PlacementConfig(), FOUND, 0.001)
    allocation = next(family for family in metrics.collect() if family.name == "envoy_lb_allocation")
    counts = {(sample.labels["namespace"], sample.labels["pool"]): sample.value for sample in allocation.samples}
    assert len(counts) == placement_metrics.MAX_POOLS + 1
    assert (counts["n", "p0"], counts["other", "other"]) == (2, 2)
