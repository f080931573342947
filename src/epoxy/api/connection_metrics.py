"""Prometheus metrics of connections: what clients make the node hold, connections to peers that these ended, and HTTP
requests that are forwarded to the gateway of the datacenter."""

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.transport.holdings import Holdings
from epoxy.transport.http.forwarder import Forwarder
from epoxy.transport.peers.transport import Peers


class ConnectionMetrics(Collector):
    """Without its sources, as in tests, it has names and no samples of peers. `forwarder`: of a node that is not the
    gateway."""

    def __init__(
        self, holdings: Holdings | None = None, peers: Peers | None = None, forwarder: Forwarder | None = None
    ) -> None:
        self._holdings = holdings if holdings is not None else Holdings()
        self._peers = peers
        self._forwarder = forwarder

    def collect(self) -> Iterator[Metric]:
        held, aborted = self._holdings.bytes, self._holdings.aborted
        yield GaugeMetricFamily("epoxy_held_bytes", "Unread answers and unfinished commands of clients", held)
        yield CounterMetricFamily("epoxy_held_aborts", "Connections aborted because these are too much", aborted)
        refused = self._peers.connections_refused if self._peers is not None else {}
        yield of_peers("epoxy_peer_connections_refused", "Handshakes that a peer refused or broke off", refused)
        lost = self._peers.connections_lost if self._peers is not None else {}
        yield of_peers("epoxy_peer_connections_lost", "Open connections that a peer ended", lost)
        words = "HTTP requests that only the gateway of the datacenter serves"
        forwarded = CounterMetricFamily("epoxy_forwarded_http", words, labels=("outcome",))
        for outcome, count in self._forwarder.outcomes.items() if self._forwarder is not None else ():
            forwarded.add_metric((outcome,), count)
        yield forwarded


def of_peers(name: str, words: str, counts: Mapping[int, int]) -> Metric:
    made = CounterMetricFamily(name, words, labels=("peer",))
    for peer, count in counts.items():
        made.add_metric((str(peer),), count)
    return made
