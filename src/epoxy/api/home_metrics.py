"""The metrics of a datacenter as a home of actors."""

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.actors.home_changes import HomeChanges


class HomeMetrics(Collector):
    def __init__(self, changes: HomeChanges) -> None:
        self._changes = changes

    def collect(self) -> Iterator[Metric]:
        lease = self._changes.lease
        held = int(lease.held() is not None)
        yield GaugeMetricFamily("epoxy_home_lease_held", "1 while this node may host actors, else 0", held)
        yield GaugeMetricFamily("epoxy_home_lease_wanted", "1 if it has actors or workers, else 0", int(lease.wanted))
        yield CounterMetricFamily("epoxy_home_lease_losses", "Times it could not renew, and stopped", lease.losses)
        yield CounterMetricFamily("epoxy_home_takeovers", "Actors taken over from others", self._changes.taken_over)
