"""What Prometheus is told of an agent. The names are part of the interface."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from epoxy.agent.sentinel import AgentStatus
from epoxy.transport.http.exchange import Exchange

PATH = "/metrics"


class AgentMetrics(Collector):
    """Made when somebody asks; nothing is counted in between but what the agent counts anyway."""

    def __init__(self, status: Callable[[], AgentStatus]) -> None:
        self._status = status
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield gauge("epoxy_elect_primary_known", "1 while somebody takes writes.", float(status.primary is not None))
        yield gauge(
            "epoxy_elect_open", "1 while the server beside this agent takes writes.", float(status.state == "open")
        )
        yield gauge("epoxy_elect_epoch", "The highest epoch voted in or followed.", status.epoch)
        yield gauge("epoxy_elect_leader_epoch", "The epoch of the leader.", status.leader_epoch)
        yield gauge(
            "epoxy_elect_lease_seconds", "What is left of the lease of the primary here.", status.lease_ms / 1000
        )
        yield gauge("epoxy_elect_nodes_generation", "Of the newest list of nodes that is counted.", status.generation)
        changing = bool(status.joining or status.leaving)
        yield gauge("epoxy_elect_nodes_changing", "1 while a change of nodes is not finished.", float(changing))
        yield gauge("epoxy_elect_guard", "1 while the guard is there.", float(status.guard))
        switches = CounterMetricFamily("epoxy_elect_switches", "Changes of the primary seen since the start.")
        switches.add_metric([], status.switches)
        yield switches
        implausible = CounterMetricFamily(
            "epoxy_elect_implausible_epochs", "Messages not believed: an epoch far above all that was seen."
        )
        implausible.add_metric([], status.implausible)
        yield implausible
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
            exchange.fail(404, "not_found", f"there is {PATH} here and nothing else")
        else:
            exchange.respond(200, self.text(), content_type=CONTENT_TYPE_PLAIN_0_0_4.encode())


def gauge(name: str, means: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, means, value=value)
