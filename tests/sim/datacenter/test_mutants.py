"""Every planted fault of a datacenter is caught. The seed that docs/testing.md names is tried first."""

import re
from pathlib import Path

import pytest

from epoxy_sim.datacenter.campaign import DatacenterSetup
from epoxy_sim.datacenter.mutants import MUTANTS
from epoxy_sim.mutation_testing import chase

TABLE = Path(__file__).parents[3] / "docs" / "testing.md"
KNOWN = {name: int(seed) for name, seed in re.findall(r"^\| ([\w-]+) \|.*\| seed (\d+) \|", TABLE.read_text(), re.M)}

pytestmark = pytest.mark.pure("plants faults")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    """And for what was planted: the seed is harmless without it."""
    seed: int | None = KNOWN.get(name, 0)
    setup = DatacenterSetup(mutant=name)
    assert seed is not None
    with setup.planted():
        shows = setup.run(setup.plan(seed)).failure is not None
    if not shows:
        catch = chase(setup)
        assert catch.rule is not None, f"{name} survived {catch.tried} runs"
        seed = catch.seed
    assert seed is not None
    harmless = DatacenterSetup()
    assert harmless.run(harmless.plan(seed)).failure is None


def test_the_faults_that_the_design_names_are_there() -> None:
    assert {
        *("no-batch-fence", "reads-not-fenced", "memory-kept", "answers-before-commit", "two-sequences"),
        *("batch-without-number", "takes-without-fencing", "rows-kept", "hand-over-early", "no-config-fence"),
    } <= set(MUTANTS)
