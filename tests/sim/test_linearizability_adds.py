"""The checker against literal histories with adds, get-and-set, and refusals of writes that took effect."""

import pytest

from epoxy_sim.history import (
    Absent,
    Add,
    Delete,
    Found,
    Immutable,
    Mismatch,
    Missing,
    NotAnInteger,
    Put,
    Reserve,
    Unknown,
    Won,
)
from epoxy_sim.linearizability import Linearizable
from tests.sim.histories import A, B, C, Row, added, explains, history, judge, oracle, read, told, won

PUT_A, PUT_B, PUT_C = Put(value=A), Put(value=B), Put(value=C)
TAKE_A = Reserve(value=A)
ADD, ADD_5 = Add(amount=1), Add(amount=5)
SWAP_B = Put(value=B, returning=True)
PUT_7 = Put(value=b"7")


def swapped(kind: Put | Delete | Add, invoked: int, returned: int, version: int, before: bytes | None) -> Row:
    """A write that is told what was there before it."""
    previous = Absent(version=version - 1) if before is None else Found(value=before, version=version - 1, mutable=True)
    return told(kind, invoked, returned, Won(version=version, previous=previous))


GOOD: dict[str, list[Row]] = {
    "adds beside each other, against the order of invocation": [
        added(ADD, 0, 9, 2, 6),
        added(ADD_5, 1, 8, 1, 5),
        read(10, 11, b"6", 2),
    ],
    "an add to a number that was put, and to a tombstone": [
        won(PUT_7, 0, 1, 1),
        added(Add(amount=-8), 2, 3, 2, -1),
        won(Delete(), 4, 5, 3),
        added(ADD, 6, 7, 4, 1),
    ],
    "an add over the expected version": [added(ADD, 0, 1, 1, 1), added(Add(amount=1, if_version=1), 2, 3, 2, 2)],
    "an add that expects another version": [
        added(ADD, 0, 1, 1, 1),
        told(Add(amount=1, if_version=0), 2, 3, Mismatch(version=1)),
    ],
    "an add meets a word": [won(PUT_A, 0, 1, 1), told(ADD, 2, 3, NotAnInteger(version=1)), read(4, 5, A, 1)],
    "an add that would overflow": [
        won(Put(value=b"%d" % ((1 << 63) - 5)), 0, 1, 1),
        told(ADD_5, 2, 3, NotAnInteger(version=1)),
        added(ADD, 4, 5, 2, (1 << 63) - 4),
    ],
    "an add meets an immutable key": [won(TAKE_A, 0, 1, 1), told(ADD, 2, 3, Immutable(version=1))],
    "an unknown add is counted": [told(ADD_5, 0, 1, Unknown()), added(ADD, 2, 3, 2, 6)],
    "an unknown add is not counted": [told(ADD_5, 0, 1, Unknown()), added(ADD, 2, 3, 1, 1)],
    "the right one of two unknown adds": [
        told(ADD, 0, 1, Unknown()),
        told(ADD_5, 0, 1, Unknown()),
        added(ADD, 2, 3, 2, 6),
    ],
    "an unknown put shows in a sum": [
        told(PUT_7, 0, 1, Unknown()),
        told(PUT_A, 0, 1, Unknown()),
        added(ADD, 2, 3, 2, 8),
    ],
    "an unknown put is in the way of an add": [
        told(PUT_7, 0, 1, Unknown()),
        told(PUT_A, 0, 1, Unknown()),
        told(ADD, 2, 3, NotAnInteger(version=1)),
    ],
    "get-and-set tells what was there": [
        swapped(SWAP_B, 0, 1, 1, None),
        swapped(SWAP_B, 2, 3, 2, B),
        swapped(Delete(returning=True), 4, 5, 3, B),
        swapped(SWAP_B, 6, 7, 4, None),
    ],
    "get-and-set beside a put": [won(PUT_A, 0, 9, 1), swapped(SWAP_B, 0, 9, 2, A)],
    "an unknown put is what was there": [told(PUT_A, 0, 1, Unknown()), swapped(SWAP_B, 2, 3, 2, A)],
}


BAD: dict[str, list[Row]] = {
    "an add counted twice": [added(ADD, 0, 1, 1, 1), read(2, 3, b"2", 2)],
    "an add counted twice at one version": [added(ADD_5, 0, 1, 1, 5), added(ADD, 2, 3, 2, 11)],
    "an unknown add counted twice": [told(ADD_5, 0, 1, Unknown()), added(ADD, 2, 3, 3, 11)],
    "an add lost": [added(ADD, 0, 1, 1, 1), added(ADD, 2, 3, 1, 1)],
    "an add lost although versions go on": [added(ADD_5, 0, 1, 1, 5), added(ADD, 2, 3, 2, 1)],
    "a wrong number": [added(ADD, 0, 1, 1, 2)],
    "a number of before": [added(ADD, 0, 9, 1, 1), added(ADD, 0, 9, 2, 1)],
    "a number not told": [told(ADD, 0, 1, Won(version=1))],
    "a put that tells a number": [told(PUT_7, 0, 1, Won(version=1, value=b"7"))],
    "an add refused as no integer at a number": [won(PUT_7, 0, 1, 1), told(ADD, 2, 3, NotAnInteger(version=1))],
    "an add refused at a word that was never put": [told(ADD, 0, 1, NotAnInteger(version=0))],
    "an add refused that was counted": [
        won(PUT_A, 0, 1, 1),
        won(PUT_7, 2, 9, 2),
        told(ADD, 2, 9, NotAnInteger(version=1)),
        read(10, 11, b"8", 3),
    ],
    "an add to a word": [won(PUT_A, 0, 1, 1), added(ADD, 2, 3, 2, 1)],
    "an add to a number in another spelling": [won(Put(value=b"07"), 0, 1, 1), added(ADD, 2, 3, 2, 8)],
    "an add beyond 64 bits": [won(Put(value=b"%d" % ((1 << 63) - 1)), 0, 1, 1), added(ADD, 2, 3, 2, 1 << 63)],
    "an add over an unexpected version": [added(ADD, 0, 1, 1, 1), added(Add(amount=1, if_version=0), 2, 3, 2, 2)],
    "an unknown add of another amount": [told(ADD, 0, 1, Unknown()), added(ADD, 2, 3, 2, 6)],
    "an unknown add to a word": [won(PUT_A, 0, 1, 1), told(ADD, 2, 3, Unknown()), read(4, 5, b"1", 2)],
    "a wrong previous value": [won(PUT_A, 0, 1, 1), swapped(SWAP_B, 2, 3, 2, C)],
    "the previous value of an earlier version": [
        won(PUT_A, 0, 1, 1),
        won(PUT_C, 2, 3, 2),
        told(SWAP_B, 4, 5, Won(version=3, previous=Found(value=A, version=1, mutable=True))),
    ],
    "nothing before, although there was": [won(PUT_A, 0, 1, 1), swapped(SWAP_B, 2, 3, 2, None)],
    "something before, although there was nothing": [swapped(SWAP_B, 0, 1, 1, A)],
    "get-and-set that does not tell": [won(SWAP_B, 0, 1, 1)],
    "a plain put that tells": [swapped(PUT_B, 0, 1, 1, None)],
    "two get-and-sets of one value": [
        won(PUT_A, 0, 1, 1),
        swapped(SWAP_B, 2, 9, 2, A),
        told(SWAP_B, 2, 9, Won(version=3, previous=Found(value=A, version=2, mutable=True))),
    ],
    "a mismatch told for a write that took effect": [
        told(Put(value=A, if_version=0), 0, 1, Mismatch(version=1)),
        read(2, 3, A, 1),
    ],
    "nothing to delete, told for a delete that took effect": [
        won(PUT_A, 0, 9, 1),
        told(Delete(), 0, 9, Missing(version=0)),
        read(10, 11, None, 2),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_is_explained(name: str) -> None:
    operations = history(*GOOD[name])
    verdict = judge(operations)
    assert isinstance(verdict, Linearizable), verdict.explain()
    assert explains(operations, verdict.order)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_refused(name: str) -> None:
    operations = history(*BAD[name])
    assert not isinstance(judge(operations), Linearizable)
    assert not oracle(operations)
