"""The load generator: latencies, and counts of what a fake node answered."""

import json
import random

import pytest

from epoxy.cli.load import Latencies
from epoxy.cli.main import run
from tests.client.fake import FakeNode, hang_up, problem

Captured = pytest.CaptureFixture[str]


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
