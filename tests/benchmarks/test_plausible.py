"""Benchmarks refuse what cannot be. Each judge is shown an impossibility, and the most that is still possible."""

import pytest

from benchmarks import distances, plausible
from benchmarks.failover import DOWN_AFTER_MS, SILENCE_MS
from benchmarks.load import Sample
from benchmarks.plausible import Impossible
from benchmarks.suite.job import AtNode, Job, Latency, Outcome, Wire
from benchmarks.suite.measure import honest
from benchmarks.txn import check_rate

FLOORS = {"here": 70.0, "there": 152.0}


def samples(here_ms: float, there_ms: float) -> list[Sample]:
    return [Sample("here", 0.0, here_ms, True), Sample("there", 0.0, there_ms, True)]


def test_a_commit_below_its_floor_ends_the_wan_benchmark() -> None:
    near = samples(69.1, 155.0)
    assert distances.honest("Epoxy", near, FLOORS) is near
    with pytest.raises(Impossible, match=r"Epoxy in there: 4\.0 ms, and nothing can take less than 152\.0 ms"):
        distances.honest("Epoxy", samples(75.0, 4.0), FLOORS)


def test_a_failed_write_has_no_floor() -> None:
    distances.honest("Epoxy", [*samples(75.0, 155.0), Sample("there", 0.0, 2.0, False)], FLOORS)


def test_a_region_that_answered_nothing_ends_the_wan_benchmark() -> None:
    with pytest.raises(Impossible, match="nothing came from there"):
        distances.honest("Epoxy", samples(75.0, 155.0)[:1], FLOORS)
    with pytest.raises(Impossible, match="nothing came from there"):
        distances.honest("Epoxy", [*samples(75.0, 155.0)[:1], Sample("there", 0.0, 155.0, False)], FLOORS)


def test_a_link_that_carried_nothing_ends_the_wan_benchmark() -> None:
    before = {"a>b": 100, "b>a": 100}
    plausible.all_answered("links", distances.grown(before, {"a>b": 150, "b>a": 101}))
    with pytest.raises(Impossible, match="nothing came from b>a"):
        plausible.all_answered("links", distances.grown(before, {"a>b": 150, "b>a": 100}))
    with pytest.raises(Impossible, match="nothing came from any source"):
        plausible.all_answered("links", {})


JOB = Job(wire=Wire.RESP, ports=(1, 2, 3), steps=(), clients=4, pipeline=2, seconds=2.0)


def outcome(operations: int, mean_ms: float, *, cpu_s: float = 1.0, silent: bool = False) -> Outcome:
    latency = Latency(mean=mean_ms, p50=mean_ms, p99=mean_ms, most=mean_ms)
    at = [AtNode(operations=operations // 3, latency=latency) for _ in range(3)]
    if silent:
        at[1] = AtNode(operations=0, latency=Latency())
    return Outcome(
        operations=operations,
        seconds=2.0,
        latency=latency,
        nodes=tuple(at),
        faults={},
        unanswered=0,
        answered=operations,
        server_cpu_s=1.0,
        generator_cpu_s=cpu_s,
        stolen_share=0.0,
        others_share=0.0,
    )


def test_a_rate_above_what_was_sent_ends_the_suite() -> None:
    """Eight under way for 2 s, 10 ms each: 1,600, and 8 that were under way before."""
    possible = outcome(1_608, 10.0)
    assert honest("x", JOB, possible) is possible
    with pytest.raises(Impossible, match="more than 8 requests under way can have"):
        honest("x", JOB, outcome(1_700, 10.0))


def test_a_generator_that_used_more_than_its_core_ends_the_suite() -> None:
    honest("x", JOB, outcome(1_600, 10.0, cpu_s=2.0))
    with pytest.raises(Impossible, match=r"used 2\.20 s of CPU in 2\.00 s"):
        honest("x", JOB, outcome(1_600, 10.0, cpu_s=2.2))


def test_a_node_that_answered_nothing_ends_the_suite() -> None:
    with pytest.raises(Impossible, match="nothing came from node 2"):
        honest("x", JOB, outcome(1_200, 10.0, silent=True))


def test_a_node_that_nobody_asked_may_be_silent() -> None:
    alone = Job(wire=Wire.RESP, ports=(1, 2, 3), steps=(), clients=1, seconds=2.0)
    honest("x", alone, outcome(150, 10.0, silent=True))


def test_transactions_have_a_rate_that_their_clients_can_ask_for() -> None:
    check_rate("x", 4, [10.0] * 2_400)
    with pytest.raises(Impossible, match="more than 4 requests"):
        check_rate("x", 4, [10.0] * 2_600)
    with pytest.raises(Impossible, match="nothing came from the node"):
        check_rate("x", 4, [])


def test_nobody_is_replaced_before_it_was_missed() -> None:
    assert 0 < SILENCE_MS < DOWN_AFTER_MS
    with pytest.raises(Impossible, match="nothing can take less than"):
        plausible.above_floor("machine lost", [0.1 * DOWN_AFTER_MS], SILENCE_MS)


def test_a_copy_whose_end_was_never_seen_has_no_rate() -> None:
    plausible.took_time("the copy", 0.5)
    with pytest.raises(Impossible, match="was never seen"):
        plausible.took_time("the copy", -12.0)
