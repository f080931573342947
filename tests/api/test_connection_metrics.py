"""Metrics of what clients make a node hold, and of connections to peers."""

from collections import Counter
from unittest.mock import Mock

from epoxy.api.connection_metrics import ConnectionMetrics
from epoxy.transport.holdings import FREE_BYTES, STALL_S, Holdings


def samples(metrics: ConnectionMetrics) -> dict[tuple[str, str], float]:
    found = [sample for family in metrics.collect() for sample in family.samples]
    return {(sample.name, sample.labels.get("peer", "")): sample.value for sample in found}


def test_what_is_held_and_who_was_aborted_for_it() -> None:
    now_s = [0.0]
    holdings = Holdings(3 * FREE_BYTES, lambda: now_s[0])
    holdings.note(Mock(), 2 * FREE_BYTES)
    now_s[0] += STALL_S
    holdings.note(Mock(), 2 * FREE_BYTES)
    found = samples(ConnectionMetrics(holdings))
    assert found["epoxy_held_bytes", ""] == 4 * FREE_BYTES
    assert found["epoxy_held_aborts_total", ""] == 1


def test_what_is_forwarded_to_the_gateway() -> None:
    forwarder = Mock(outcomes=Counter({"sent": 5, "refused": 1, "lost": 0}))
    (family,) = [each for each in ConnectionMetrics(forwarder=forwarder).collect() if "forwarded" in each.name]
    found = {(sample.name, sample.labels["outcome"]): sample.value for sample in family.samples}
    assert {outcome: count for (_, outcome), count in found.items()} == {"sent": 5, "refused": 1, "lost": 0}
    assert {name for name, _ in found} == {"epoxy_forwarded_http_total"}


def test_each_peer_has_its_counts() -> None:
    peers = Mock(connections_refused=Counter({2: 0, 3: 4}), connections_lost=Counter({2: 1, 3: 0}))
    found = samples(ConnectionMetrics(peers=peers))
    assert found["epoxy_peer_connections_refused_total", "3"] == 4
    assert found["epoxy_peer_connections_refused_total", "2"] == 0
    assert found["epoxy_peer_connections_lost_total", "2"] == 1
