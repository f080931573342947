"""Which file descriptors are for whom."""

import resource

import pytest

from epoxy.transport.http.reserves import RESERVED, STORE, bands, ceiling, whole_room


@pytest.mark.parametrize(
    ("soft", "clients", "peers", "operators"),
    [
        (64, 40, 46, 48),
        (256, 160, 184, 192),
        (1024, 640, 736, 768),
        (1 << 20, (1 << 20) - STORE - RESERVED, (1 << 20) - STORE - RESERVED // 4, (1 << 20) - STORE),
    ],
)
def test_the_store_comes_before_operators_and_those_before_peers_and_those_before_clients(
    monkeypatch: pytest.MonkeyPatch, soft: int, clients: int, peers: int, operators: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    found = bands()
    assert (found.clients, found.peers, found.operators) == (clients, peers, operators)
    assert found.reserved == operators - clients
    assert (whole_room().ceiling, whole_room().reserve) == (operators, operators)


def test_without_a_limit_there_is_always_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert bands().clients > 1 << 20
    assert ceiling() > 1 << 20
