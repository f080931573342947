"""Every planted fault of the store is caught. The seed that docs/testing.md names is tried first."""

import re
from pathlib import Path

import pytest

from epoxy_sim.mutation_testing import chase
from epoxy_sim.store.campaign import StoreSetup
from epoxy_sim.store.mutants import MUTANTS

TABLE = Path(__file__).parents[3] / "docs" / "testing.md"
KNOWN = {name: int(seed) for name, seed in re.findall(r"^\| ([\w-]+) \|.*\| seed (\d+) \|", TABLE.read_text(), re.M)}

pytestmark = pytest.mark.pure("replaces functions of the store")


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    """And for what was planted: the seed is harmless without it."""
    seed: int | None = KNOWN[name]
    setup = StoreSetup(mutant=name)
    with setup.planted():
        shows = setup.run(setup.plan(KNOWN[name])).failure is not None
    if not shows:
        catch = chase(setup)
        assert catch.rule is not None, f"{name} survived"
        seed = catch.seed
    harmless = StoreSetup()
    assert seed is not None
    assert harmless.run(harmless.plan(seed)).failure is None
