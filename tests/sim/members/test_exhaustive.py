"""Small worlds whose members change, completely visited; and the same worlds with one rule broken."""

import pytest

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.members.exhaustive import MembersWorld, explore
from epoxy_sim.members.mutants import MUTANTS
from epoxy_sim.members.mutation_testing import CHANGES
from epoxy_sim.patching import planted

COMPLETE = [
    (MembersWorld(old=(1,), new=(2,), proposers=(1, 2), recoveries=2), 5_002, 20),
    (MembersWorld(old=(1,), new=(1, 2), proposers=(1, 2), recoveries=2), 6_124, 20),
    (MembersWorld(old=(1, 2), new=(2,), proposers=(1, 2), recoveries=2), 16_837, 21),
    (MembersWorld(old=(1, 2), new=(2, 3), proposers=(1, 3), readers=(2,), recoveries=1), 6_829, 21),
    (MembersWorld(old=(1, 2, 3), new=(2, 3), proposers=(1, 3), policy=QuorumPolicy.FAST_PAXOS), 19_451, 20),
    (CHANGES[0], 30_110, 27),
    (CHANGES[1], 55_465, 24),
]
"""World, states, depth. A change of a number is a change of the protocol, or of what is explored."""


@pytest.mark.parametrize(("world", "states", "depth"), COMPLETE)
def test_every_state_keeps_the_promises(world: MembersWorld, states: int, depth: int) -> None:
    found = explore(world)
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert (found.states, found.depth) == (states, depth)


FOUND = [
    ("no-epoch-check", CHANGES[0], 8),
    ("no-seal", CHANGES[0], 8),
    ("early-promotion", CHANGES[0], 10),
    ("new-side-only", CHANGES[0], 9),
    ("old-side-only", CHANGES[0], 14),
    ("joint-epoch-sealed", CHANGES[0], 19),
    ("old-votes-by-new-size", CHANGES[1], 15),
    ("old-fast-votes-forgotten", CHANGES[1], 15),
]


@pytest.mark.pure("plants faults")
@pytest.mark.parametrize(("mutant", "world", "steps"), FOUND)
def test_a_planted_fault_is_found(mutant: str, world: MembersWorld, steps: int) -> None:
    with planted(MUTANTS, mutant):
        found = explore(world)
    assert found.violation is not None
    assert found.violation.what.startswith("two values decided")
    assert len(found.violation.trace) == steps, str(found.violation)


def test_a_limit_cuts_off_without_claiming_completeness() -> None:
    found = explore(CHANGES[0], limit_states=1_000)
    assert not found.complete
    assert found.violation is None
