"""A node that is not the gateway of its datacenter, and the gateway: real servers, and the router of each."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from epoxy.api.http.router import Api
from epoxy.api.http.routes import Route, signed_route
from epoxy.api.metrics import Metrics
from epoxy.model.access import Access, AccessRole
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.forwarder import Forwarder
from epoxy.transport.http.response import problem_of
from epoxy.transport.limits import GATEWAY_PATHS, NODES_PATH
from epoxy.transport.peers.forwarded_mark import ForwardedClient, ForwardedMarks
from epoxy.transport.peers.keyring import keyring_of
from tests.api.http.access_bench import SECRET, GuardedNode, bearer
from tests.api.http.http_bench import FakeNode, Wire, request
from tests.transport.http.harness import RunningServer, run, running_server

MARKS = ForwardedMarks(keyring_of(SECRET))


def whoami(exchange: Exchange) -> None:
    exchange.respond(200, f"{exchange.address} {' '.join(exchange.certificate_names)}".encode())


class ForwardingNode:
    """A node that takes the node at `url` for the gateway."""

    def __init__(self, node: FakeNode, more: Iterable[Route] = ()) -> None:
        self.url: str | None = None
        self.forwarded = 0
        self.forwarder = Forwarder(lambda: self.url, None, MARKS.header)
        self.api = Api(node, Metrics(), lambda: ["shard.example"], more, forward=self._forward, marks=MARKS)

    def _forward(self, exchange: Exchange, listener: str) -> None:
        self.forwarded += 1
        self.forwarder.forward(exchange, listener)


@asynccontextmanager
async def datacenter(gateway: Api, shard: ForwardingNode) -> AsyncIterator[RunningServer]:
    async with running_server(gateway) as there, running_server(shard.api) as here:
        shard.url = f"http://127.0.0.1:{there.port}"
        try:
            yield here
        finally:
            shard.forwarder.close()


async def ask(server: RunningServer, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    client = await server.dial()
    named = {"host": "shard.example", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    client.send(f"{method} {path} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode(), body)
    head, answer = await client.answer()
    client.hang_up()
    return int(head.split()[1]), answer


def test_single_keys_are_served_here_and_the_rest_by_the_gateway() -> None:
    async def story() -> None:
        shard = ForwardingNode(GuardedNode(is_open=True))
        async with datacenter(Api(GuardedNode(is_open=True), Metrics(), marks=MARKS), shard) as server:
            for path in ("/v2/kv/a", "/healthz", "/readyz", "/metrics", "/openapi.json"):
                assert (await ask(server, "GET", path))[0] in (200, 503), path
            assert (await ask(server, "PUT", "/v2/kv/a", b"x"))[0] in (200, 201)
            assert shard.forwarded == 0
            for number, path in enumerate(("/v2/members", "/v2/kv?prefix=a", "/v2/nowhere", "/v2/history/a"), start=1):
                await ask(server, "GET", path)
                assert shard.forwarded == number, path
            status, body = await ask(server, "GET", "/v2/members")
            assert (status, b'"epoch":1' in body) == (200, True)
            status, body = await ask(server, "GET", "/v2/nowhere")
            assert (status, problem_of(body)[0]) == (404, "no_such_route")
            status, body = await ask(server, "POST", "/v2/kv/a/x")
            assert status in (400, 405, 415)

    run(story())


def test_who_may_ask_is_for_the_gateway_to_say() -> None:
    """The node that forwards knows none of the tokens here."""

    async def story() -> None:
        gateway, shard = GuardedNode(), ForwardingNode(GuardedNode())
        gateway.give(1, AccessRole.OPERATOR)
        gateway.give(2, AccessRole.READER)
        async with datacenter(Api(gateway, Metrics(), marks=MARKS), shard) as server:
            order = b'{"remove":[3]}'
            as_json = {"content_type": "application/json"}
            assert (await ask(server, "POST", "/v2/members", order, **as_json))[0] == 401
            for number, expected in ((9, 401), (2, 403), (1, 501)):
                named = as_json | {"authorization": bearer(number)}
                assert (await ask(server, "POST", "/v2/members", order, **named))[0] == expected
            assert {line["address"] for line in gateway.audit.lines} == {"127.0.0.1"}
            assert (await ask(server, "PUT", "/v2/kv/a", b"x", authorization=bearer(1)))[0] == 401, "served here"

    run(story())


def test_a_certificate_is_that_of_the_client_and_not_of_the_node_that_forwards() -> None:
    node = GuardedNode()
    node.give(1, AccessRole.READER, san="ci.example.com")
    api = Api(node, Metrics(), marks=MARKS)

    def status(names: tuple[str, ...]) -> int:
        asked = request("GET", "/v2/members")
        mark = MARKS.make(asked, ForwardedClient("10.0.0.7", "", names))
        wire = ForwardedWire(request("GET", "/v2/members", epoxy_forwarded=mark.decode()))
        wire.certificate_names = ("ci.example.com",)
        api(wire.exchange)
        assert wire.is_peer
        assert wire.exchange.address == "10.0.0.7"
        return wire.answer().status

    assert [status(names) for names in (("ci.example.com",), ("other.example.com",), ())] == [200, 401, 401]


class ForwardedWire(Wire):
    is_peer = False

    def mark_as_peer(self) -> None:
        self.is_peer = True


def test_a_forged_mark_is_refused() -> None:
    api = Api(GuardedNode(is_open=True), Metrics(), marks=MARKS)
    stranger = ForwardedMarks(keyring_of(b"another secret!!"))
    mark = stranger.make(request("GET", "/v2/members"), ForwardedClient("", "", ("ci.example.com",)))
    wire = Wire(request("GET", "/v2/members", epoxy_forwarded=mark.decode()))
    api(wire.exchange)
    assert (wire.answer().status, wire.answer().error()["code"]) == (401, "unauthenticated")


def test_a_request_is_served_as_at_the_listener_where_it_came_in() -> None:
    """At `node.http` of a node with `node.admin`, operators are refused, although the gateway was asked elsewhere."""
    node = GuardedNode(is_open=True)
    api = Api(node, Metrics(), marks=MARKS)
    peers = api.for_listener(lambda access: "" if access is Access.PEER else "node.http", "node.peers")
    api.for_listener(lambda access: "node.admin" if access is Access.OPERATE else "", "node.http")

    def code(listener: str) -> str:
        asked = request("POST", "/v2/members", b"{}", content_type="application/json")
        mark = MARKS.make(asked, ForwardedClient("10.0.0.7", listener)).decode()
        named = {"content_type": "application/json", "epoxy_forwarded": mark}
        wire = ForwardedWire(request("POST", "/v2/members", b"{}", **named))
        peers(wire.exchange)
        return str(wire.answer().error()["code"])

    assert code("node.http") == "wrong_listener"
    assert code("node.admin") == "not_implemented"


@pytest.mark.parametrize("marks", [MARKS, None], ids=["marked", "a planted fault: marks are not looked at"])
def test_two_nodes_do_not_forward_in_circles(marks: ForwardedMarks | None) -> None:
    async def story() -> None:
        here, there = ForwardingNode(FakeNode()), ForwardingNode(FakeNode())
        there.api._marks = marks
        here.api._marks = marks
        there.forwarder._limit = here.forwarder._limit = 4
        async with datacenter(there.api, here) as server:
            there.url = f"http://127.0.0.1:{server.port}"
            status, body = await ask(server, "GET", "/v2/members")
            there.forwarder.close()
            assert status == 503
            assert b'"definite":true' in body
            if marks is not None:
                assert (problem_of(body)[0], here.forwarded, there.forwarded) == ("no_gateway", 1, 0)
            else:
                assert here.forwarded + there.forwarded > 4

    run(story())


def test_peers_are_refused_and_nodes_of_the_datacenter_are_not() -> None:
    async def story() -> None:
        nodes = signed_route("GET", NODES_PATH, whoami, Access.PEER)
        shard = ForwardingNode(FakeNode(), [nodes])
        async with datacenter(Api(FakeNode(), Metrics(), marks=MARKS), shard) as server:
            for path in sorted(GATEWAY_PATHS):
                status, body = await ask(server, "POST", path.decode())
                assert (status, problem_of(body)[0]) == (421, "not_gateway")
            assert await ask(server, "GET", NODES_PATH.decode()) == (200, b"127.0.0.1 ")
            assert shard.forwarded == 0

    run(story())


def test_pages_and_names_are_judged_where_they_ask() -> None:
    async def story() -> None:
        shard = ForwardingNode(GuardedNode(is_open=True))
        gateway = Api(GuardedNode(is_open=True), Metrics(), lambda: ["gateway.example"], marks=MARKS)
        async with datacenter(gateway, shard) as server:
            assert (await ask(server, "GET", "/v2/members"))[0] == 200
            assert (await ask(server, "GET", "/v2/members", origin="http://shard.example"))[0] == 200
            assert (await ask(server, "GET", "/v2/members", host="gateway.example"))[0] == 421
            assert (await ask(server, "GET", "/v2/members", origin="http://evil.example"))[0] == 403

    run(story())


def test_a_connection_beyond_the_limit_is_not_forwarded_for() -> None:
    shard = ForwardingNode(FakeNode())
    wire = Wire(request("GET", "/v2/members", authorization="Bearer epx_x"))
    wire.on_trial = True
    shard.api(wire.exchange)
    assert wire.answer().error()["code"] == "too_many_connections"
    assert shard.forwarded == 0
