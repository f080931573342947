"""Which listener serves what."""

from pathlib import Path

import pytest

from epoxy.api.http.router import Api
from epoxy.api.http.routes import signed_route
from epoxy.api.metrics import Metrics
from epoxy.model.access import Access
from epoxy.model.address import Address
from epoxy.node.process.config import NodeSettings
from epoxy.server import listeners
from epoxy.server.listeners import ADMIN, HTTP, LINKS_PATH, PEERS, elsewhere, serving
from epoxy.transport.http.exchange import Exchange, Handler
from epoxy.transport.limits import MEMBER_PATH, MESSAGE_PATH
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
