"""The load generator, against a fake node: its numbers must add up."""

import json
import random

import pytest

from epoxy.cli.load import Latencies
from epoxy.cli.main import run
from tests.client.fake import FakeNode, hang_up, problem

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


def test_clients_are_spread_over_the_nodes(node: FakeNode, capsys: Captured) -> None:
    with FakeNode() as other:
        assert run(["bench", "--count", "40", "--clients", "4", "--url", f"{node.url},{other.url}", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [entry["calls"] for entry in told["nodes"]] == [len(node.kv), len(other.kv)]
        assert sum(entry["calls"] for entry in told["nodes"]) == 40
        assert all(entry["calls"] for entry in told["nodes"])


def test_failures_are_counted_by_what_is_known_of_them(node: FakeNode, capsys: Captured) -> None:
    node.misdeeds.extend([hang_up, problem(503, "overloaded", definite=True), hang_up])
    assert run(["bench", "--count", "10", "--clients", "1", "--json"]) == 1
    (entry,) = json.loads(capsys.readouterr().out)["nodes"]
    assert (entry["failed_definite"], entry["failed_indefinite"]) == ({"Unavailable": 1}, {"ConnectionLost": 2})
    assert entry["calls"] == 7


def test_without_a_node_there_is_nothing_to_read(capsys: Captured) -> None:
    assert run(["bench", "get", "--keys", "1", "--url", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "epoxy: nothing to read: http://127.0.0.1:1: connection refused\n"


def test_quantiles_are_right_to_a_percent() -> None:
    dice = random.Random(7)
    drawn = [dice.lognormvariate(1, 1.5) for _ in range(10_000)]
    latencies = Latencies()
    for ms in drawn:
        latencies.add(ms)
    for q in (0.0, 0.5, 0.9, 0.99, 1.0):
        exact = sorted(drawn)[max(0, round(q * len(drawn)) - 1)]
        assert latencies.quantile(q) == pytest.approx(exact, rel=0.01)
    assert latencies.max_ms == max(drawn)


def test_no_calls_have_no_quantile() -> None:
    assert Latencies().quantile(0.5) is None
