"""Whether a datacenter may host actors, how often it lost its lease, and what it took over."""

from epoxy.api.home_metrics import ActorCallMetrics, HomeMetrics
from epoxy.api.metrics import Metrics
from epoxy.model.envoy_messages import Opened
from epoxy.model.exchanges import Head
from epoxy.model.homes import datacenter_key
from tests.actors.test_calls import ALICE, POST, SOCKET, Node
from tests.actors.test_home_changes import regions


def test_a_lease_and_a_take_over_are_counted() -> None:
    here, there = regions()
    metrics = Metrics()
    metrics.include(HomeMetrics(here.changes))
    text = metrics.text().decode()
    assert "epoxy_home_lease_held 0.0" in text
    assert "epoxy_home_lease_wanted 0.0" in text
    here.worker()
    there.worker()
    there.made()
    there.go()
    here.ensure()
    here.keys.end(datacenter_key(1))
    here.clock.advance(15_000)
    text = metrics.text().decode()
    for line in ("lease_held 1.0", "lease_wanted 1.0", "lease_losses_total 1.0", "takeovers_total 1.0"):
        assert f"epoxy_home_{line}" in text


def test_what_is_open_between_actors_and_their_clients_is_counted() -> None:
    node = Node()
    metrics = Metrics()
    metrics.include(ActorCallMetrics(node.calls, lambda: 7))
    node.open(POST, b"", fin=True)
    node.open(POST)
    node.open(SOCKET)
    _, opened, _ = node.give()
    assert isinstance(opened, Opened)
    node.calls.heard(ALICE, Head(stream=opened.stream, status=200))
    text = metrics.text().decode()
    for line in ("requests_open 2.0", "streams_open 1.0", "sockets_open 1.0", "client_sockets_open 7.0"):
        assert f"epoxy_actor_{line}" in text
    node.calls.lose(ALICE)
    text = metrics.text().decode()
    for line in ("requests_open 0.0", "streams_open 0.0", "sockets_open 0.0"):
        assert f"epoxy_actor_{line}" in text
