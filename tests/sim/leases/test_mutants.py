"""Every planted fault of leases is caught, and clocks beyond the bound make two holders."""

import re
from pathlib import Path

import pytest

from epoxy_sim.leases.campaign import LeaseSetup
from epoxy_sim.leases.mutants import MUTANTS
from epoxy_sim.mutation_testing import chase

TABLE = Path(__file__).parents[3] / "docs" / "testing.md"
KNOWN = dict(re.findall(r"^\| ([\w-]+) \|.*\| seed (\d+) \|", TABLE.read_text(), re.M))

pytestmark = pytest.mark.pure("plants faults")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    """And for what was planted: the seed is harmless without it. Where the table knows a seed it is tried first."""
    setup = LeaseSetup(mutant=name)
    seed = int(KNOWN.get(name, 0))
    with setup.planted():
        caught = setup.run(setup.plan(seed)).failure is not None
    if not caught:
        catch = chase(setup)
        assert catch.seed is not None, f"{name} survived {catch.tried} runs"
        seed = catch.seed
    harmless = LeaseSetup()
    assert harmless.run(harmless.plan(seed)).failure is None


def test_beyond_the_bound_there_are_two_holders() -> None:
    setup = LeaseSetup(mutant="clocks-beyond-bound")
    with setup.planted():
        failure = setup.run(setup.plan(int(KNOWN["clocks-beyond-bound"]))).failure
    assert failure is not None
    assert failure.rule == "two holders"


def test_the_faults_that_the_design_names_are_there() -> None:
    assert {
        "local-expiry",
        "count-from-request",
        "no-version-condition",
        "wall-clock",
        "token-reused",
        "clocks-beyond-bound",
    } <= set(MUTANTS)
