"""Sets of instances, and what no instance of the ordered engine may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import NOTHING, Command, Deps, Instance, InstanceId, Phase, end_key
from epoxy.model.transactions import Get, Put, Txn

IDS = st.builds(InstanceId, st.integers(1, 3), st.integers(1, 5))
COMMAND = Command(txns=(Txn(then=(Put(key=b"k", value=b"value"),)),))
HERE = InstanceId(1, 1)


@given(st.frozensets(IDS), st.dictionaries(st.integers(1, 3), st.integers(1, 5)))
def test_a_set_contains_its_ranges_and_its_members(also: frozenset[InstanceId], upto: dict[int, int]) -> None:
    known = Deps(upto=tuple(InstanceId(*end) for end in sorted(upto.items())))
    deps = known.plus(also)
    for replica in (1, 2, 3):
        for slot in range(1, 7):
            each = InstanceId(replica, slot)
            assert (each in deps) == (slot <= upto.get(replica, 0) or each in also)


@given(st.frozensets(IDS), st.frozensets(IDS))
def test_equal_sets_have_equal_fields(one: frozenset[InstanceId], other: frozenset[InstanceId]) -> None:
    floor = Deps(upto=(InstanceId(1, 3),))
    assert floor.plus(one).plus(other) == floor.plus(other).plus(one) == floor.plus(one | other)
    assert floor.plus(one).plus(one) == floor.plus(one)


def test_a_command_touches_what_its_transactions_touch() -> None:
    reads, writes = Txn(then=(Get(key=b"a"),), reads=(b"b",)), Txn(then=(Put(key=b"a", value=b"12"),))
    command = Command(txns=(reads, writes))
    assert command.footprint == {b"a": True, b"b": False}
    assert command.size == reads.size + writes.size == 5


@pytest.mark.parametrize(
    "fields",
    [
        {"accepted": Ballot(1, 1)},
        {"phase": Phase.ACCEPTED, "nop": True},
        {"phase": Phase.ACCEPTED, "deps": NOTHING},
        {"phase": Phase.COMMITTED, "deps": NOTHING},
        {"phase": Phase.PREACCEPTED, "command": COMMAND, "deps": NOTHING},
        {"phase": Phase.PREACCEPTED, "deps": NOTHING, "initial": NOTHING},
    ],
    ids=lambda fields: " ".join(fields),
)
def test_an_instance_that_cannot_be(fields: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        Instance(id=HERE, **fields)  # type: ignore[arg-type]


def test_a_nop_keeps_its_command_and_chooses_none() -> None:
    nop = Instance(id=HERE, phase=Phase.COMMITTED, nop=True, command=COMMAND, deps=NOTHING)
    assert (nop.is_committed, nop.chosen, nop.command) == (True, None, COMMAND)
    assert Instance(id=HERE, command=COMMAND).chosen == COMMAND
    assert Instance(id=HERE).ballot == NO_BALLOT


def test_ends_of_terms_sort_like_terms() -> None:
    assert end_key(255) < end_key(256)
    assert end_key(1) == b"\xff/ordered/end/" + bytes(7) + b"\x01"
