"""The HTTP door: health, members, inspections, other handlers and counts; a node says what it is told to."""

from collections.abc import Callable

from epoxy.api.http.router import Api
from epoxy.api.http.routes_status import MAX_INSPECTIONS
from epoxy.api.metrics import Metrics
from epoxy.model.writes import ConsensusFailed, ReadResult, Source
from epoxy.node.members.lifecycle import STARTING
from epoxy.transport.http.exchange import Exchange
from tests.api.http.api_door import CONFLICTS, Door, told, won
from tests.api.http.http_bench import FakeNode, Wire, ask, proposal, request


def test_health_does_not_depend_on_being_ready(door: Door) -> None:
    assert (door.ask("GET", "/readyz").status, door.ask("GET", "/readyz").body) == (200, b"ready\n")
    door.node.ready, door.node.lifecycle = False, STARTING
    assert (door.ask("GET", "/healthz").status, door.ask("GET", "/healthz").body) == (200, b"ok\n")
    assert door.ask("GET", "/v2/status").json() == {"id": 1, "ready": False}
    answer = door.ask("GET", "/readyz")
    assert answer.status == 503
    assert answer.error() == told("not_ready", "the node is starting", retry_after_ms=1000)


def test_ready_for_transactions_is_another_question(door: Door) -> None:
    assert door.ask("GET", "/readyz?for=transactions").status == 200
    door.node.txn_waits = "catching-up, term 0, 9000 decisions behind"
    answer = door.ask("GET", "/readyz?for=transactions")
    assert (answer.status, answer.error()["code"]) == (503, "not_ready")
    assert "9000 decisions behind" in answer.error()["message"]
    assert door.ask("GET", "/readyz?for=keys").status == door.ask("GET", "/readyz").status == 200
    assert door.ask("GET", "/readyz?for=rain").status == 400


def test_members(door: Door) -> None:
    assert door.ask("GET", "/v2/members").json() == {
        "epoch": 1,
        "coordinator_id": 1,
        "quorum_policy": "optimal",
        "quorums": {"fast": 2, "slow": 2},
        "joint": False,
        "previous": None,
        "wanted": [1, 2, 3],
        "replicas": [
            {"id": i, "status": "active", "url": "", "identity": 0, "datacenter": f"dc-{i}"} for i in (1, 2, 3)
        ],
    }


def test_only_so_many_inspections_at_a_time(door: Door) -> None:
    waiting: list[Callable[[], None]] = []
    door.node.inspections = waiting
    wires = [Wire(request("GET", "/v2/inspect/k")) for _ in range(MAX_INSPECTIONS)]
    for wire in wires:
        door.api(wire.exchange)
    assert [wire.sent for wire in wires] == [b""] * MAX_INSPECTIONS
    assert door.ask("GET", "/v2/inspect/k").error()["code"] == "overloaded"
    for answer in waiting:
        answer()
    assert {wire.answer().status for wire in wires} == {200}
    door.node.inspections = None
    assert door.ask("GET", "/v2/inspect/k").status == 200


def test_inspect(door: Door) -> None:
    assert door.ask("GET", "/v2/inspect/a%2Fb%00").json() == {
        "key": "a/b%00",
        "replicas": [{"id": 1, "key": "YS9iAA=="}],
    }


def test_other_handlers_share_the_port() -> None:
    served: list[bytes] = []

    def peers(exchange: Exchange) -> None:
        served.append(exchange.request.body)
        exchange.respond(401)

    api = Api(FakeNode(), Metrics(), {b"/v2/epoxy/message": peers})
    assert ask(api, "POST", "/v2/epoxy/message", b"batch").status == 401
    assert ask(api, "POST", "/v2/epoxy/message/", b"no").status == 404
    assert served == [b"batch"]


def test_requests_are_counted_by_kind_and_result(door: Door) -> None:
    door.node.here = ReadResult(committed=proposal(), source=Source.LOCAL)
    door.ask("GET", "/v2/kv/k")
    door.ask("GET", "/v2/kv/%")
    door.ask("POST", "/v2/kv/k")
    door.ask("GET", "/nowhere")
    door.write(won())
    door.write(CONFLICTS[0][0])
    door.write(ConsensusFailed(reason="x"))
    text = door.ask("GET", "/metrics").body.decode()
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
