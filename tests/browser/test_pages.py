"""What web pages can make a real browser do to a node: nothing, but for those that the operator allows."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from epoxy.api.http.cross_site import CrossSiteGuard
from tests.api.http.http_bench import Cluster, Served, running
from tests.browser.chromium import chromium, page_at, page_server

ATTACK = """async (node) => {
    const txn = JSON.stringify({then: [{op: "put", key: "stolen-by-txn", value: "x"}]});
    const tries = [
        fetch(node + "/v2/txn", {method: "POST", mode: "no-cors", body: txn}),
        fetch(node + "/v2/txn", {method: "POST", headers: {"content-type": "application/json"}, body: txn}),
        fetch(node + "/v2/kv/stolen-by-put", {method: "PUT", body: "x"}),
        fetch(node + "/v2/kv/stolen-by-put", {method: "DELETE"}),
        fetch(node + "/v2/members", {method: "POST", mode: "no-cors", body: '{"remove": [1]}'}),
        fetch(node + "/v2/actors/request?name=a&key=b&create=true", {
            method: "POST", mode: "no-cors", body: "x", signal: AbortSignal.timeout(3000),
        }),
        fetch(node + "/v2/kv/secret").then((answer) => answer.text()),
        new Promise((done) => {
            const socket = new WebSocket(node.replace("http", "ws") + "/v2/envoys/connect");
            socket.onopen = () => done("opened"); socket.onerror = () => done("refused");
        }),
        new Promise((done) => {
            const image = new Image(); image.onload = image.onerror = done; image.src = node + "/v2/kv/secret";
        }),
    ];
    const ended = await Promise.allSettled(tries);
    return {secret: ended[6].value ?? null, socket: ended[7].value};
}"""
"""Everything a page may send without or after asking: plain requests, preflighted ones, a WebSocket, an image. The
answer of the actor is not waited for: a node without workers takes its time to say so."""

FORM = """(node) => {
    const form = document.createElement("form");
    form.method = "POST"; form.enctype = "text/plain"; form.action = node + "/v2/txn";
    const field = document.createElement("input");
    field.name = '{"then": [{"op": "put", "key": "stolen-by-form", "value": "'; field.value = '"}]}';
    form.append(field); document.body.append(form); form.submit();
}"""

USE = """async (node) => {
    const put = await fetch(node + "/v2/kv/shared?mode=put", {method: "PUT", body: "ada"});
    const txn = await fetch(node + "/v2/txn", {
        method: "POST", headers: {"content-type": "application/json", "authorization": "Bearer x"},
        body: JSON.stringify({then: [{op: "put", key: "by-txn", value: "x"}]}),
    });
    const got = [];
    for (let i = 0; i < 3; i++) got.push(await (await fetch(node + "/v2/kv/secret")).text());
    const wrong = await fetch(node + "/v2/nothing");
    return {put: put.status, version: put.headers.get("epoxy-version"), txn: txn.status, got, wrong: wrong.status};
}"""


@pytest.fixture(scope="module")
def launched() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages() -> Iterator[int]:
    with page_server() as port:
        yield port


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running(1) as made:
        made.served[0].ask("PUT", "/v2/kv/secret", b"sesame")
        yield made


def stolen(node: Served) -> list[str]:
    keys = ("stolen-by-txn", "stolen-by-put", "stolen-by-form")
    return [key for key in keys if node.ask("GET", f"/v2/kv/{key}").status == 200]


def attack(launched: Any, pages: int, node: Served) -> Any:
    with ExitStack() as stack:
        page = stack.enter_context(page_at(launched, f"http://evil.example:{pages}/"))
        seen = page.evaluate(ATTACK, node.url)
        with page.expect_navigation():
            page.evaluate(FORM, node.url)
    return seen


def refusals(node: Served) -> int:
    text = node.ask("GET", "/metrics").body.decode()
    lines = [line for line in text.splitlines() if 'type="http_refused"' in line and line.startswith("epoxy_requests")]
    return int(sum(float(line.rpartition(" ")[2]) for line in lines))


def test_a_page_of_another_origin_writes_nothing_and_reads_nothing(launched: Any, pages: int, cluster: Cluster) -> None:
    node = cluster.served[0]
    assert attack(launched, pages, node) == {"secret": None, "socket": "refused"}
    assert stolen(node) == []
    assert refusals(node) >= 8, "the browser did send them"


def test_without_the_guard_the_page_writes(
    launched: Any, pages: int, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: the attack is a real one."""
    monkeypatch.setattr(CrossSiteGuard, "objection", lambda *_: None)
    monkeypatch.setattr("epoxy.api.http.routes_txn.json_body", lambda request: request.body)
    node = cluster.served[0]
    attack(launched, pages, node)
    assert "stolen-by-txn" in stolen(node)


def test_a_name_that_is_made_to_resolve_to_the_node_is_refused(launched: Any, cluster: Cluster) -> None:
    """DNS rebinding: for the browser the page and the node are one origin."""
    node = cluster.served[0]
    with page_at(launched, f"http://rebound.example:{node.port}/v2/status") as page:
        assert "unknown_host" in page.content()
        seen = page.evaluate("async () => (await fetch('/v2/kv/secret')).status")
    assert seen == 421


def test_the_nodes_own_page_reads_and_writes(launched: Any, cluster: Cluster) -> None:
    node = cluster.served[0]
    with page_at(launched, f"{node.url}/v2/status") as page:
        seen = page.evaluate(USE, node.url)
    assert seen == {"put": 201, "version": "1", "txn": 200, "got": ["sesame"] * 3, "wrong": 404}


def test_a_page_of_an_allowed_origin_is_served_and_its_neighbours_are_not(
    launched: Any, pages: int, cluster: Cluster
) -> None:
    node = cluster.served[0]
    node.api._guard = CrossSiteGuard(tuple, [f"http://app.example:{pages}"])
    with page_at(launched, f"http://app.example:{pages}/") as page:
        seen = page.evaluate(USE, node.url)
    assert seen == {"put": 201, "version": "1", "txn": 200, "got": ["sesame"] * 3, "wrong": 404}
    assert attack(launched, pages, node) == {"secret": None, "socket": "refused"}
    assert stolen(node) == []
