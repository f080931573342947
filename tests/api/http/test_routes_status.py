"""Health, readiness and inspections; a node answers what the test tells it to."""

from collections.abc import Callable

from msgspec.structs import replace

from epoxy.api.http.routes_status import MAX_INSPECTIONS, STUCK_S
from epoxy.model.api import SessionReport
from epoxy.node.members.lifecycle import STARTING
from epoxy.store.embedded.syncs import SyncTimes
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


def test_health_does_not_depend_on_peers(fake: FakeApi) -> None:
    """A supervisor that restarts a node which is cut off makes things worse."""
    fake.node.quorum.is_lost = True
    assert fake.ask("GET", "/healthz").status == 200


def test_a_disk_that_does_not_end_a_sync(fake: FakeApi) -> None:
    now_s = [0.0]
    fake.node.syncs = syncs = SyncTimes(lambda: now_s[0])
    syncs.begin()
    now_s[0] = STUCK_S
    assert fake.ask("GET", "/healthz").status == 200
    now_s[0] = STUCK_S + 1
    answer = fake.ask("GET", "/healthz")
    assert (answer.status, answer.error()["code"]) == (503, "store_stalled")
    assert answer.error()["message"] == "the disk has not ended a sync for 61 s"
    syncs.end()
    assert fake.ask("GET", "/healthz").status == 200, "a long sync that has ended is over"
    fake.node.syncs = None
    assert fake.ask("GET", "/healthz").status == 200, "the database of several nodes is not this process"
    assert fake.ask("GET", "/healthz?at=1").status == 200, "a probe is not refused for its parameters"


def test_ready_with_a_quorum_is_another_question(fake: FakeApi) -> None:
    assert fake.ask("GET", "/readyz?quorum=1").status == 200
    fake.node.quorum.is_lost = True
    answer = fake.ask("GET", "/readyz?quorum=1")
    assert (answer.status, answer.error()["code"]) == (503, "no_quorum")
    assert answer.error()["message"].startswith("keys that are held here are read, but too few of the other replicas")
    assert fake.ask("GET", "/readyz?quorum=0").status == fake.ask("GET", "/readyz").status == 200
    assert fake.ask("GET", "/readyz?quorum=yes").status == 400
    fake.node.ready, fake.node.lifecycle = False, STARTING
    assert fake.ask("GET", "/readyz?quorum=1").error()["code"] == "not_ready", "that comes first"


def test_a_node_whose_database_is_away_decides_nothing(fake: FakeApi) -> None:
    """By its own lease in the database: that of another node says nothing about this one."""
    mine, other = SessionReport(session=3, url="http://a", lease_ms=900.0), SessionReport(session=4, url="http://b")
    fake.node.session, fake.node.sessions_of_datacenter = 3, lambda: [mine, other]
    assert fake.ask("GET", "/readyz?quorum=1").status == 200
    fake.node.sessions_of_datacenter = lambda: [replace(mine, lease_ms=-0.1), other]
    answer = fake.ask("GET", "/readyz?quorum=1")
    assert (answer.status, answer.error()["code"]) == (503, "no_quorum")
    assert "the database that the nodes of this datacenter share does not answer" in answer.error()["message"]
    assert fake.ask("GET", "/readyz").status == 200


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
