"""An agent's metrics for Prometheus. The names are part of the interface."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.model.elect_status import AgentStatus
from epoxy.transport.http.exchange import Exchange

PATH = "/metrics"


class AgentMetrics(Collector):
    """Computed when scraped; nothing is counted in between but what the agent counts anyway."""

    def __init__(self, status: Callable[[], AgentStatus]) -> None:
        self._status = status
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        changing = bool(status.joining or status.leaving)
        gauges = (
            ("primary_known", "1 while a server takes writes.", status.primary is not None),
            ("open", "1 while the server beside this agent takes writes.", status.state == "open"),
            ("epoch", "The highest epoch voted in or followed.", status.epoch),
            ("leader_epoch", "The epoch of the leader.", status.leader_epoch),
            ("lease_seconds", "Time left of the lease of the primary here.", status.lease_ms / 1000),
            ("nodes_generation", "Generation of the newest list of nodes that is counted.", status.generation),
            ("nodes_changing", "1 while a change of nodes is not finished.", changing),
            ("guard", "1 while the watchdog runs.", status.guard),
        )
        for name, means, value in gauges:
            yield GaugeMetricFamily(f"epoxy_elect_{name}", means, value=float(value))
        counters = (
            ("switches", "Changes of the primary seen since the start.", status.switches),
            ("implausible_epochs", "Messages ignored: an epoch that cannot be.", status.implausible),
            ("refused_orders", "Orders refused: not signed, too late, or repeated.", status.refused_orders),
        )
        for name, means, value in counters:
            yield CounterMetricFamily(f"epoxy_elect_{name}", means, value=value)
        yield from self._nodes(status)

    def _nodes(self, status: AgentStatus) -> Iterator[Metric]:
        offset = GaugeMetricFamily("epoxy_elect_offset", "Replication offset of a node.", labels=["node"])
        seen = GaugeMetricFamily("epoxy_elect_silence_seconds", "Since a node was heard.", labels=["node"])
        for node in status.nodes:
            if node.seen_ms is not None:
                offset.add_metric([node.id], node.offset)
                seen.add_metric([node.id], node.seen_ms / 1000)
        yield offset
        yield seen

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def answer(self, exchange: Exchange) -> None:
        if exchange.request.path != PATH.encode():
            exchange.fail(404, "not_found", f"this port serves only {PATH}")
        else:
            exchange.respond(200, self.text(), content_type=CONTENT_TYPE_PLAIN_0_0_4.encode())
