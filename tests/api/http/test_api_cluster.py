"""Three real nodes in one process, their HTTP APIs on real sockets."""

import http.client
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from epoxy.transport.limits import HttpLimits
from tests.api.http.http_bench import PATIENCE_S, Cluster, Served, running

JSON = "application/json"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running() as cluster:
        yield cluster


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[list[Served]]:
    yield cluster.served
    for served in cluster.served:
        served.links.cut = False


def test_a_name_has_one_owner_everywhere(nodes: list[Served]) -> None:
    first = nodes[0].ask("PUT", "/v2/kv/user/ada", b"eu-west-1")
    assert (first.status, first.headers["epoxy-mine"], first.headers["epoxy-path"]) == (201, "true", "fast")
    again = nodes[1].ask("PUT", "/v2/kv/user%2Fada", b"eu-west-1")
    assert (again.status, again.headers["epoxy-mine"]) == (200, "false")
    other = nodes[2].ask("PUT", "/v2/kv/user/ada", b"us-east-1")
    assert (other.status, other.body, other.headers["epoxy-error"]) == (409, b"eu-west-1", "taken")
    for node in nodes:
        for read in ("optimistic", "skip_cache", "linearizable"):
            found = node.ask("GET", f"/v2/kv/user/ada?read={read}")
            assert (found.status, found.body, found.headers["epoxy-version"]) == (200, b"eu-west-1", "1")


def test_a_race_of_all_regions(nodes: list[Served]) -> None:
    with ThreadPoolExecutor(len(nodes)) as pool:
        for i in range(20):
            asked = [pool.submit(node.ask, "PUT", f"/v2/kv/race/{i}", b"%d" % node.port) for node in nodes]
            answers = [each.result(PATIENCE_S) for each in asked]
            assert sorted(answer.status for answer in answers) == [201, 409, 409]
            winner = nodes[[answer.status for answer in answers].index(201)]
            assert {answer.body for answer in answers} == {b"", b"%d" % winner.port}


def test_versions(nodes: list[Served]) -> None:
    a, b, _ = nodes
    assert a.ask("PUT", "/v2/kv/cfg?mode=put", b"1").status == 201
    second = b.ask("PUT", "/v2/kv/cfg?mode=put&if_version=1", b"2", accept=JSON)
    assert (second.status, second.json()["version"], second.json()["mutable"]) == (200, 2, True)
    stale = a.ask("PUT", "/v2/kv/cfg?mode=put&if_version=1", b"3", accept=JSON)
    assert (stale.status, stale.json()["error"]["code"]) == (409, "version_mismatch")
    assert stale.json()["committed"]["value"] == "2"
    assert a.ask("DELETE", "/v2/kv/cfg?if_version=2").headers["epoxy-version"] == "3"
    gone = b.ask("GET", "/v2/kv/cfg?read=linearizable")
    assert (gone.status, gone.headers["epoxy-version"]) == (404, "3")
    assert b.ask("DELETE", "/v2/kv/cfg").status == 404
    assert b.ask("PUT", "/v2/kv/cfg?mode=put", b"4").status == 201


def test_sums_and_what_was_there_before(nodes: list[Served]) -> None:
    a, b, _ = nodes
    first = a.ask("PATCH", "/v2/kv/visits?add=5")
    assert (first.status, first.body, first.headers["epoxy-version"]) == (201, b"5", "1")
    second = b.ask("PATCH", "/v2/kv/visits?add=-7&if_version=1", accept=JSON)
    assert (second.status, second.json()["value"], second.json()["version"]) == (200, "-2", 2)
    swapped = a.ask("PUT", "/v2/kv/visits?mode=put&returning=true", b"many")
    assert (swapped.body, swapped.headers["epoxy-previous-version"]) == (b"-2", "2")
    word = b.ask("PATCH", "/v2/kv/visits?add=1")
    assert (word.status, word.headers["epoxy-error"], word.body) == (409, "not_an_integer", b"many")
    assert b.ask("DELETE", "/v2/kv/visits?returning=true", accept=JSON).json()["previous"]["value"] == "many"
    assert a.ask("PATCH", "/v2/kv/visits?add=1").status == 201


def test_a_reserved_name_is_not_overwritten(nodes: list[Served]) -> None:
    nodes[0].ask("PUT", "/v2/kv/fixed", b"v")
    for method, target, body in (("PUT", "/v2/kv/fixed?mode=put", b"w"), ("DELETE", "/v2/kv/fixed", None)):
        answer = nodes[1].ask(method, target, body)
        assert (answer.status, answer.headers["epoxy-error"], answer.body) == (409, "immutable", b"v")


def test_what_is_known_here_costs_no_message(nodes: list[Served]) -> None:
    nodes[0].ask("PUT", "/v2/kv/quiet", b"v")
    for node in nodes:
        assert node.ask("GET", "/v2/kv/quiet?read=linearizable").status == 200
    before = [node.links.sent for node in nodes]
    for node in nodes:
        assert node.ask("GET", "/v2/kv/quiet").headers["epoxy-source"] == "local"
        assert node.ask("PUT", "/v2/kv/quiet", b"v").headers["epoxy-path"] == "local"
    assert [node.links.sent for node in nodes] == before


def test_alone_it_reads_what_it_knows_and_promises_nothing(nodes: list[Served]) -> None:
    alone = nodes[0]
    alone.ask("PUT", "/v2/kv/known", b"v")
    alone.links.cut = True
    assert alone.ask("GET", "/v2/kv/known").body == b"v"
    unknown = alone.ask("GET", "/v2/kv/never-heard-of")
    assert (unknown.status, unknown.error()["code"], unknown.error()["definite"]) == (503, "read_failed", True)
    lost = alone.ask("PUT", "/v2/kv/lost", b"v")
    assert (lost.status, lost.error()["code"], lost.error()["definite"]) == (503, "consensus_failed", False)
    assert lost.error()["message"].endswith("The write may have taken effect, or may still")


def test_status_members_inspect_and_metrics(nodes: list[Served]) -> None:
    nodes[0].ask("PUT", "/v2/kv/seen", b"v")
    status = nodes[0].ask("GET", "/v2/status").json()
    assert (status["id"], status["datacenter"], status["epoch"], status["ready"]) == (1, "region-1", 1, True)
    assert status["tolerated_failures"] == 1
    assert [(peer["id"], peer["datacenter"], peer["reachable"]) for peer in status["peers"]] == [
        (2, "region-2", True),
        (3, "region-3", True),
    ]
    assert [each["url"] for each in nodes[0].ask("GET", "/v2/members").json()["replicas"]] == [
        "http://node-1",
        "http://node-2",
        "http://node-3",
    ]
    inspection = nodes[0].ask("GET", "/v2/inspect/seen").json()
    views = inspection["replicas"]
    assert [each["kind"] for each in inspection["explanation"]] == ["good"]
    nodes[0].ask("PUT", "/v2/kv/ending?mode=put&ttl=600000", b"v")
    ending = nodes[0].ask("GET", "/v2/inspect/ending").json()
    assert 0 < ending["replicas"][0]["remaining"] <= 600_000
    assert [view["remaining"] for view in ending["replicas"][1:]] == [None, None], "the others count for themselves"
    assert "given at version 1" in ending["explanation"][-1]["text"]
    history = nodes[0].ask("GET", "/v2/history/seen").json()
    assert [(row["version"], row["writer"]) for row in history["changes"]] == [(1, "region-1")]
    assert [(view["id"], view["held"]["committed"]["value"]) for view in views] == [
        (1, "dg=="),
        (2, "dg=="),
        (3, "dg=="),
    ]
    assert b'epoxy_requests_total{request_type="http_put_key",result="ok"}' in nodes[0].ask("GET", "/metrics").body


def test_pages(nodes: list[Served]) -> None:
    for name in ("a", "b", "c%20d"):
        nodes[0].ask("PUT", f"/v2/kv/page/{name}", b"v")
    first = nodes[0].ask("GET", "/v2/kv?prefix=page/&limit=2").json()
    assert ([row["key"] for row in first["keys"]], first["next"]) == (["page/a", "page/b"], "page/b")
    rest = nodes[0].ask("GET", f"/v2/kv?prefix=page/&limit=2&after={first['next']}").json()
    assert ([row["key"] for row in rest["keys"]], rest["next"]) == (["page/c%20d"], None)


def test_many_requests_on_one_connection(nodes: list[Served]) -> None:
    """Sent at once, answered in order, although some answers are known before others."""
    nodes[0].ask("PUT", "/v2/kv/piped", b"known")
    wanted = b"".join(
        b"PUT /v2/kv/piped-%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n%d" % (i, i)
        + b"GET /v2/kv/piped HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for i in range(5)
    )
    with socket.create_connection(("127.0.0.1", nodes[0].port), timeout=PATIENCE_S) as client:
        client.sendall(wanted)
        for _ in range(5):
            assert read_answer(client) == (201, b"")
            assert read_answer(client) == (200, b"known")


def read_answer(client: socket.socket) -> tuple[int, bytes]:
    """One answer, and not a byte of the next."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += client.recv(1)
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += client.recv(length - len(body))
    return int(head.split(b" ")[1]), body


def test_a_client_that_leaves_early_hurts_nobody(nodes: list[Served]) -> None:
    for i in range(20):
        with socket.create_connection(("127.0.0.1", nodes[0].port), timeout=PATIENCE_S) as client:
            client.sendall(b"PUT /v2/kv/gone-%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nv" % i)
    assert nodes[0].ask("PUT", "/v2/kv/stays", b"v").status == 201


def test_too_large_is_refused_before_it_is_sent(nodes: list[Served]) -> None:
    with socket.create_connection(("127.0.0.1", nodes[0].port), timeout=PATIENCE_S) as client:
        client.sendall(
            b"PUT /v2/kv/large HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n"
        )
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.status == 413
        assert b'"code":"body_too_large"' in response.read()


def test_a_connection_too_many() -> None:
    with running(1, HttpLimits(connections=100)) as cluster:
        served = cluster.served[0]
        crowd = [socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) for _ in range(100)]
        answer = served.ask("GET", "/healthz")
        assert (answer.status, answer.json()["error"]["code"]) == (503, "too_many_connections")
        for client in crowd:
            client.close()


# As the documents say it, where the machine has curl. Everything it shows is shown above without it.

CURL = shutil.which("curl")

if CURL is not None:

    def curl(*words: str) -> str:
        command = [str(CURL), "--silent", "--max-time", "60", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def test_curl(nodes: list[Served]) -> None:
        url = nodes[0].url
        put = ("-X", "PUT", "--write-out", " %{http_code}")
        assert curl(*put, "--data-binary", "eu-west-1", f"{url}/v2/kv/curl/ada") == " 201"
        assert curl(*put, "--data-binary", "eu-west-1", f"{url}/v2/kv/curl/ada") == " 200"
        assert curl(*put, "--data-binary", "us-east-1", f"{url}/v2/kv/curl/ada") == "eu-west-1 409"
        assert curl(*put, "--output", "/dev/null", f"{url}/v2/kv/curl/none") == " 411"
        assert curl(f"{url}/v2/kv/curl/ada") == "eu-west-1"
        shown = curl("--head", f"{url}/v2/kv/curl/ada")
        assert "Epoxy-Version: 1" in shown
        assert "Epoxy-Source: local" in shown
        events = curl("--no-buffer", f"{url}/v2/changes?follow=false&prefix=curl/ada")
        assert events.count("data: ") == 1
        assert '"key":"curl/ada"' in events
