"""Which listener serves what."""

import resource
from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.api.http.router import Api
from epoxy.api.http.routes import signed_route
from epoxy.api.metrics import Metrics
from epoxy.model.access import Access
from epoxy.model.address import Address
from epoxy.node.process import descriptors
from epoxy.node.process.config import NodeSettings
from epoxy.server import listeners
from epoxy.server.listeners import ADMIN, HTTP, PEERS, RESP, elsewhere, few_connections, rooms, serving
from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.limits import LINKS_PATH, MEMBER_PATH, MESSAGE_PATH
from tests.api.http.http_bench import FakeNode, ask

SHARED = NodeSettings(id=1, data_dir=Path("x"))
APART = NodeSettings(id=1, data_dir=Path("x"), peers=Address("127.0.0.2", 7802), admin=Address("127.0.0.3", 7803))

SERVED = {
    HTTP: [("GET", "/healthz"), ("GET", "/metrics"), ("GET", "/v2/members"), ("GET", "/v2/kv/%")],
    ADMIN: [("GET", "/healthz"), ("GET", "/metrics"), ("GET", "/v2/members"), ("POST", LINKS_PATH.decode())],
    PEERS: [("POST", MESSAGE_PATH.decode()), ("POST", MEMBER_PATH.decode())],
}
REFUSED = {
    HTTP: [
        ("POST", "/v2/members", ADMIN),
        ("POST", LINKS_PATH.decode(), ADMIN),
        ("POST", MESSAGE_PATH.decode(), PEERS),
    ],
    ADMIN: [
        ("GET", "/v2/kv/k", HTTP),
        ("PUT", "/v2/kv/k", HTTP),
        ("POST", "/v2/txn", HTTP),
        ("POST", MEMBER_PATH.decode(), PEERS),
    ],
    PEERS: [
        ("GET", "/v2/kv/k", HTTP),
        ("GET", "/metrics", HTTP),
        ("GET", "/healthz", HTTP),
        ("POST", "/v2/members", ADMIN),
    ],
}


def door(listener: str, node: NodeSettings) -> Handler:
    def signed(exchange: Exchange) -> None:
        exchange.respond(200)

    accesses = {MESSAGE_PATH: Access.PEER, MEMBER_PATH: Access.PEER, LINKS_PATH: Access.OPERATE}
    more = [signed_route("POST", path, signed, access) for path, access in accesses.items()]
    api = Api(FakeNode(), Metrics(), more=more)
    return api.for_listener(elsewhere(listener, node))


@pytest.mark.parametrize("listener", [HTTP, ADMIN, PEERS])
def test_each_listener_serves_its_part_and_names_the_one_that_serves_the_rest(listener: str) -> None:
    api = door(listener, APART)
    for method, path in SERVED[listener]:
        assert ask(api, method, path).status in (200, 400), (method, path)
    for method, path, there in REFUSED[listener]:
        answer = ask(api, method, path)
        assert (answer.status, answer.json()["error"]["code"]) == (421, "wrong_listener"), (method, path)
        assert answer.json()["error"]["message"].endswith(f"is served on another address of this node, {there}")


def test_without_addresses_of_their_own_all_are_served_by_http() -> None:
    assert {listener for access in Access for listener in serving(access, SHARED)} == {HTTP}


def test_orders_served_to_clients_although_operators_have_a_listener_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the rule looks at the listener for peers alone."""
    honest = listeners.serving

    def careless(access: Access, node: NodeSettings) -> tuple[str, ...]:
        return (HTTP,) if access is Access.OPERATE else honest(access, node)

    monkeypatch.setattr(listeners, "serving", careless)
    with pytest.raises(AssertionError):
        test_each_listener_serves_its_part_and_names_the_one_that_serves_the_rest(HTTP)


def at_256(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))


def numbers(node: NodeSettings) -> dict[str, tuple[int, int]]:
    return {name: (room.reserve, room.ceiling) for name, room in rooms(node).items()}


def test_file_descriptors_of_each_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 256: 160 for clients, 32 in reserve, of which operators have the last 8, and the rest for the store. What
    `http` has in reserve depends on whom it serves."""
    at_256(monkeypatch)
    assert numbers(SHARED)[HTTP] == (160, 192)
    assert numbers(replace(SHARED, admin=APART.admin))[HTTP] == (160, 184)
    assert numbers(replace(SHARED, peers=APART.peers))[HTTP] == (160, 192)
    assert numbers(APART) == {HTTP: (160, 160), RESP: (160, 160), PEERS: (184, 184), ADMIN: (192, 192)}


def test_all_that_clients_may_have_fits_below_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of both listeners and of envoys, handshakes at both, and what the node has open itself."""
    at_256(monkeypatch)
    most = descriptors.connections_per_port(10_000)
    handshakes = sum(rooms(APART)[name].handshakes for name in (HTTP, RESP))
    assert 3 * most + handshakes + descriptors.OWN_FILES <= 160
    assert few_connections().limit * 2 + rooms(APART)[PEERS].handshakes <= 24 + 8
