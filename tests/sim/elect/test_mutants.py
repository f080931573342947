"""Every planted fault of elections is caught, the nine of the original text first."""

import pytest

from epoxy_sim.elect.campaign import ElectSetup
from epoxy_sim.elect.generate import generate
from epoxy_sim.elect.mutants import AS_DESCRIBED, MUTANTS
from epoxy_sim.elect.simulation import run
from epoxy_sim.mutation_testing import chase


def test_each_of_the_nine_faults_has_its_mutant() -> None:
    assert {name[0] for name in MUTANTS if name[0].isdigit()} == set("123456789")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    """And for what was planted: the seed is harmless without it."""
    catch = chase(ElectSetup(mutant=name))
    assert catch.rule is not None, f"{name} survived {catch.tried} runs"
    assert catch.seed is not None
    assert run(generate(catch.seed)).failure is None


def test_the_rules_as_described_break_and_shrink_to_a_short_story() -> None:
    setup = ElectSetup(mutant=AS_DESCRIBED)
    with setup.planted():
        plan, failure = next(
            (plan, failure) for plan in map(generate, range(100)) if (failure := run(plan).failure) is not None
        )
        shrunk = setup.shrink(plan, failure.rule, limit_events=300_000)
    assert shrunk.report.failure is not None
    assert shrunk.report.failure.rule == failure.rule == "two unfenced primaries"
    assert shrunk.report.plan.n <= 3
    assert len(shrunk.report.plan.faults) <= 2
    assert shrunk.runs > 1
