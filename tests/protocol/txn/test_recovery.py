"""Which decision an earlier ballot may have made: rule 6 as a table, rule 7, and waiting."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import NOTHING, Deps, Instance, InstanceId, OrderedCommit, Phase, Recover, Rival
from epoxy.model.quorum import quorums
from epoxy.protocol.txn.effects import Seen
from epoxy.protocol.txn.recovery import NOP, FastPathCheck, Learn, Propose, check_rivals, choose, rule_out
from tests.protocol.txn.cluster import write

ID, OTHER = InstanceId(1, 1), InstanceId(2, 1)
COMMAND = write()
MORE = Deps(also=(OTHER,))

UNKNOWN = Instance(id=ID)
EQUAL = Instance(id=ID, phase=Phase.PREACCEPTED, command=COMMAND, deps=NOTHING, initial=NOTHING)
ADDED = Instance(id=ID, phase=Phase.PREACCEPTED, command=COMMAND, deps=MORE, initial=NOTHING)
VOTED = Instance(id=ID, phase=Phase.ACCEPTED, command=COMMAND, deps=MORE)
LATER = Instance(
    id=ID, phase=Phase.ACCEPTED, nop=True, deps=NOTHING, ballot=Ballot(2, 3), accepted=Ballot(2, 3), command=COMMAND
)
DONE = Instance(id=ID, phase=Phase.COMMITTED, command=COMMAND, deps=MORE)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({2: UNKNOWN, 3: UNKNOWN, 4: DONE}, Learn(OrderedCommit(id=ID, command=COMMAND, deps=MORE))),
        ({2: EQUAL, 3: EQUAL, 4: VOTED}, Propose(COMMAND, MORE)),
        ({2: VOTED, 3: LATER, 4: UNKNOWN}, NOP),
        ({1: EQUAL, 2: EQUAL, 3: EQUAL}, NOP),
        ({2: EQUAL, 3: EQUAL, 4: EQUAL}, FastPathCheck(COMMAND, NOTHING, 3)),
        ({2: EQUAL, 3: ADDED, 4: UNKNOWN}, FastPathCheck(COMMAND, NOTHING, 1)),
        ({2: ADDED, 3: ADDED, 4: UNKNOWN}, NOP),
        ({2: UNKNOWN, 3: UNKNOWN, 4: UNKNOWN}, NOP),
    ],
    ids=["decided", "voted", "a later vote", "its coordinator", "all equal", "enough equal", "none equal", "unknown"],
)
def test_what_five_replicas_choose(held: dict[int, Instance], expected: object) -> None:
    assert choose(ID, held, quorums(5)) == expected


def test_seven_replicas_need_two_equal_answers() -> None:
    """n = 7: a quorum of four, e = 2."""
    assert choose(ID, {2: EQUAL, 3: ADDED, 4: ADDED, 5: UNKNOWN}, quorums(7)) == NOP
    assert choose(ID, {2: EQUAL, 3: EQUAL, 4: ADDED, 5: UNKNOWN}, quorums(7)) == FastPathCheck(COMMAND, NOTHING, 2)


def test_a_rival_rules_the_fast_path_out_if_it_is_decided_or_its_coordinator_is_not_in_the_quorum() -> None:
    asked, check = {3, 4, 5}, FastPathCheck(COMMAND, NOTHING, 1)
    pending = {OTHER: Rival(id=OTHER, is_committed=False)}
    decided = {OTHER: Rival(id=OTHER, is_committed=True)}
    assert rule_out(decided, FastPathCheck(COMMAND, NOTHING, 3), asked, quorums(5))
    assert rule_out(pending, check, asked, quorums(5))
    assert not rule_out(pending, check, {2, 4, 5}, quorums(5)), "the rival's coordinator is among those asked"
    assert not rule_out(pending, FastPathCheck(COMMAND, NOTHING, 2), asked, quorums(5))


def seen(rival: Instance, waiting: int = 0) -> Seen:
    return Seen(instances=(EQUAL, rival), waiting=(0, waiting))


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (seen(Instance(id=OTHER)), None),
        (seen(Instance(id=OTHER, phase=Phase.COMMITTED, nop=True, deps=NOTHING)), Propose(COMMAND, NOTHING)),
        (
            seen(Instance(id=OTHER, phase=Phase.COMMITTED, command=COMMAND, deps=Deps(also=(ID,)))),
            Propose(COMMAND, NOTHING),
        ),
        (seen(Instance(id=OTHER, phase=Phase.COMMITTED, command=COMMAND, deps=NOTHING)), NOP),
        (seen(Instance(id=OTHER), waiting=1), None),
        (seen(Instance(id=OTHER), waiting=2), NOP),
        (
            Seen(instances=(DONE, Instance(id=OTHER)), waiting=(0, 0)),
            Learn(OrderedCommit(id=ID, command=COMMAND, deps=MORE)),
        ),
    ],
    ids=["open", "nothing", "comes after", "slipped past", "fewer wait", "more wait", "decided meanwhile"],
)
def test_what_waiting_ends_with(look: Seen, expected: object) -> None:
    """n = 5: the recovery with more than n - f - e = 1 equal answers goes on."""
    request = Recover(id=ID, ballot=Ballot(1, 3))
    assert check_rivals(request, FastPathCheck(COMMAND, NOTHING, 1), look, quorums(5)) == expected
    assert request.ballot > NO_BALLOT
