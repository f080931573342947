"""`epoxy doctor`: what it prints, how it exits, how long it takes, and what no server can make it do."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from epoxy import __version__
from epoxy.cli import node_visits
from epoxy.cli.doctor import MAX_SHOWN, shown
from epoxy.cli.main import run
from epoxy.cli.node_visits import TOTAL_S
from tests.cli.visits import peers
from tests.client.fake import STATUS, FakeNode, Handler, problem

Captured = pytest.CaptureFixture[str]


def told(capsys: Captured, *options: str) -> tuple[int, dict[str, Any]]:
    status = run(["doctor", "--json", *options])
    return status, json.loads(capsys.readouterr().out)


def codes(document: dict[str, Any], severity: str = "") -> list[str]:
    return [each["code"] for each in document["findings"] if severity in ("", each["severity"])]


def test_it_visits_the_peers(node: FakeNode, capsys: Captured) -> None:
    with FakeNode() as other:
        node.status["peers"] = peers(url=other.url) + peers(
            id=3, datacenter="ap", url="http://127.0.0.1:1", reachable=False
        )
        other.status = STATUS | {"id": 2, "datacenter": "eu-west-1", "peers": []}
        assert run(["doctor"]) == 1
        out = capsys.readouterr().out
        assert out.startswith(
            "BROKEN  ap at http://127.0.0.1:1 does not answer: connection refused\n"
            "        Its state is unknown: it may be down, or only out of reach from here.\n"
            "        Is it running, and is this its address? On its machine, this command logs why it does not start:\n"
            "        $ epoxy serve --config epoxy.toml\n"
        )
        assert "ok      2 of 3 nodes answer and are ready\n" in out
        assert "available at the 2 datacenters that answered" in out
        status, document = told(capsys)
    assert (status, document["healthy"], document["findings"][0]["severity"]) == (1, False, "BROKEN")


def test_the_shape_of_the_document_is_what_scripts_rely_on(node: FakeNode, capsys: Captured) -> None:
    node.status |= {"peers": [], "clock_s": time.time(), "fast_path_share": 0.5}
    status, document = told(capsys)
    assert status == 0
    assert list(document) == ["healthy", "complete", "version", "took_s", "nodes", "findings"]
    assert (document["healthy"], document["complete"], document["version"]) == (True, True, __version__)
    assert 0 < document["took_s"] < TOTAL_S
    (visited,) = document["nodes"]
    assert list(visited) == [
        *("url", "answered", "reason", "id", "datacenter", "ready", "clock_ahead_s", "clock_within_s")
    ]
    assert (visited["url"], visited["answered"], visited["id"], visited["ready"]) == (node.url, True, 1, True)
    assert visited["clock_within_s"] < TOTAL_S
    (finding,) = [each for each in document["findings"] if each["severity"] == "warning"]
    assert list(finding) == ["severity", "code", "words", "why", "advice", "commands"]
    assert finding["code"] == "slow-path"
    assert finding["why"]


def test_warnings_are_no_failure_unless_that_is_asked_for(node: FakeNode, capsys: Captured) -> None:
    node.status["peers"] = []
    assert told(capsys, "--strict")[0] == 0
    node.status["fast_path_share"] = 0.5
    assert (told(capsys)[0], told(capsys, "--strict")[0]) == (0, 1)
    node.status["fast_path_share"] = 1.0
    del node.pages["/v2/pools"]
    status, document = told(capsys, "--strict")
    assert (status, codes(document, "unknown"), document["complete"]) == (1, ["actors-unseen"], False)
    assert told(capsys)[0] == 0


def test_it_says_which_nodes_it_cannot_ask_at_the_address_of_peers(node: FakeNode, capsys: Captured) -> None:
    """With `node.peers` a member's url serves no client; that is no illness, and no health either."""
    with FakeNode() as other:
        node.status["peers"] = peers(url=other.url)
        other.misdeeds.append(problem(421, "wrong_listener", definite=True))
        assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"unknown eu-west-1 at {other.url}: not asked, because their urls are addresses for other nodes" in out
    assert "Name all nodes to --url" in out


def test_it_is_content(node: FakeNode, capsys: Captured) -> None:
    node.status["peers"] = []
    assert run(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "ok      1 of 1 nodes answer and are ready"


def test_it_visits_all_nodes_of_a_datacenter(node: FakeNode, capsys: Captured) -> None:
    """Those of the node that was named, and those of its peers."""
    with FakeNode() as sibling, FakeNode() as there, FakeNode() as beside:
        own = {"url": node.url, "addresses": [node.url, sibling.url]}
        node.status |= own | {"peers": peers(url=f"{there.url},{beside.url}")}
        sibling.status = STATUS | own | {"url": sibling.url, "peers": peers(url=f"{there.url},{beside.url}")}
        other = STATUS | {"id": 2, "datacenter": "eu-west-1", "peers": [], "addresses": [there.url, beside.url]}
        there.status, beside.status = other | {"url": there.url}, other | {"url": beside.url}
        assert run(["doctor"]) == 0
        out = capsys.readouterr().out
        assert "4 of 4 nodes answer and are ready" in out
        assert run(["status"]) == 0
        assert f"pid 4711, one of {node.url}, {sibling.url}" in capsys.readouterr().out


# What a server may answer


def page_of_a_proxy(handler: Handler) -> None:
    handler.reply(200, b"<html><body>Welcome to nginx!</body></html>", "text/html")


def sign_in_page(handler: Handler) -> None:
    handler.reply(302, b"", "text/html", Location="http://127.0.0.1:1/login")


def gateway_error(handler: Handler) -> None:
    handler.reply(502, b"<h1>Bad Gateway</h1>", "text/html")


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"-ERR unknown command 'GET'\r\n")


def half_an_answer(handler: Handler) -> None:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"id": 1')


def answer_with(text: str) -> Any:
    return lambda handler: handler.reply(200, text.encode(), "application/json")


@pytest.mark.parametrize(
    "misdeed",
    [
        page_of_a_proxy,
        sign_in_page,
        gateway_error,
        no_http,
        half_an_answer,
        answer_with("[]"),
        answer_with("null"),
        answer_with('{"id": "one"}'),
        answer_with("{" * 5000),
        answer_with('{"id": 1, "peers": [{"id": 2, "url": "http://[::1"}]}'),
        answer_with('{"id": 1, "addresses": ["file:///etc/passwd"], "url": "x"}'),
        answer_with('{"id": 1, "changelog_limit": 1, "changelog_bytes": 1' + "0" * 400 + "}"),
        answer_with('{"id": 1, "clock_s": 1e308}'),
    ],
    ids=lambda misdeed: getattr(misdeed, "__name__", "json"),
)
def test_what_is_no_answer_of_a_node_is_said_to_be_none(node: FakeNode, capsys: Captured, misdeed: Any) -> None:
    node.status["peers"] = peers(url="")
    with FakeNode() as other:
        node.status["peers"] = peers(url=other.url)
        other.misdeeds.extend([misdeed] * 20)
        status, document = told(capsys)
    assert status == 1
    assert codes(document, "BROKEN") == ["node-silent"]
    assert [each["answered"] for each in document["nodes"]] == [True, False]
    assert (document["healthy"], document["complete"]) == (False, False)


def test_answers_cannot_write_to_the_terminal(node: FakeNode, capsys: Captured) -> None:
    node.status |= {"datacenter": "\x1b[2Jeu\nok      all is well\x07", "ready": False, "peers": []}
    assert run(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert not any(line.startswith("ok      all is well") for line in out.splitlines())
    assert len(shown("x" * 10_000)) == MAX_SHOWN + 3


def test_a_wrong_token_is_said_to_be_refused_and_not_to_be_a_dead_node(node: FakeNode, capsys: Captured) -> None:
    node.token = "epx_right"
    status, document = told(capsys)
    assert (status, codes(document)) == (1, ["node-refuses"])
    assert "epoxy auth init" in document["findings"][0]["commands"][0]


def test_a_node_of_another_cluster_is_named_and_does_not_count(node: FakeNode, capsys: Captured) -> None:
    """Without that it would be a second replica 1, in another epoch, with another secret."""
    with FakeNode() as stranger:
        node.status |= {"url": node.url, "addresses": [node.url], "peers": [], "secrets": ["aaaaaa"]}
        stranger.status |= {"url": stranger.url, "addresses": [stranger.url], "peers": [], "secrets": ["bbbbbb"]}
        stranger.status["epoch"] = 9
        status, document = told(capsys, "--url", f"{node.url},{stranger.url}")
        assert (status, codes(document, "BROKEN")) == (1, ["other-cluster"])
        assert "GET /v2/pools" in node.requests
        assert "GET /v2/pools" not in stranger.requests, "what it says of its own cluster would be taken for this one's"
        assert document["findings"][0]["commands"] == [f"epoxy doctor --url {stranger.url}"]


def test_another_node_at_the_address_of_a_peer(node: FakeNode, capsys: Captured) -> None:
    with FakeNode() as other:
        node.status |= {"url": node.url, "peers": peers(url=other.url)}
        other.status |= {"id": 7, "datacenter": "mars", "url": other.url, "peers": peers(url=node.url, id=1)}
        _, document = told(capsys)
    (found,) = [each for each in document["findings"] if each["code"] == "wrong-node"]
    assert found["words"] == f"at {other.url}, the address of eu-west-1 (2), answers mars (7)"


def test_a_peer_whose_address_this_command_may_not_ask_is_unknown(
    node: FakeNode, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token does not leave this machine in plain text; that is no reason to end."""
    monkeypatch.setenv("EPOXY_TOKEN", "epx_t")
    node.status["peers"] = peers(url="http://10.1.2.3:7800")
    status, document = told(capsys)
    assert status == 1
    assert "not asked: " in document["nodes"][1]["reason"]


def test_more_peers_than_a_cluster_has_are_not_visited(
    node: FakeNode, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_visits, "MAX_VISITS", 3)
    node.status["peers"] = [each for i in range(2, 9) for each in peers(id=i, url=f"http://127.0.0.1:{i}")]
    _, document = told(capsys)
    reasons = [each["reason"] for each in document["nodes"]]
    assert reasons == ["", *["connection refused"] * 3, *["not asked: 3 others were"] * 4]


# Time


@contextmanager
def half_open() -> Iterator[str]:
    """Connections are taken by the system, and never answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_seven_members_of_which_three_are_gone_take_no_longer_than_one(node: FakeNode, capsys: Captured) -> None:
    """Two accept connections and are silent, one refuses them."""
    with ExitStack() as stack:
        there = [stack.enter_context(FakeNode()) for _ in range(3)]
        gone = [stack.enter_context(half_open()), stack.enter_context(half_open()), "http://127.0.0.1:1"]
        urls = [node.url, *(each.url for each in there), *gone]
        for number, each in enumerate((node, *there), 1):
            others = [(i, url) for i, url in enumerate(urls, 1) if i != number]
            each.status |= {"id": number, "url": each.url, "replicas": 7, "tolerated_failures": 0, "peers": []}
            for i, url in others:
                each.status["peers"] += peers(id=i, datacenter=f"dc-{i}", url=url, reachable=i <= 4, silent_s=7200.0)
        began = time.monotonic()
        status, document = told(capsys)
        assert time.monotonic() - began < TOTAL_S + 1
    assert status == 1
    assert [each["answered"] for each in document["nodes"]] == [True] * 4 + [False] * 3
    assert codes(document, "BROKEN") == ["node-silent"] * 3
    reasons = {each["reason"] for each in document["nodes"] if not each["answered"]}
    assert reasons == {"no answer in time", "connection refused"}
    away = [each for each in document["findings"] if each["code"] == "member-away"]
    assert [each["words"].partition(" as ")[0] for each in away] == [
        f"dc-{i} ({i}) has been away for 2 h or more," for i in (5, 6, 7)
    ]
    assert away[0]["commands"] == [
        f"epoxy members remove 5 --url {node.url}",
        f"epoxy members add 8 {gone[0]} --replace 5 --url {node.url}",
    ]
    assert codes(document, "warning").count("no-spare") == 4


def test_a_named_node_that_hangs_does_not_hide_the_others(node: FakeNode, capsys: Captured) -> None:
    with half_open() as stuck, FakeNode() as peer:
        node.status |= {"url": node.url, "peers": peers(url=peer.url)}
        peer.status |= {"id": 2, "url": peer.url, "peers": peers(id=1, url=node.url)}
        began = time.monotonic()
        status, document = told(capsys, "--url", f"{stuck},{node.url}")
        assert time.monotonic() - began < TOTAL_S + 1
    assert status == 1
    assert [each["answered"] for each in document["nodes"]] == [False, True, True]


def test_an_ipv6_address(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOXY_URL", "http://[::1]:1")
    status, document = told(capsys)
    assert status == 1
    assert document["nodes"][0]["url"] == "http://[::1]:1"


def test_wrong_usage(node: FakeNode, tmp_path: Path, capsys: Captured) -> None:
    absent = str(tmp_path / "absent.toml")
    assert run(["doctor", "--config", absent]) == 2
    assert "absent.toml" in capsys.readouterr().err
    assert run(["doctor", "--token-file", str(tmp_path / "absent")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert node.requests == []


def test_the_file_of_a_node_names_the_node(node: FakeNode, tmp_path: Path, capsys: Captured) -> None:
    node.status["peers"] = []
    config = tmp_path / "epoxy.toml"
    (tmp_path / "secret").write_text("s" * 32)
    (tmp_path / "secret").chmod(0o644)
    address = node.url.removeprefix("http://")
    config.write_text(
        f'[node]\nid = 1\ndata_dir = "data"\nhttp = "{address}"\n[cluster]\nsecret_file = "secret"\n'
        f'members = [{{id = 1, datacenter = "a", url = "{node.url}"}}]\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EPOXY_URL")
        status, document = told(capsys, "--config", str(config))
    assert status == 1
    assert document["nodes"][0]["url"] == node.url
    assert codes(document, "BROKEN") == ["secret-default"]
    assert codes(document, "warning") == ["secret-readable"]
    assert f"chmod 600 {tmp_path / 'secret'}" in document["findings"][1]["commands"]
