"""Small worlds with folds and Carries, completely visited; and the same with one rule broken, which must be found."""

from collections.abc import Callable

import pytest

from epoxy.model import records
from epoxy.model.messages import CommitConflict, CommitOk
from epoxy.model.records import FRESH, KeyState, Proposal, Settled
from epoxy.model.writes import Outcome, Write
from epoxy.protocol.keys import acceptor, carrying, folding, local, proposer
from epoxy.protocol.keys.folding import ABSENT, UNKNOWN
from epoxy.protocol.keys.operations import Fold, PendingWrite
from epoxy_sim.keys.exhaustive import explore
from epoxy_sim.keys.exhaustive_folds import FoldWorld

Learn = Callable[[KeyState, Proposal], acceptor.Step]


def put(value: str, if_version: int | None = None) -> Write:
    return Write(key=b"k", value=value.encode(), mutable=True, if_version=if_version)


DELETE = Write(key=b"k", value=None, mutable=True)
ADD = Write(key=b"k", value=None, mutable=True, amount=1)
RESERVE = Write(key=b"k", value=b"r")

RIVALS = ((1, put("a")), (2, put("b")))
DELETED = ((1, DELETE), (2, put("b")))
BEFORE_AND_AFTER = ((1, put("a")), (2, put("b")), (2, put("c")))
PUT_AND_DELETED = ((1, put("a")), (1, DELETE))

CARRIED = FoldWorld(n=3, recoveries=0, carries=1, writes=RIVALS)
CARRIED_DELETE = FoldWorld(n=3, recoveries=0, carries=1, writes=DELETED)
CARRIED_PAST = FoldWorld(n=3, recoveries=0, carries=1, writes=BEFORE_AND_AFTER)
CARRIED_BEFORE_RESTART = FoldWorld(n=3, recoveries=0, carries=1, restarts=1, writes=RIVALS)
LEFT_OPEN = FoldWorld(n=3, recoveries=1, carries=1, epochs=1, writes=PUT_AND_DELETED)
TWO_AND_ONE = FoldWorld(n=3, recoveries=0, writes=((1, put("a")), (1, put("A")), (2, put("b"))))

COMPLETE = [
    (FoldWorld(n=3, recoveries=1, writes=RIVALS), 1_906, 5_432, 16),
    (TWO_AND_ONE, 2_131, 4_506, 19),
    (CARRIED, 2_498, 6_286, 17),
    (CARRIED_DELETE, 1_235, 3_300, 16),
    (CARRIED_BEFORE_RESTART, 8_250, 23_496, 18),
    (LEFT_OPEN, 60_288, 214_428, 22),
    (FoldWorld(n=3, recoveries=1, carries=1, writes=RIVALS), 37_048, 117_392, 22),
    (FoldWorld(n=3, recoveries=0, carries=2, writes=RIVALS), 32_654, 98_922, 21),
    (FoldWorld(n=3, recoveries=0, carries=1, proposers=(1, 2, 3), writes=RIVALS), 4_846, 12_002, 18),
    (FoldWorld(n=3, recoveries=0, carries=1, writes=((1, put("a", 1)), (2, put("b")))), 1_235, 3_300, 16),
    (FoldWorld(n=3, recoveries=0, carries=1, writes=((1, ADD), (2, ADD))), 2_564, 6_392, 17),
    (FoldWorld(n=3, recoveries=0, carries=1, writes=((1, put("a")), (2, RESERVE))), 485, 1_257, 11),
    (FoldWorld(n=5, recoveries=0, carries=1, writes=RIVALS), 16_477, 71_544, 23),
]
"""World, states, transitions, depth. A change of a number is a change of the protocol, or of what is explored."""


@pytest.mark.parametrize(("world", "states", "transitions", "depth"), COMPLETE)
def test_every_state_keeps_the_promises(world: FoldWorld, states: int, transitions: int, depth: int) -> None:
    found = explore(world)
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert (found.states, found.transitions, found.depth) == (states, transitions, depth)


# Planted faults


def no_look_into_the_lineage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(local, "may_be_decided", lambda *_: False)


def floor_by_the_folder(patch: pytest.MonkeyPatch) -> None:
    def place(pending: PendingWrite, committed: Proposal | None, _: tuple[Settled, ...]) -> int:
        pending.floor = committed.version if committed is not None else 0
        return ABSENT

    patch.setattr(carrying, "place", place)


def gap_ignored(patch: pytest.MonkeyPatch) -> None:
    def find(pending: PendingWrite, committed: Proposal, lineage: tuple[Settled, ...]) -> int:
        versions = [folding.version_in(each, pending.proposal_id) for each in folding.decisions(committed, lineage)]
        reaches = (lineage[-1] if lineage else committed).base <= pending.floor
        return max(versions) if any(versions) or reaches else UNKNOWN

    for module in (proposer, carrying):
        patch.setattr(module, "find", find)


def refusal_told(patch: pytest.MonkeyPatch) -> None:
    def tellable(_: PendingWrite, outcome: Outcome) -> Outcome:
        return outcome

    patch.setattr(proposer, "tellable", tellable)


def copy_for_an_earlier_life_declined(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(carrying, "was_taken_by_none", lambda _: True)


def fold_of_an_old_epoch_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposer.FoldIntent, "leave_open", lambda _: None)


def votes_below_the_committed_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acceptor, "already_decided", lambda *_: None)


def votes_above_the_committed_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acceptor, "missed_a_commit", lambda *_: None)


TWICE = "took effect twice"

FAULTS = [
    (no_look_into_the_lineage, CARRIED, TWICE),
    (floor_by_the_folder, CARRIED, TWICE),
    (gap_ignored, CARRIED_PAST, TWICE),
    (refusal_told, CARRIED_DELETE, "took effect after it was refused"),
    (copy_for_an_earlier_life_declined, CARRIED_BEFORE_RESTART, TWICE),
    (fold_of_an_old_epoch_forgotten, LEFT_OPEN, "refused"),
    (votes_below_the_committed_version, TWO_AND_ONE, "two values decided"),
    (votes_above_the_committed_version, TWO_AND_ONE, "two values decided"),
]
"""Fault, world, and what is found."""


@pytest.mark.parametrize(("fault", "world", "what"), FAULTS)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], world: FoldWorld, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "assert_well_formed", lambda *_: None)
    fault(monkeypatch)
    found = explore(world)
    assert found.violation is not None, f"{fault.__name__} survived"
    assert what in found.violation.what, str(found.violation)


def overlaps_learned(state: KeyState, decided: Proposal) -> acceptor.Step:
    return acceptor.commit(state, decided), CommitOk()


@pytest.mark.parametrize(("learn", "is_found"), [(acceptor.learn, True), (overlaps_learned, False)])
def test_a_commit_that_overlaps_is_not_learned(learn: Learn, is_found: bool) -> None:
    """Without another fault there is none, so it is made here."""
    world = FoldWorld(n=3, recoveries=0, writes=BEFORE_AND_AFTER)
    first = folding.fold(pending(world, 1), None, 2)
    both = folding.fold(pending(world, 1, 2), None, 2)
    assert isinstance(first, Fold)
    assert isinstance(both, Fold)
    state, _ = acceptor.learn(FRESH, first.proposal)
    after, reply = learn(state, both.proposal)
    assert (isinstance(reply, CommitConflict), after == state) == (is_found, is_found)


def pending(world: FoldWorld, *numbers: int) -> list[PendingWrite]:
    return [PendingWrite(write=world.writes[number][1], proposal_id=world.proposal_id(number)) for number in numbers]
