"""The HTTP API: members, other handlers and counts; a node says what it is told to."""

import pytest

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.router import Api, has_room
from epoxy.api.http.routes import signed_route
from epoxy.api.metrics import Metrics
from epoxy.model.access import Access, AccessRole, Grant
from epoxy.model.writes import ConsensusFailed, ReadResult, Source
from epoxy.protocol.access.principal import Principal
from epoxy.transport.http.exchange import Exchange
from tests.api.http.fake_api import CONFLICTS, FakeApi, won
from tests.api.http.http_bench import FakeNode, Wire, ask, proposal, request


def test_members(fake: FakeApi) -> None:
    assert fake.ask("GET", "/v2/members").json() == {
        "epoch": 1,
        "coordinator_id": 1,
        "quorum_policy": "optimal",
        "quorums": {"fast": 2, "slow": 2},
        "joint": False,
        "previous": None,
        "wanted": [1, 2, 3],
        "replicas": [
            {"id": i, "status": "active", "url": "", "identity": 0, "datacenter": f"dc-{i}", **version}
            for i, version in ((1, {"version": "0.2.0"}), (2, {"version": "0.3.0"}), (3, {}))
        ],
    }


def test_other_handlers_share_the_port() -> None:
    served: list[bytes] = []

    def peers(exchange: Exchange) -> None:
        served.append(exchange.request.body)
        exchange.respond(401)

    routes = [signed_route("POST", b"/v2/epoxy/message", peers, Access.PEER)]
    api = Api(FakeNode(), Metrics(), more=routes)
    assert ask(api, "POST", "/v2/epoxy/message", b"batch").status == 401
    assert ask(api, "POST", "/v2/epoxy/message/", b"no").status == 404
    assert served == [b"batch"]


def test_requests_are_counted_by_kind_and_result(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=proposal(), source=Source.LOCAL)
    fake.ask("GET", "/v2/kv/k")
    fake.ask("GET", "/v2/kv/%")
    fake.ask("POST", "/v2/kv/k")
    fake.ask("GET", "/nowhere")
    fake.write(won())
    fake.write(CONFLICTS[0][0])
    fake.write(ConsensusFailed(reason="x"))
    text = fake.ask("GET", "/metrics").body.decode()
    counted = [line for line in text.splitlines() if line.startswith("epoxy_requests_total")]
    assert sorted(counted) == [
        'epoxy_requests_total{request_type="http_get_key",result="invalid"} 1.0',
        'epoxy_requests_total{request_type="http_get_key",result="ok"} 1.0',
        'epoxy_requests_total{request_type="http_put_key",result="conflict"} 1.0',
        'epoxy_requests_total{request_type="http_put_key",result="ok"} 1.0',
        'epoxy_requests_total{request_type="http_put_key",result="unavailable"} 1.0',
        'epoxy_requests_total{request_type="http_unknown",result="invalid"} 1.0',
        'epoxy_requests_total{request_type="http_unknown",result="not_found"} 1.0',
    ]


def test_beyond_the_limit_of_connections_only_peers_and_operators_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a node without tokens every client could be an operator, so none is."""
    monkeypatch.setattr(Wire, "on_trial", True)
    signed = signed_route("POST", b"/v2/epoxy/message", lambda exchange: exchange.respond(200), Access.PEER)
    api = Api(FakeNode(), Metrics(), more=[signed])
    assert ask(api, "POST", "/v2/epoxy/message", b"batch").status == 200
    refused = ask(api, "GET", "/v2/members")
    assert (refused.status, refused.json()["error"]["code"]) == (503, "too_many_connections")
    call = ApiCall(Wire(request("GET", "/v2/members")).exchange, api.routes[0], Metrics().counters)
    for roles, room in (((AccessRole.OPERATOR,), True), ((AccessRole.READER, AccessRole.WRITER), False)):
        call.principal = Principal(Grant(name="x", roles=roles))
        assert has_room(call, api.routes[0]) is room
