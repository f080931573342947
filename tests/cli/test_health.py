"""`epoxy status`: what it prints, and how it exits."""

import json
from typing import Any

import pytest

from epoxy.cli.main import run
from epoxy.cli.output import duration
from tests.cli.visits import peers
from tests.client.fake import FakeNode

Captured = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("node")
def test_status_in_words(capsys: Captured) -> None:
    assert run(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Available. 1 more datacenter may fail."
    told = "\n".join(lines)
    for words in ("us-east-1, replica 1, pid 4711", "97.5% of the writes", "70.0 ms: the round trip", "1 h 2 min"):
        assert words in told
    assert lines[-2].split() == ["eu-west-1", "2", "unknown", "70.1", "ms", "reachable"]


@pytest.mark.parametrize(
    ("change", "words", "expected"),
    [
        ({"tolerated_failures": 2}, "Available. 2 more datacenters may fail.", 0),
        ({"tolerated_failures": 0}, "Available, but not one more datacenter may fail.", 0),
        ({"tolerated_failures": -1}, "Not available: 1 datacenter too few can be reached", 1),
        ({"ready": False}, "Not ready: us-east-1 is starting or stopping.", 1),
        ({"ready": False, "state": "removed", "reason": "it was removed"}, "Not serving: it was removed.", 1),
    ],
)
def test_status_says_whether_it_works(
    node: FakeNode, capsys: Captured, change: dict[str, Any], words: str, expected: int
) -> None:
    node.status |= change
    assert run(["status"]) == expected
    assert capsys.readouterr().out.startswith(words)


def test_status_during_a_change(node: FakeNode, capsys: Captured) -> None:
    node.status |= {"joint": True, "peers": peers(status="leaving"), "txn_state": "closing", "txn_term": 3}
    assert run(["status"]) == 0
    told = capsys.readouterr().out
    assert "wait: closing, term 3" in told
    assert "old and new members decide together" in told
    assert "reachable, leaving" in told


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ({"cert": 1e9 + 86_400 * 3, "ca": 2e9}, "tls.cert expires in 3 d"),
        ({"cert": 1e9 - 60, "ca": 2e9}, "tls.cert has expired 1 min ago"),
        ({"cert": 2e9, "ca": 1e9 + 7200}, "tls.ca expires in 2 h"),
    ],
)
def test_status_says_what_expires_first(node: FakeNode, capsys: Captured, ends: dict[str, float], words: str) -> None:
    node.status |= {"clock_s": 1e9, "certificates": ends, "secrets": ["a1b2c3", "d4e5f6"]}
    assert run(["status"]) == 0
    told = capsys.readouterr().out
    assert words in told
    assert "speaks a1b2c3, accepts d4e5f6, too" in told


def test_status_says_for_whom_a_node_that_was_killed_waits(node: FakeNode, capsys: Captured) -> None:
    node.status["fast_rounds_wait_for"] = [2, 3]
    assert run(["status"]) == 0
    assert "take two round trips: it was killed, and waits for replica 2, 3 since it is back" in capsys.readouterr().out


def test_status_says_why_somebody_is_out_of_reach(node: FakeNode, capsys: Captured) -> None:
    node.status |= {"peers": peers(reachable=False, trouble="[Errno 111] Connection refused")}
    assert run(["status"]) == 0
    assert "OUT OF REACH: [Errno 111] Connection refused" in capsys.readouterr().out


def test_status_in_json_is_all_the_node_said(node: FakeNode, capsys: Captured) -> None:
    node.status["news"] = [1, 2]
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == node.status


def test_status_of_a_node_that_says_little(node: FakeNode, capsys: Captured) -> None:
    node.status = {"id": 1, "datacenter": "a", "ready": True, "tolerated_failures": 0}
    assert run(["status"]) == 0
    assert "replica 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "less than a second"), (59, "59 s"), (61, "1 min 1 s"), (90_061, "1 d 1 h"), (86_400, "1 d")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


NODES = [
    {"session": 4, "url": "http://h:1", "version": "1.0", "shards": 129, "gateway": True, "lease_ms": 4000.0},
    {"session": 5, "url": "http://h:2", "version": "1.0", "shards": 128, "lease_ms": -1500.0},
]


def test_status_names_the_nodes_of_its_datacenter(node: FakeNode, capsys: Captured) -> None:
    node.status |= {"session": 4, "nodes": NODES}
    assert run(["status"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["http://h:1", "4", "129", "1.0", "serving,", "gateway,", "this", "node"] in lines
    assert ["http://h:2", "5", "128", "1.0", *["SILENT", "for", "1.5", "s", "beyond", "its", "lease"]] in lines
    node.status |= {"nodes": NODES[:1]}
    assert run(["status"]) == 0
    assert "http://h:1" not in capsys.readouterr().out, "one node has no table"
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == NODES[:1]
