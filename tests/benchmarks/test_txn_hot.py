"""What the benchmark of contended transactions sends, and what it makes of the answers."""

import msgspec
import pytest

from benchmarks import txn_hot
from benchmarks.suite.job import AtNode, Latency, Outcome
from benchmarks.suite.wires import grpc
from benchmarks.txn_hot import COUNTED, epoxy_txn, etcd_txn, found, summed
from epoxy.codec.txn_json import TxnJson

METRICS = """\
epoxy_txn_commands_total{path="fast"} 30.0
epoxy_txn_commands_total{path="slow"} 10.0
epoxy_txn_executed_total 600.0
epoxy_txn_executed_created 1.7e+09
epoxy_txn_kept 5.0
"""


def outcome(*operations: int, faults: dict[str, int] | None = None) -> Outcome:
    return Outcome(
        operations=sum(operations),
        seconds=2.0,
        latency=Latency(mean=1.0, p50=1.0, p99=4.0, most=5.0),
        nodes=tuple(AtNode(operations=each, latency=Latency()) for each in operations),
        faults=faults or {},
        unanswered=0,
        answered=sum(operations),
        server_cpu_s=0.3,
        generator_cpu_s=0.1,
        stolen_share=0.0,
        others_share=0.0,
    )


def test_both_systems_read_and_write_the_key_in_one_transaction() -> None:
    head, _, body = epoxy_txn(b"k").raw.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v2/txn ")
    asked = msgspec.json.decode(body, type=TxnJson)
    assert [operation.key for operation in asked.then] == ["k", "k"]
    assert etcd_txn(b"k").raw.count(b"\x01k") == 2
    assert etcd_txn(b"k").reply == grpc.SUCCEEDED


def test_commands_and_shares_are_counted() -> None:
    grown = {name: float(count) for name, count in COUNTED.findall(METRICS)}
    each = found(outcome(120, 90, 90, faults={"503": 2}), grown)
    assert (each.rate, each.failed) == (150.0, 2)
    assert each.least_share == pytest.approx(0.9)
    assert (each.in_command, each.fast_share) == (15.0, 0.75)
    assert found(outcome(10), {}).in_command is None


def test_rounds_are_summed_up_by_their_medians_and_all_failures() -> None:
    rounds = [found(outcome(count, faults={"503": 1}), {}) for count in (10, 100, 40)]
    assert (summed(rounds).rate, summed(rounds).failed) == (20.0, 3)


def test_nothing_to_measure_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["txn_hot", "--only", "cold"])
    with pytest.raises(SystemExit, match="nothing to measure"):
        txn_hot.main()
