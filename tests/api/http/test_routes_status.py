"""Health, readiness and inspections; a node answers what the test tells it to."""

from collections.abc import Callable

from epoxy.api.http.routes_status import MAX_INSPECTIONS
from epoxy.node.members.lifecycle import STARTING
from tests.api.http.fake_api import FakeApi, told
from tests.api.http.http_bench import Wire, request


def test_health_does_not_depend_on_being_ready(fake: FakeApi) -> None:
    assert (fake.ask("GET", "/readyz").status, fake.ask("GET", "/readyz").body) == (200, b"ready\n")
    fake.node.ready, fake.node.lifecycle = False, STARTING
    assert (fake.ask("GET", "/healthz").status, fake.ask("GET", "/healthz").body) == (200, b"ok\n")
    assert fake.ask("GET", "/v2/status").json() == {"id": 1, "ready": False}
    answer = fake.ask("GET", "/readyz")
    assert answer.status == 503
    assert answer.error() == told("not_ready", "the node is starting", retry_after_ms=1000)


def test_ready_for_transactions_is_another_question(fake: FakeApi) -> None:
    assert fake.ask("GET", "/readyz?for=transactions").status == 200
    fake.node.txn_waits = "catching-up, term 0, 9000 decisions behind"
    answer = fake.ask("GET", "/readyz?for=transactions")
    assert (answer.status, answer.error()["code"]) == (503, "not_ready")
    assert "9000 decisions behind" in answer.error()["message"]
    assert fake.ask("GET", "/readyz?for=keys").status == fake.ask("GET", "/readyz").status == 200
    assert fake.ask("GET", "/readyz?for=rain").status == 400


def test_only_so_many_inspections_at_a_time(fake: FakeApi) -> None:
    waiting: list[Callable[[], None]] = []
    fake.node.inspections = waiting
    wires = [Wire(request("GET", "/v2/inspect/k")) for _ in range(MAX_INSPECTIONS)]
    for wire in wires:
        fake.api(wire.exchange)
    assert [wire.sent for wire in wires] == [b""] * MAX_INSPECTIONS
    assert fake.ask("GET", "/v2/inspect/k").error()["code"] == "overloaded"
    for answer in waiting:
        answer()
    assert {wire.answer().status for wire in wires} == {200}
    fake.node.inspections = None
    assert fake.ask("GET", "/v2/inspect/k").status == 200


def test_inspect(fake: FakeApi) -> None:
    assert fake.ask("GET", "/v2/inspect/a%2Fb%00").json() == {
        "key": "a/b%00",
        "replicas": [
            {
                "id": 1,
                "datacenter": "dc-1",
                "held": None,
                "reason": "no answer in time",
                "decision": None,
                "remaining": None,
            }
        ],
        "explanation": [
            {"kind": "warn", "text": "Without an answer: dc-1 (no answer in time)."},
            {
                "kind": "bad",
                "text": "Only 0 of 3 replicas answered, and 2 are needed: until more are back it can neither be "
                "written nor read for certain. What was committed is not lost.",
            },
        ],
    }
    assert fake.node.inspected == [b"a/b\0"]
