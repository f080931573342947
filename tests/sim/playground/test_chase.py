"""Runs one at a time are those of the command line; a failure is shown with its shortest trace."""

import pytest

from epoxy_sim.keys.plan import has_embedded_store
from epoxy_sim.members.campaign import Setup
from epoxy_sim.playground.chase import (
    SHRINK_EVENTS,
    TraceLine,
    run_seed,
    setup_of,
    shortest,
    trace_lines,
)
from epoxy_sim.playground.rules import FINDINGS, RULES

MOST_SEEDS = 30


@pytest.mark.parametrize("workload", ["per-key", "mutable", "hot"])
def test_a_run_is_that_of_the_command_line(workload: str) -> None:
    setup = Setup(workload=workload)
    report = setup.run(setup.plan(2))
    result = run_seed(2, workload=workload)
    assert (result.failure, result.skipped) == (None, False)
    assert (result.messages, result.virtual_ms) == (report.messages, report.virtual_us / 1000)


def test_seeds_with_the_embedded_store_are_left_out() -> None:
    assert run_seed(1).skipped is has_embedded_store(1) is True


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.mutant)
def test_every_rule_that_may_be_broken_is_caught_soon(rule: object) -> None:
    mutant, begin = rule.mutant, rule.begin  # type: ignore[attr-defined]
    results = (run_seed(seed, mutant=mutant) for seed in range(begin, begin + MOST_SEEDS))
    caught = next(result for result in results if result.failure is not None)
    assert caught.failure is not None
    assert caught.failure.rule in FINDINGS
    assert run_seed(caught.seed, workload=setup_of(None, mutant).workload).failure is None


def test_the_shortest_trace_of_a_planted_fault() -> None:
    found = shortest(4, mutant="fast-quorum-too-small")
    assert found is not None
    assert found.failure.rule == "agreement"
    assert found.complete
    assert found.left_off == 0
    assert any(line.sender and line.to for line in found.trace)
    assert any("is told" in line.text for line in found.trace)
    assert found.command == "epoxy sim per-key --replay 4 --mutant fast-quorum-too-small"
    assert any("replicas on a line" in line for line in found.plan)


def test_a_seed_that_holds_has_no_trace() -> None:
    assert shortest(0) is None
    assert SHRINK_EVENTS > 0


def test_lines_of_a_trace() -> None:
    lines = [
        "     1.500 ms  A -> B (lost), C: Accept ballot (1,A)",
        "     2.000 ms  A <- C: AcceptOk (lost)",
        "     3.000 ms  c1 asks A, operation 1: key-0 reserve b'1'",
    ]
    assert list(trace_lines(lines)) == [
        TraceLine(ms=1.5, text="Accept ballot (1,A)", sender="A", to=("B", "C"), lost=("B",)),
        TraceLine(ms=2.0, text="AcceptOk", sender="C", to=("A",), lost=("A",), is_reply=True),
        TraceLine(ms=3.0, text="c1 asks A, operation 1: key-0 reserve b'1'"),
    ]
