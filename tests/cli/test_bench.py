"""`epoxy bench`, against a fake node: its numbers must add up."""

import json

import pytest

from epoxy.cli.main import run
from tests.client.fake import FakeNode

Captured = pytest.CaptureFixture[str]


def test_reserve_asks_for_a_fresh_name_each_time(node: FakeNode, capsys: Captured) -> None:
    assert run(["bench", "reserve", "--count", "40", "--clients", "4", "--value-size", "10", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["calls"], told["failed"], told["value_bytes"]) == (40, 0, 10)
    assert told["nodes"][0]["how"] == {"fast": 40}
    assert told["nodes"][0]["fast_share"] == 1.0
    assert {len(held.value or b"") for held in node.kv.values()} == {10}
    assert len(node.kv) == 40
    assert len(set(node.peers)) <= 4


def test_puts_share_their_keys(node: FakeNode, capsys: Captured) -> None:
    assert run(["bench", "put", "--count", "30", "--clients", "3", "--keys", "5"]) == 0
    assert sorted(held.version for held in node.kv.values()) == [6] * 5
    out = capsys.readouterr().out
    assert out.startswith("put: ")
    assert "fast 100.0%" in out


def test_gets_find_what_was_prepared(node: FakeNode, capsys: Captured) -> None:
    words = ["bench", "get", "--count", "30", "--keys", "3", "--read", "linearizable", "--json"]
    assert run(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["read"], told["nodes"][0]["how"]) == ("linearizable", {"quorum": 30})
    assert len(node.kv) == 3


def test_without_a_node_there_is_nothing_to_read(capsys: Captured) -> None:
    assert run(["bench", "get", "--keys", "1", "--url", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "epoxy: nothing to read: http://127.0.0.1:1: connection refused\n"
