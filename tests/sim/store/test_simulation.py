"""Runs of the store alone: they hold, they are functions of their seed, and every damage is judged."""

from collections import Counter

import pytest

from epoxy_sim.store.campaign import StoreSetup
from epoxy_sim.store.generate import generate
from epoxy_sim.store.plan import StorePlan, StoreStep, StoreStepKind
from epoxy_sim.store.simulation import StoreSimulation

SEEDS = range(150)
COMMIT = StoreStep(kind=StoreStepKind.COMMIT, rows=((0, 20), (1, 600), (2, 1500)))
WAIT = StoreStep(kind=StoreStepKind.WAIT, share=5.0)
CRASH = StoreStep(kind=StoreStepKind.CRASH)


def plan(*steps: StoreStep, seed: int = 1) -> StorePlan:
    return StorePlan(seed=seed, log_bytes=8192, steps=steps)


def done(kind: StoreStepKind) -> StoreStep:
    return StoreStep(kind=kind)


def test_runs_hold_and_meet_everything() -> None:
    setup, struck, verdicts = StoreSetup(), Counter[str](), Counter[str]()
    for seed in SEEDS:
        report = setup.run(setup.plan(seed))
        assert report.failure is None, (seed, report.failure)
        struck.update(report.faults)
        verdicts.update(report.verdicts)
    usual = StoreStepKind.COMMIT, StoreStepKind.DELAYED, StoreStepKind.WAIT
    kinds = [kind.value for kind in StoreStepKind if kind not in usual]
    assert set(struck) == set(kinds)
    assert set(verdicts) == {"refused", "lower position", "rotten rows", "scrubbed"}


def test_a_run_is_a_function_of_its_plan() -> None:
    setup = StoreSetup()
    for seed in range(20):
        first, second = (setup.run(setup.plan(seed), tracing=True) for _ in range(2))
        assert first.trace == second.trace
        assert setup.digest(first) == setup.digest(second)


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (StoreStepKind.FLIP, "refused"),
        (StoreStepKind.SHORTEN, "refused"),
        (StoreStepKind.ZERO, "lower position"),
    ],
)
def test_damage_of_the_log_is_noticed(kind: StoreStepKind, verdict: str) -> None:
    verdicts = Counter[str]()
    for seed in range(20):
        report = StoreSimulation.run(plan(COMMIT, WAIT, done(kind), seed=seed))
        assert report.failure is None, report.failure
        verdicts.update(report.verdicts)
    assert verdicts[verdict] >= 15, "the rest struck what was never written"


def test_an_old_copy_and_a_lie_are_noticed_by_the_position() -> None:
    copied = plan(COMMIT, WAIT, done(StoreStepKind.COPY), COMMIT, WAIT, done(StoreStepKind.RESTORE))
    lied = plan(COMMIT, WAIT, done(StoreStepKind.LIE), COMMIT, WAIT, CRASH)
    assert StoreSimulation.run(copied).verdicts == {"lower position": 1}
    assert StoreSimulation.run(lied).verdicts == {"lower position": 1}


def test_a_failing_plan_shrinks() -> None:
    setup = StoreSetup(mutant="acknowledges-early")
    with setup.planted():
        report = setup.run(setup.plan(0))
        assert report.failure is not None
        shrunk = setup.shrink(setup.plan(0), report.failure.rule)
    assert shrunk.report.plan.size < setup.plan(0).size
    assert next(iter(setup.describe(shrunk.report.plan))).startswith("segments of")


def test_plans_differ_by_seed() -> None:
    assert len({generate(seed).steps for seed in range(50)}) == 50
