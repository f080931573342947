"""Every route with every role, and without a token, with a wrong one, with one that was revoked and one that is over:
allowed or refused as the table in docs/security.md says."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.api.http.authorization import Authorization
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.routes import Route, signed_route
from epoxy.datacenter import link_ends
from epoxy.datacenter.links import NodeLinks
from epoxy.model.access import SATISFYING, Access, AccessRole
from epoxy.model.versions import OLDEST_WIRE
from epoxy.node.access.guesses import Guesses
from epoxy.runtime.clock import SystemDice
from epoxy.transport.limits import CHANGELOG_READ_PATH, MEMBER_PATH, MESSAGE_PATH, NODES_PATH, PROBE_PATH, STREAM_PATH
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.member_rpc import MemberRpcEndpoint
from epoxy.transport.peers.negotiation import PROTOCOL
from epoxy.transport.peers.probe import ProbeEndpoint
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.peers.transport import PeerEndpoint
from tests.api.http.access_bench import SECRET, GuardedNode, bearer
from tests.api.http.http_bench import ask, whole_api
from tests.node.bench import HandClock

PAGE = (Path(__file__).parents[3] / "docs" / "security.md").read_text("utf-8")

DEMANDS = {
    "nothing": Access.PUBLIC,
    "a grant, of any role": Access.ANY,
    "`reader` or `writer`": Access.READ,
    "`writer`": Access.WRITE,
    "`worker`": Access.WORK,
    "`caller`": Access.CALL,
    "`operator`": Access.OPERATE,
    "the cluster's secret": Access.PEER,
}

REACHED = 204
WRONG = 99

Outcome = tuple[str, str, str, int]
"""Of one request: method, path, who asked, and the status."""


def peers_routes() -> list[Route]:
    """As `server.peer_router`, `server.probes` and `datacenter.links` have them."""
    verifier = Verifier(1, SECRET)
    authenticator = Authenticator(verifier, OpenGate(1))
    messages = PeerEndpoint(lambda _requests, _answered: None, authenticator)
    member_rpc = MemberRpcEndpoint(lambda _header, _request, _answered: None, authenticator)
    return [
        signed_route("GET", STREAM_PATH, messages, Access.PEER),
        *NodeLinks(1, 1, SECRET, clock=HandClock(), dice=SystemDice()).routes(),
        signed_route("POST", MESSAGE_PATH, messages, Access.PEER),
        signed_route("POST", MEMBER_PATH, member_rpc, Access.PEER),
        signed_route("POST", CHANGELOG_READ_PATH, member_rpc, Access.PEER),
        signed_route("GET", PROBE_PATH, ProbeEndpoint(verifier, bytes), Access.PEER),
    ]


def reached(call: ApiCall) -> None:
    call.answer(REACHED)


class Matrix:
    """A real router, with grants that are really looked up. Handlers that check no signature only say that they were
    reached."""

    def __init__(self, widen: Callable[[Route], Route] = lambda route: route) -> None:
        self.node = GuardedNode()
        hours = count(step=3600)
        self.node.guesses = Guesses(now=lambda: float(next(hours)))
        for number, role in enumerate(AccessRole, start=1):
            self.node.give(number, role)
            self.node.give(10 + number, role)
            self.node.give(20 + number, role)
        self.api = whole_api(self.node)
        self.routes = [*self.api.routes, *peers_routes()]
        self.api.routes = [widen(route if route.signed else replace(route, handler=reached)) for route in self.routes]
        self.api._all = self.api._route_map(lambda _access: "", "")
        self._revoke_and_end()

    def _revoke_and_end(self) -> None:
        """Tokens that were right at first, and are known to the router by then."""
        for number in range(11, 11 + len(AccessRole)):
            assert ask(self.api, "GET", "/v2/status", authorization=bearer(number)).status == REACHED
            assert ask(self.api, "GET", "/v2/status", authorization=bearer(number + 10)).status == REACHED
        for number in range(11, 11 + len(AccessRole)):
            self.node.revoke(number)
            self.node.end(number + 10)

    def methods(self, route: Route) -> list[str]:
        return [route.method, *(["HEAD"] if route.method == "GET" and route.head else [])]

    def status(self, method: str, path: str, token: int) -> int:
        shown = {"authorization": bearer(token)} if token else {}
        if path == STREAM_PATH.decode():
            shown["upgrade"] = f"{PROTOCOL.decode()}{OLDEST_WIRE}"
        if path == NODES_PATH.decode():
            shown["upgrade"] = link_ends.PROTOCOL.decode()
        body = b"{}" if method == "POST" else None
        return ask(
            self.api,
            method,
            path.replace("{key}", "k").replace("{id}", "0" * 32),
            body,
            content_type="application/json",
            **shown,
        ).status

    def outcomes(self) -> Iterator[Outcome]:
        for route in self.routes:
            for method in self.methods(route):
                for who, token in (("no token", 0), ("wrong", WRONG)):
                    yield method, route.path, who, self.status(method, route.path, token)
                for number, role in enumerate(AccessRole, start=1):
                    yield method, route.path, role.value, self.status(method, route.path, number)
                    yield method, route.path, "revoked", self.status(method, route.path, 10 + number)
                    yield method, route.path, "ended", self.status(method, route.path, 20 + number)


def table() -> dict[tuple[str, str], Access]:
    """What the page says, by method and path."""
    section = PAGE.partition("\n## HTTP routes\n")[2].partition("\n## ")[0]
    found: dict[tuple[str, str], Access] = {}
    for demand, routes in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.M):
        if demand in DEMANDS:
            for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", routes):
                assert (method, path) not in found, (method, path)
                found[method, path] = DEMANDS[demand]
    return found


def expected(demand: Access, who: str) -> str:
    if demand is Access.PUBLIC:
        return "served"
    if demand is Access.PEER or who in ("no token", "wrong", "revoked", "ended"):
        return "401"
    return "served" if AccessRole(who) in SATISFYING[demand] else "403"


def faults(matrix: Matrix) -> list[Outcome]:
    """Requests that had another outcome than the page says."""
    demands = table()
    found = []
    for method, path, who, status in matrix.outcomes():
        demand = demands["GET" if method == "HEAD" else method, path]
        outcome = str(status) if status in (401, 403) else "served"
        if outcome != expected(demand, who):
            found.append((method, path, who, status))
    return found


def test_the_page_has_every_route_with_what_it_demands() -> None:
    matrix = Matrix()
    assert table() == {(route.method, route.path): route.access for route in matrix.routes}
    assert set(DEMANDS.values()) == set(Access)


def test_every_route_for_every_role() -> None:
    matrix = Matrix()
    assert faults(matrix) == []
    statuses = {status for _, _, _, status in matrix.outcomes()}
    assert {REACHED, 401, 403} <= statuses
    assert 500 not in statuses


# The matrix finds faults that are planted.


@pytest.mark.parametrize(
    ("path", "access"),
    [("/v2/members", Access.ANY), ("/v2/kv/{key}", Access.READ), ("/v2/envoys/connect", Access.PUBLIC)],
)
def test_planted_a_route_that_demands_too_little(path: str, access: Access) -> None:
    def widen(route: Route) -> Route:
        return replace(route, access=access) if route.path == path and route.access is not Access.READ else route

    assert {fault[1] for fault in faults(Matrix(widen))} == {path}


def test_planted_head_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    admits = Authorization.admits

    def careless(self: Authorization, call: ApiCall, route: Route) -> bool:
        return call.request.method == "HEAD" or admits(self, call, route)

    monkeypatch.setattr(Authorization, "admits", careless)
    assert {fault[0] for fault in faults(Matrix())} == {"HEAD"}


def test_planted_the_revoked_and_the_ended_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forever(dict[object, object]):
        def clear(self) -> None:
            pass

    made = Authorization.__init__

    def remembering(self: Authorization, *given: object) -> None:
        made(self, *given)  # type: ignore[arg-type]
        self._known = Forever()  # type: ignore[assignment]

    monkeypatch.setattr(Authorization, "__init__", remembering)
    assert {fault[2] for fault in faults(Matrix())} == {"revoked", "ended"}


def test_planted_a_peers_route_that_takes_a_token() -> None:
    def widen(route: Route) -> Route:
        return replace(route, handler=reached) if route.path == MESSAGE_PATH.decode() else route

    assert {fault[1] for fault in faults(Matrix(widen))} == {MESSAGE_PATH.decode()}
