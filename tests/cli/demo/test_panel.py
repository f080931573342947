"""Orders over HTTP: a page of the demo's own nodes with the demo's token gives them, and no other."""

import http.client
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from epoxy.cli.demo import panel as module
from epoxy.cli.demo.control import MAX_ORDER_BYTES, DemoOrder, DemoReply, ask
from epoxy.cli.demo.panel import MAX_AT_ONCE, ORDERS, STATE, Panel, Rules, measured
from epoxy.model.errors import Unavailable

TOKEN = "f" * 64
OURS = "http://127.0.0.1:7800"
PATIENCE_S = 30.0


class Office:
    """A panel on a free port, and what it was ordered to do."""

    def __init__(self) -> None:
        self.orders: list[DemoOrder] = []
        self.reply: DemoReply | None = DemoReply(done=True, lines=["done"], demo={"regions": []})
        self.error: Unavailable | None = None
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        rules = Rules(hosts=frozenset(), origins=frozenset((OURS,)), token=TOKEN)
        self.panel = Panel(0, rules, self.perform, lambda _: [{"from": "a", "to": "b", "rtt_ms": 1.0}])
        port = self.panel.port
        self.host = f"127.0.0.1:{port}"
        self.panel.rules = Rules(
            hosts=frozenset((self.host, f"localhost:{port}")), origins=frozenset((OURS,)), token=TOKEN
        )
        self.panel.start()

    def perform(self, order: DemoOrder) -> DemoReply | None:
        self.entered.release()
        assert self.gate.wait(PATIENCE_S)
        self.orders.append(order)
        if self.error is not None:
            raise self.error
        return self.reply

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, without: str = "", **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.panel.port, timeout=PATIENCE_S)
        sent = {"host": self.host, "origin": OURS, "authorization": f"Bearer {TOKEN}", **headers}
        sent.pop(without, None)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            text = answer.read()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, told, msgspec.json.decode(text) if text else None
        finally:
            connection.close()

    def kill(self, *, without: str = "", **headers: str) -> int:
        body = b'{"verb": "kill", "region": "eu-west-1"}'
        return self.ask("POST", ORDERS, body, without=without, **headers)[0]


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    yield made
    made.gate.set()
    made.panel.close()


def test_a_page_of_a_node_gives_orders_and_sees_the_demo(office: Office) -> None:
    assert office.kill() == 200
    assert office.orders == [DemoOrder(verb="kill", region="eu-west-1")]
    status, headers, seen = office.ask("GET", STATE)
    assert (status, seen) == (200, {"regions": [], "measured": [{"from": "a", "to": "b", "rtt_ms": 1.0}]})
    assert headers["access-control-allow-origin"] == OURS
    assert (headers["vary"], headers["cache-control"]) == ("Origin", "no-store")
    assert office.kill(host=f"localhost:{office.panel.port}") == 200


@pytest.mark.parametrize(
    ("headers", "without", "status"),
    [
        ({"origin": "http://evil.example"}, "", 403),
        ({"origin": "null"}, "", 403),
        ({"origin": "http://127.0.0.1:7890"}, "", 403),
        ({"origin": OURS + ".evil.example"}, "", 403),
        ({}, "origin", 403),
        ({"host": "evil.example"}, "", 421),
        ({"host": "127.0.0.1"}, "", 421),
        ({}, "host", 421),
        ({"authorization": "Bearer " + "0" * 64}, "", 401),
        ({"authorization": TOKEN}, "", 401),
        ({"authorization": "Bearer \xfc"}, "", 401),
        ({}, "authorization", 401),
    ],
)
def test_a_page_of_another_origin_cannot_kill_a_region(
    office: Office, headers: dict[str, str], without: str, status: int
) -> None:
    assert office.kill(without=without, **headers) == status
    assert office.ask("GET", STATE, None, without=without, **headers)[0] == status
    assert office.orders == []


def test_a_browser_that_asks_first_is_told_nothing_for_other_pages(office: Office) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    status, headers, _ = office.ask("OPTIONS", ORDERS, None, without="authorization", **asked)
    assert (status, headers["access-control-allow-origin"]) == (204, OURS)
    assert headers["access-control-allow-headers"] == "authorization, content-type"
    status, headers, _ = office.ask(
        "OPTIONS", ORDERS, None, without="authorization", origin="http://evil.example", **asked
    )
    assert status == 403
    assert "access-control-allow-origin" not in headers
    assert office.ask("OPTIONS", ORDERS, None, without="authorization", host="evil.example", **asked)[0] == 421


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"verb": 1}', b'{"verb": "kill", "more": 1}', b" " * 9000])
def test_what_is_no_order_is_refused(office: Office, body: bytes) -> None:
    status, _, told = office.ask("POST", ORDERS, body)
    assert (status, told["error"]["code"]) == (400, "bad_request")
    assert office.orders == []


def test_other_paths_and_a_body_without_a_length(office: Office) -> None:
    assert office.ask("GET", "/")[2]["error"]["code"] == "no_such_route"
    assert office.ask("POST", STATE, b"{}")[0] == 404
    assert office.ask("POST", ORDERS)[0] == 400
    assert office.ask("POST", ORDERS, None, **{"content-length": "9" * 5000})[0] == 400


def test_an_order_that_is_too_long_when_it_is_passed_on(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed on with all its fields."""
    body = b'{"verb":"race","name":"%b"}' % (b"x" * (MAX_ORDER_BYTES - 25))
    assert len(body) == MAX_ORDER_BYTES
    monkeypatch.setattr(office.panel, "perform", partial(ask, Path("none.sock")))
    status, _, told = office.ask("POST", ORDERS, body)
    assert (status, told["error"]["code"]) == (400, "bad_request")


def test_refusals_of_the_demo_and_its_end(office: Office) -> None:
    office.reply = DemoReply(done=False, lines=["it is down already"], demo={})
    status, _, told = office.ask("POST", ORDERS, b'{"verb": "kill"}')
    assert (status, told["lines"]) == (409, ["it is down already"])
    office.reply = None
    assert office.ask("GET", STATE)[2]["error"]["message"] == "the demo has ended"
    office.error = Unavailable("it does not answer")
    assert office.ask("GET", STATE)[2]["error"]["message"] == "it does not answer"


def test_only_so_many_at_a_time(office: Office) -> None:
    office.gate.clear()
    threads = [threading.Thread(target=office.ask, args=("GET", STATE)) for _ in range(MAX_AT_ONCE)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert office.entered.acquire(timeout=PATIENCE_S)
    assert office.ask("GET", STATE)[2]["error"]["code"] == "overloaded"
    office.gate.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert office.ask("GET", STATE)[0] == 200


def test_what_regions_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeClient:
        def __init__(self, url: str, **_: object) -> None:
            self._url = url

        def __enter__(self) -> "FakeClient":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def status(self) -> object:
            if self._url == "silent":
                raise Unavailable("no answer")
            return SimpleNamespace(peers=[SimpleNamespace(datacenter="b", rtt_ms=70.9, reachable=True)])

    monkeypatch.setattr(module, "Client", FakeClient)
    regions = [
        {"region": "a", "condition": "up", "http": "there"},
        {"region": "b", "condition": "down", "http": "there"},
        {"region": "c", "condition": "cut off", "http": "silent"},
    ]
    assert measured({"regions": regions}, "") == [{"from": "a", "to": "b", "rtt_ms": 70.9, "reachable": True}]
