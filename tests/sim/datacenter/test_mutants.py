"""Every planted fault of a datacenter is caught by the seed that docs/testing.md names: a search takes minutes."""

import re
from pathlib import Path

import pytest

from epoxy_sim.datacenter.campaign import DatacenterSetup
from epoxy_sim.datacenter.mutants import MUTANTS

TABLE = Path(__file__).parents[3] / "docs" / "testing.md"
KNOWN = {name: int(seed) for name, seed in re.findall(r"^\| ([\w-]+) \|.*\| seed (\d+) \|", TABLE.read_text(), re.M)}

pytestmark = pytest.mark.pure("plants faults")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    """And for what was planted: the seed is harmless without it."""
    seed, planted, harmless = KNOWN[name], DatacenterSetup(mutant=name), DatacenterSetup()
    with planted.planted():
        failure = planted.run(planted.plan(seed)).failure
    renew = "`epoxy sim datacenter-mutants --check --markdown` looks for another seed, for docs/testing.md"
    assert failure is not None, f"{name} is not caught by seed {seed} any more: {renew}"
    assert harmless.run(harmless.plan(seed)).failure is None


def test_the_faults_that_the_design_names_are_there() -> None:
    assert {
        *("no-batch-fence", "reads-not-fenced", "memory-kept", "answers-before-commit", "two-sequences"),
        *("batch-without-number", "takes-without-fencing", "rows-kept", "hand-over-early", "no-config-fence"),
    } <= set(MUTANTS)
