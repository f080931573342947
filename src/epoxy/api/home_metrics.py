"""The metrics of a datacenter as a home of actors, and of what is open between its actors and their clients."""

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.actors.calls import Calls
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


class ActorCallMetrics(Collector):
    """`calls`: to the actors of this datacenter. `client_sockets`: how many WebSockets clients have open here, to
    actors in any datacenter."""

    def __init__(self, calls: Calls, client_sockets: Callable[[], int]) -> None:
        self._calls = calls
        self._client_sockets = client_sockets

    def collect(self) -> Iterator[Metric]:
        calls = self._calls
        requests = len(calls) - calls.sockets
        yield GaugeMetricFamily("epoxy_actor_requests_open", "Requests to actors of this datacenter", requests)
        yield GaugeMetricFamily(
            "epoxy_actor_streams_open", "Of them, those whose answer comes in pieces", calls.streams
        )
        yield GaugeMetricFamily("epoxy_actor_sockets_open", "WebSockets to actors of this datacenter", calls.sockets)
        yield GaugeMetricFamily(
            "epoxy_actor_client_sockets_open", "WebSockets of clients of this node", self._client_sockets()
        )
