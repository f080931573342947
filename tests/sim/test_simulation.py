"""One run: whatever goes wrong in it becomes a failure with a rule, and the report has what every protocol counts."""

from typing import Any

import pytest
from msgspec import Struct

from epoxy_sim.simulation import Failure, Simulation, Violation, failure_of


def broken_rule() -> None:
    raise Violation("agreement", "two values")


def silent_assertion() -> None:
    raise AssertionError


def loud_assertion() -> None:
    raise AssertionError("a vote below the promise")


def crash() -> None:
    raise KeyError("k")


@pytest.mark.parametrize(
    ("part", "rule", "detail"),
    [
        (broken_rule, "agreement", "two values"),
        (loud_assertion, "assertion", "a vote below the promise"),
        (crash, "KeyError", "the engine raised KeyError('k')"),
    ],
)
def test_every_exception_is_a_failure_with_a_rule(part: Any, rule: str, detail: str) -> None:
    assert failure_of(lambda: None, part, broken_rule) == Failure(rule=rule, detail=detail)


def test_an_assertion_without_words_has_a_detail_too() -> None:
    failure = failure_of(silent_assertion)
    assert failure is not None
    assert failure.rule == "assertion"
    assert failure.detail


def test_without_an_exception_there_is_no_failure() -> None:
    done: list[int] = []
    assert failure_of(lambda: done.append(1), lambda: done.append(2)) is None
    assert done == [1, 2]


class TickPlan(Struct, frozen=True, kw_only=True):
    seed: int
    ticks: int

    @property
    def size(self) -> int:
        return self.ticks


class Wire:
    sent = 7


class TickSimulation(Simulation[TickPlan]):
    """Fails in play at 13 ticks, in judgement at an even number of them."""

    def __init__(self, plan: TickPlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.network = Wire()

    def play(self) -> None:
        for i in range(self.plan.ticks):
            self.world.after(1_000 * i, lambda i=i: self.world.note(f"tick {i}"))  # type: ignore[misc]
        self.world.run_until(lambda: False, 1_000_000)
        if self.plan.ticks == 13:
            raise Violation("luck", "thirteen")

    def judge_all(self) -> None:
        if self.plan.ticks % 2 == 0:
            raise Violation("parity", f"{self.plan.ticks}")

    def counts(self) -> dict[str, Any]:
        return {"operations": self.plan.ticks, "paths": {}, "faults": {"none": 0}}


def test_a_report_has_the_world_the_network_and_what_the_protocol_counts() -> None:
    report = TickSimulation.run(TickPlan(seed=1, ticks=3))
    assert (report.failure, report.trace) == (None, None)
    assert (report.virtual_us, report.events, report.messages, report.operations) == (2_000, 3, 7, 3)
    assert (report.faults, report.verdicts, report.history) == ({"none": 0}, {}, [])


def test_a_report_of_a_failed_run_still_counts_and_traces() -> None:
    late = TickSimulation.run(TickPlan(seed=1, ticks=2), tracing=True)
    assert late.failure == Failure(rule="parity", detail="2")
    assert [line.split("  ")[-1] for line in late.trace or []] == ["tick 0", "tick 1"]
    early = TickSimulation.run(TickPlan(seed=1, ticks=13))
    assert early.failure == Failure(rule="luck", detail="thirteen")
    assert early.events == 13
